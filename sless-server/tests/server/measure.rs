//! What tests of time and of memory share.

use std::{fs, time::Duration};

/// What measures, and what keeps a processor busy, runs alone among these.
pub(crate) static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// How often a bound is measured anew: what was slow may have been something else of this machine.
const ATTEMPTS: u32 = 3;

/// Whether the long forms run.
pub(crate) fn is_long() -> bool {
    std::env::var_os("SLESS_TEST_LONG").is_some_and(|value| value != "0")
}

/// Says what was measured, for whoever runs with `--nocapture`.
#[allow(clippy::print_stderr)]
pub(crate) fn report(text: &str) {
    eprintln!("{text}");
}

/// How much memory a process holds now, in bytes.
pub(crate) fn memory(process: u32) -> u64 {
    memory_of(process, "VmRSS:")
}

/// The most memory that a process has held since its start, in bytes.
pub(crate) fn most_memory(process: u32) -> u64 {
    memory_of(process, "VmHWM:")
}

fn memory_of(process: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kilobytes = line.unwrap().trim().trim_end_matches(" kB");
    kilobytes.parse::<u64>().unwrap() << 10
}

/// The value below which this share of them lies; they are sorted by this.
pub(crate) fn quantile(values: &mut [Duration], share: f64) -> Duration {
    values.sort_unstable();
    values[((values.len() - 1) as f64 * share).round() as usize]
}

/// Holds that something makes a time at most so many times as long. A round measures that time without it
/// and with it, so that whatever else this machine does counts on both sides; of so many rounds the ratio in
/// the middle counts, and only if it is too large in each attempt, that is a failure.
pub(crate) async fn holds(
    most: f64,
    rounds: u32,
    mut round: impl AsyncFnMut() -> (Duration, Duration),
) {
    let mut seen = Vec::new();
    for _ in 0..ATTEMPTS {
        let mut ratios = Vec::new();
        for number in 0..rounds {
            let (without, with) = round().await;
            report(&format!(
                "round {number}: {without:?} without, {with:?} with"
            ));
            ratios.push(with.as_secs_f64() / without.as_secs_f64());
        }
        ratios.sort_by(f64::total_cmp);
        let middle = ratios[ratios.len() / 2];
        report(&format!(
            "in the middle {middle:.2} times as long (all: {ratios:.2?})"
        ));
        if middle <= most {
            return;
        }
        seen.push(ratios);
    }
    panic!("more than {most} times as long in each attempt: {seen:.2?}");
}
