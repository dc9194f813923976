//! A schedule in a time zone: the instants at which it fires.

use std::fmt;

use jiff::{Timestamp, tz::TimeZone};

use crate::{
    Error, Result,
    cron::{
        calendar::Pattern,
        clock_changes::{ClockChange, changes_after, changes_until, offset_at, shown_before},
        parse::{parse, shown},
    },
};

/// How many changes of the clock a search passes over before it gives up: with four a year, the
/// longest search that can succeed (29 February on a given weekday, once in 40 years) needs 160.
const MAX_CLOCK_CHANGES: usize = 1024;

/// When something fires: an expression, read on the wall clock of a time zone.
///
/// The rules stand in the [module documentation](super). `Display` gives the expression in normal
/// form: five fields, numbers for names, aliases written out. Two schedules are equal when they are
/// so in normal form and name the same zone.
#[derive(Clone)]
pub struct Schedule {
    normal: Box<str>,
    pattern: Pattern,
    fixed_time: bool,
    zone_name: Box<str>,
    zone: TimeZone,
}

/// The times at which a schedule was due in a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Due {
    /// How many there were.
    pub count: u64,
    /// The last of them; `None` where there were none.
    pub latest: Option<Timestamp>,
}

impl Schedule {
    /// Reads an expression and looks up its time zone: an IANA name such as `Europe/Berlin`, in any
    /// case, UTC where there is none.
    ///
    /// The time zone database of the system is used; where there is none, as in an empty container
    /// image, a copy within the program.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid), with one of these reasons and a message that says
    /// what was given and what was expected:
    /// `cron_field` (names the field that is malformed, missing or too many), `cron_never_fires`,
    /// `time_zone_unknown`.
    /// [`LimitExceeded`](crate::ErrorKind::LimitExceeded) for an expression longer than
    /// [`MAX_EXPRESSION_BYTES`](super::MAX_EXPRESSION_BYTES).
    pub fn parse(expression: &str, time_zone: Option<&str>) -> Result<Self> {
        let expression = parse(expression)?;
        let (zone_name, zone) = find_zone(time_zone)?;
        Ok(Self {
            normal: expression.normal.into(),
            pattern: expression.pattern,
            fixed_time: expression.fixed_time,
            zone_name,
            zone,
        })
    }

    /// The name of the time zone, spelled as in the time zone database.
    pub fn time_zone(&self) -> &str {
        &self.zone_name
    }

    /// Whether this is a fixed-time schedule rather than an interval schedule: whether it skips the
    /// second showing of an hour and makes up for a skipped one. See the [module documentation](super).
    pub fn is_fixed_time(&self) -> bool {
        self.fixed_time
    }

