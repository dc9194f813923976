//! Next fires of expressions in several zones on which two independent implementations (croniter
//! and cronsim) agree. The file lies beside the checkout or where `SLESS_VECTORS` says.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Deserialize;
use sless_core::cron::Schedule;

#[derive(Deserialize)]
struct Vector {
    expr: String,
    zone: String,
    after: Timestamp,
    next: Vec<Timestamp>,
}

fn folder() -> PathBuf {
    std::env::var_os("SLESS_VECTORS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/vectors"),
        PathBuf::from,
    )
}

#[test]
fn next_fires_are_those_of_other_implementations() {
    let path = folder().join("cron/next-fires.json");
    if !path.exists() {
        #[allow(clippy::print_stderr)]
        {
            eprintln!("skipped: there is no {}; set SLESS_VECTORS", path.display());
        }
        return;
    }
    let text = std::fs::read_to_string(&path).unwrap();
    let vectors: Vec<Vector> = serde_json::from_str(&text).unwrap();
    assert!(vectors.len() >= 1500, "{} vectors", vectors.len());

    let mut wrong = Vec::new();
    for Vector {
        expr,
        zone,
        after,
        next,
    } in &vectors
    {
        let schedule = Schedule::parse(expr, Some(zone)).unwrap();
        let found: Vec<Timestamp> = schedule.upcoming(*after).take(next.len()).collect();
        if found != *next {
            wrong.push(format!(
                "{expr} in {zone} after {after}: {found:?}, expected {next:?}"
            ));
            continue;
        }
        let last = next[next.len() - 1];
        let due = schedule.due_between(*after, last);
        assert_eq!(
            (due.count, due.latest),
            (next.len() as u64, Some(last)),
            "{expr} in {zone}"
        );
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        vectors.len(),
        wrong.join("\n")
    );
}
