//! Tests of schedules and decisions.

mod clock_changes;
mod decisions;
mod history;
mod parsing;
mod reference;

use jiff::Timestamp;

use super::Schedule;

fn time(text: &str) -> Timestamp {
    text.parse().expect("a timestamp")
}

fn schedule(expression: &str, zone: &str) -> Schedule {
    Schedule::parse(expression, Some(zone)).expect("a schedule")
}

/// The next fires as they stand on the wall clock, with the offset.
fn fires(schedule: &Schedule, after: &str, count: usize) -> Vec<String> {
    let zone = jiff::tz::TimeZone::get(schedule.time_zone()).expect("a zone");
    let shown = |at: Timestamp| at.display_with_offset(zone.to_offset(at)).to_string();
    schedule
        .upcoming(time(after))
        .take(count)
        .map(shown)
        .collect()
}