    /// The first instant after this one at which the schedule fires; always a whole second, and on
    /// a whole minute wherever the zone's offset is one. `None` only at the end of the year 9999.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let after = second_of(after);
        let mut offset = offset_at(&self.zone, after);
        // Local times below this one are not looked at: they lie in the past or, for a fixed-time
        // schedule, were shown before.
        let mut shown = self.shown_before(after);
        let mut from = whole_minute((after + 1 + offset).max(shown));
        let mut found = self.pattern.next(from)?;
        let mut changes = changes_after(&self.zone, after);
        for _ in 0..MAX_CLOCK_CHANGES {
            let Some(change) = changes.next() else {
                return instant(found * 60 - offset);
            };
            let (end, start) = (change.at + change.before, change.at + change.after);
            if found * 60 < end {
                return instant(found * 60 - offset);
            }
            if self.fixed_time && found * 60 < start {
                return instant(change.at);
            }
            if self.fixed_time {
                shown = shown.max(end);
            }
            from = whole_minute(start.max(shown));
            // Nothing lies between `end` and `found`; outside of these, search anew.
            if from < whole_minute(end) || from > found {
                found = self.pattern.next(from)?;
            }
            offset = change.after;
        }
        None
    }

    /// The last instant at or before this one at which the schedule fires. `None` only before the
    /// beginning of the supported range of time.
    pub fn previous_or_at(&self, at: Timestamp) -> Option<Timestamp> {
        let at = second_of(at);
        let mut until = at;
        let mut offset = offset_at(&self.zone, at);
        let mut changes = changes_until(&self.zone, at);
        for _ in 0..MAX_CLOCK_CHANGES {
            let found = self.pattern.previous((until + offset).div_euclid(60))?;
            let Some(change) = changes.next() else {
                return instant(found * 60 - offset);
            };
            let start = change.at + change.after;
            if found * 60 >= start.max(self.shown_before(change.at)) {
                return instant(found * 60 - offset);
            }
            let skipped_from = (change.at + change.before).max(self.shown_before(change.at - 1));
            if self.fixed_time && found * 60 >= skipped_from && found * 60 < start {
                return instant(change.at);
            }
            until = change.at - 1;
            offset = change.before;
        }
        None
    }

    /// The instants after this one at which the schedule fires, in order.
    pub fn upcoming(&self, after: Timestamp) -> Upcoming<'_> {
        Upcoming {
            schedule: self,
            after,
        }
    }

    /// The times after `after` and up to `until` (inclusive) at which the schedule was due; none
    /// where `until` is not later.
    ///
    /// They are counted by month and not one by one, so that ten years of `* * * * *` cost
    /// microseconds; the cost is bounded by the months and clock changes between the two instants.
    pub fn due_between(&self, after: Timestamp, until: Timestamp) -> Due {
        if until <= after {
            return Due::default();
        }
        let latest = self.previous_or_at(until).filter(|latest| *latest > after);
        if latest.is_none() {
            return Due::default();
        }
        Due {
            count: self.count(second_of(after), second_of(until)),
            latest,
        }
    }

    /// How often the schedule fires after `after` and up to `until`.
    fn count(&self, after: i64, until: i64) -> u64 {
        let mut count = 0;
        let mut from = after + 1;
        let mut offset = offset_at(&self.zone, after);
        let mut shown = self.shown_before(after);
        for change in changes_after(&self.zone, after).take_while(|change| change.at <= until) {
            count += self.count_steady(from, change.at, offset, shown);
            count += u64::from(self.makes_up_for(change, shown));
            if self.fixed_time {
                shown = shown.max(change.at + change.before);
            }
            from = change.at;
            offset = change.after;
        }
        count + self.count_steady(from, until + 1, offset, shown)
    }

    /// How often it fires between two instants (the second one exclusive) with one offset.
    fn count_steady(&self, from: i64, until: i64, offset: i64, shown: i64) -> u64 {
        let first = whole_minute((from + offset).max(shown));
        self.pattern.count(first, whole_minute(until + offset))
    }

    /// Whether something fires at this change only because the clock skips its time.
    fn makes_up_for(&self, change: ClockChange, shown: i64) -> bool {
        let (end, start) = (change.at + change.before, change.at + change.after);
        let first = whole_minute(end.max(shown));
        let due_anyway = start.rem_euclid(60) == 0 && self.pattern.matches(start.div_euclid(60));
        self.fixed_time && !due_anyway && self.pattern.count(first, whole_minute(start)) > 0
    }

    /// The local time below which a fixed-time schedule does not fire at this instant, since the
    /// clock shows it for the second time.
    fn shown_before(&self, at: i64) -> i64 {
        if self.fixed_time {
            shown_before(&self.zone, at)
        } else {
            i64::MIN
        }
    }
}

impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        (&self.normal, &self.zone_name) == (&other.normal, &other.zone_name)
    }
}

impl Eq for Schedule {}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.normal)
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schedule({:?} in {})", self.normal, self.zone_name)
    }
}

/// The instants at which a schedule fires; see [`Schedule::upcoming`].
#[derive(Clone, Debug)]
pub struct Upcoming<'a> {
    schedule: &'a Schedule,
    after: Timestamp,
}

impl Iterator for Upcoming<'_> {
    type Item = Timestamp;

    fn next(&mut self) -> Option<Timestamp> {
        let next = self.schedule.next_after(self.after)?;
        self.after = next;
        Some(next)
    }
}

fn find_zone(name: Option<&str>) -> Result<(Box<str>, TimeZone)> {
    let Some(name) = name else {
        return Ok(("UTC".into(), TimeZone::UTC));
    };
    let unknown = || {
        Error::invalid(format!(
            "time zone {} is not known, expected a name of the IANA time zone database such as \"Europe/Berlin\"",
            shown(name)
        ))
        .with_reason("time_zone_unknown")
    };
    let zone = TimeZone::get(name).map_err(|error| unknown().with_source(error))?;
    match zone.iana_name() {
        Some(spelled) if !zone.is_unknown() && !is_local_file(spelled) => {
            Ok((spelled.into(), zone.clone()))
        }
        _ => Err(unknown()),
    }
}

/// Whether a file of a system's database stands for something else than a zone of the IANA
/// database: it differs from machine to machine, or counts leap seconds.
fn is_local_file(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    matches!(lower.as_str(), "localtime" | "posixrules")
        || ["posix/", "right/"]
            .iter()
            .any(|folder| lower.starts_with(folder))
}

/// The whole second at or before an instant.
fn second_of(at: Timestamp) -> i64 {
    at.as_second() - i64::from(at.subsec_nanosecond() < 0)
}

/// The first whole minute at or after a local second, in minutes.
fn whole_minute(local: i64) -> i64 {
    -(-local).div_euclid(60)
}

fn instant(second: i64) -> Option<Timestamp> {
    Timestamp::from_second(second).ok()
}
