//! The due times of a stretch of time, found by looking at the wall clock of each minute.

use jiff::{SignedDuration, Timestamp, civil::DateTime, tz::TimeZone};

use super::schedules::{Plan, ZONES};

/// A minute at which something may fire, and what the wall clock shows then.
#[derive(Clone, Copy)]
struct Minute {
    at: Timestamp,
    minute: i8,
    hour: i8,
    day: i8,
    month: i8,
    weekday: i8,
}

impl Minute {
    fn new(at: Timestamp, wall: DateTime) -> Self {
        Self {
            at,
            minute: wall.minute(),
            hour: wall.hour(),
            day: wall.day(),
            month: wall.month(),
            weekday: wall.date().weekday().to_sunday_zero_offset(),
        }
    }

    fn matches(&self, plan: &Plan) -> bool {
        if !plan.minute.holds(self.minute) || !plan.hour.holds(self.hour) {
            return false;
        }
        let (by_day, by_weekday) = (plan.day.holds(self.day), plan.weekday.holds(self.weekday));
        // POSIX: either, where both are restricted; Vixie: restricted is what begins with no star.
        let day_fits = if plan.day.is_star() || plan.weekday.is_star() {
            by_day && by_weekday
        } else {
            by_day || by_weekday
        };
        day_fits && plan.month.holds(self.month)
    }
}

/// What a zone's wall clock does.
#[derive(Default)]
struct Walk {
    /// Each minute as it passes.
    passing: Vec<Minute>,
    /// Each minute of the wall clock when it is shown for the first time, or jumped over.
    shown: Vec<Minute>,
}

fn walk(zone: &str, from: Timestamp, until: Timestamp) -> Walk {
    const MINUTE: SignedDuration = SignedDuration::from_mins(1);
    let zone = TimeZone::get(zone).unwrap();
    let mut walk = Walk::default();
    // Early enough to know what was shown before.
    let mut at = from - SignedDuration::from_hours(72);
    let mut furthest = zone.to_datetime(at);
    while at < until {
        at += MINUTE;
        let wall = zone.to_datetime(at);
        let counts = at > from;
        if counts {
            walk.passing.push(Minute::new(at, wall));
        }
        while furthest < wall {
            furthest += MINUTE;
            if counts {
                walk.shown.push(Minute::new(at, furthest));
            }
        }
    }
    walk
}

/// When the clock of a zone is changed in this stretch of time.
pub(super) fn clock_changes(zone: &str, from: Timestamp, until: Timestamp) -> Vec<Timestamp> {
    let zone = TimeZone::get(zone).unwrap();
    let changes = zone.following(from).map(|change| change.timestamp());
    changes.take_while(|at| *at < until).collect()
}

/// The times at which each of these was due, after `from` and up to `until`.
pub(super) fn due_times(plans: &[Plan], from: Timestamp, until: Timestamp) -> Vec<Vec<Timestamp>> {
    let mut due = vec![Vec::new(); plans.len()];
    for zone in ZONES {
        if plans.iter().all(|plan| plan.zone != zone) {
            continue;
        }
        let walk = walk(zone, from, until);
        for (plan, due) in plans.iter().zip(&mut due) {
            if plan.zone != zone {
                continue;
            }
            let every_so_often = plan.minute.is_star() || plan.hour.is_star();
            let minutes = if every_so_often {
                &walk.passing
            } else {
                &walk.shown
            };
            let fires = minutes.iter().filter(|minute| minute.matches(plan));
            *due = fires.map(|minute| minute.at).collect();
            due.dedup();
        }
    }
    due
}
