//! Where the wall clock of a zone jumps.
//!
//! Times are whole seconds: *instants* since 1970-01-01T00:00:00Z, and *local* seconds, which are
//! an instant plus the offset that holds there.

use jiff::{Timestamp, tz::TimeZone};

/// How far back a change of the clock can still matter: a stretch that is shown twice is at most
/// as long as two offsets differ, and offsets lie within a day of UTC.
const LOOK_BACK: i64 = 2 * 86_400;

/// A jump of the wall clock: it shows `at + before` where it would go on, and shows `at + after`.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockChange {
    pub(super) at: i64,
    pub(super) before: i64,
    pub(super) after: i64,
}

/// The offset that holds at an instant.
pub(super) fn offset_at(zone: &TimeZone, instant: i64) -> i64 {
    i64::from(zone.to_offset(clamped(instant)).seconds())
}

/// The changes after an instant, forward.
pub(super) fn changes_after(
    zone: &TimeZone,
    instant: i64,
) -> impl Iterator<Item = ClockChange> + '_ {
    let mut before = offset_at(zone, instant);
    zone.following(clamped(instant)).map(move |change| {
        let after = i64::from(change.offset().seconds());
        let at = change.timestamp().as_second();
        let change = ClockChange { at, before, after };
        before = after;
        change
    })
}

/// The changes at or before an instant, backward.
pub(super) fn changes_until(
    zone: &TimeZone,
    instant: i64,
) -> impl Iterator<Item = ClockChange> + '_ {
    zone.preceding(clamped(instant + 1)).map(|change| {
        let at = change.timestamp().as_second();
        ClockChange {
            at,
            before: offset_at(zone, at - 1),
            after: i64::from(change.offset().seconds()),
        }
    })
}

/// The local time up to which (exclusive) the wall clock had shown everything before its last
/// change at or before this instant. Below it, what the clock shows now is shown a second time.
pub(super) fn shown_before(zone: &TimeZone, instant: i64) -> i64 {
    changes_until(zone, instant)
        .take_while(|change| change.at > instant - LOOK_BACK)
        .map(|change| change.at + change.before)
        .max()
        .unwrap_or(i64::MIN)
}

fn clamped(instant: i64) -> Timestamp {
    let limit = if instant < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    };
    Timestamp::from_second(instant).unwrap_or(limit)
}
