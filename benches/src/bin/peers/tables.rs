//! What was seen of a field, as tables.

use sless_benches::report::Table;

use crate::{
    contestants::DIRECT,
    measure::{BODIES, CONNECTIONS, Entry, Round},
};

/// Requests, latencies and processor time. Ratios are to the first that is sless: above 1, it is the better.
pub(crate) fn calls(entries: &[Entry]) -> Table {
    let mut table = Table::new([
        "body",
        "at once",
        "",
        "requests/s",
        "p50 µs",
        "added p50 µs",
        "p99 µs",
        "p99 µs at half the rate",
        "CPU µs",
        "its CPU ÷ ours",
        "our requests/s ÷ its",
    ]);
    let ours = entries.iter().find(|entry| entry.is_ours());
    let direct = entries.iter().find(|entry| entry.name == DIRECT);
    for (body, _) in BODIES {
        for connections in CONNECTIONS {
            let case = (body, connections);
            for entry in entries {
                if entry.spread(case, |round| round.cpu).median().is_none() {
                    continue;
                }
                let added = direct.map_or_else(String::new, |direct| {
                    let added = entry.against(direct, case, |a, b| a.p50 - b.p50);
                    added.show(0)
                });
                let held = |digits, of: fn(&Ratio) -> f64| {
                    ours.map_or_else(String::new, |ours| {
                        let ratio = |ours: &Round, theirs: &Round| {
                            of(&Ratio {
                                ours: *ours,
                                theirs: *theirs,
                            })
                        };
                        ours.against(entry, case, ratio).show(digits)
                    })
                };
                table.row([
                    body,
                    &connections.to_string(),
                    entry.name,
                    &entry.spread(case, |round| round.per_second).show(0),
                    &entry.spread(case, |round| round.p50).show(0),
                    &added,
                    &entry.spread(case, |round| round.p99).show(0),
                    &entry.spread(case, |round| round.p99_at_half).show(0),
                    &entry.spread(case, |round| round.cpu).show(1),
                    &held(2, |ratio| ratio.theirs.cpu / ratio.ours.cpu),
                    &held(2, |ratio| ratio.ours.per_second / ratio.theirs.per_second),
                ]);
            }
        }
    }
    table
}

/// One round of ours and one of theirs.
struct Ratio {
    ours: Round,
    theirs: Round,
}

/// Starts, memory and versions; and what did not go.
pub(crate) fn starts(entries: &[Entry]) -> Table {
    let mut table = Table::new([
        "",
        "version",
        "spawn → first 200, ms",
        "private MiB then",
        "private MiB after the load",
        "resident MiB after the load",
        "not seen",
    ]);
    let mib = |bytes: u64| match bytes {
        0 => "–".to_owned(),
        bytes => format!("{:.1}", bytes as f64 / f64::from(1 << 20)),
    };
    for entry in entries.iter().filter(|entry| entry.name != DIRECT) {
        table.row([
            entry.name,
            &entry.version,
            &entry.start.show(0),
            &mib(entry.first.private),
            &mib(entry.loaded.private),
            &mib(entry.loaded.resident),
            &entry
                .failed
                .as_deref()
                .unwrap_or_default()
                .replace('|', "/"),
        ]);
    }
    table
}
