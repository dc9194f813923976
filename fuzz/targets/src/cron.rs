//! A cron expression, and the times that it gives.

use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use sless_core::cron::Schedule;

const ZONES: [Option<&str>; 8] = [
    None,
    Some("Europe/Berlin"),
    Some("America/New_York"),
    Some("Australia/Lord_Howe"),
    Some("Antarctica/Troll"),
    Some("Africa/Cairo"),
    Some("Pacific/Apia"),
    Some("no/such"),
];

/// How long every minute is looked at.
const WALK: SignedDuration = SignedDuration::from_hours(26);

/// One byte for the zone, four for the time, the rest is the expression.
pub(crate) fn run(data: &[u8]) -> bool {
    let Some((head, text)) = data.split_first_chunk::<5>() else {
        return false;
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return false;
    };
    let [zone, a, b, c, d] = *head;
    let zone = ZONES[usize::from(zone) % ZONES.len()];
    let at = Timestamp::from_second(u32::from_be_bytes([a, b, c, d]).into()).expect("a time");
    let schedule = match Schedule::parse(text, zone) {
        Ok(schedule) => schedule,
        Err(error) => {
            assert!(!error.reason().is_empty() && !error.message().is_empty());
            return false;
        }
    };
    let normal = schedule.to_string();
    let again = Schedule::parse(&normal, zone).expect("the normal form is valid");
    assert_eq!(again, schedule);
    assert_eq!(again.to_string(), normal);
    follow(&schedule, at);
    if zone.is_none() {
        walk(&schedule, at);
    }
    true
}

/// The times forward, backward and counted are the same.
fn follow(schedule: &Schedule, at: Timestamp) {
    // What can never fire is refused, so there is always a next time.
    let fires: Vec<_> = schedule.upcoming(at).take(5).collect();
    assert_eq!(fires.len(), 5, "{schedule} fires no more");
    let second = SignedDuration::from_secs(1);
    let mut before = at;
    for (number, fire) in (1..).zip(&fires) {
        assert!(*fire > before, "{schedule}: {fire} after {before}");
        assert_eq!(schedule.next_after(before), Some(*fire));
        assert_eq!(schedule.previous_or_at(*fire), Some(*fire));
        let due = schedule.due_between(at, *fire);
        assert_eq!(
            (due.count, due.latest),
            (number, Some(*fire)),
            "{schedule} after {at}"
        );
        // Nothing lies between two that follow each other.
        let none = schedule.due_between(before, *fire - second);
        assert_eq!(
            (none.count, none.latest),
            (0, None),
            "{schedule} after {before}"
        );
        before = *fire;
    }
}

/// Another reader of the normal form looks at every minute, in UTC.
fn walk(schedule: &Schedule, after: Timestamp) {
    let until = after + WALK;
    let normal = schedule.to_string();
    let mut fields = normal.split(' ');
    let mut field = |min, max| Field::read(fields.next().expect("five fields"), min, max);
    let (minute, hour) = (field(0, 59), field(0, 23));
    let (day, month, weekday) = (field(1, 31), field(1, 12), field(0, 7));
    let fires = |at: &Timestamp| {
        let wall = TimeZone::UTC.to_datetime(*at);
        let of_week = wall.date().weekday();
        let by_weekday = weekday.holds(of_week.to_sunday_zero_offset())
            || weekday.holds(of_week.to_monday_one_offset());
        let by_day = day.holds(wall.day());
        let day_fits = if day.star || weekday.star {
            by_day && by_weekday
        } else {
            by_day || by_weekday
        };
        let time_fits = minute.holds(wall.minute()) && hour.holds(wall.hour());
        time_fits && day_fits && month.holds(wall.month())
    };
    let first = Timestamp::from_second(after.as_second().div_euclid(60) * 60 + 60).expect("a time");
    let minutes = (0..).map(|minute| first + SignedDuration::from_mins(minute));
    let expected: Vec<_> = minutes
        .take_while(|at| *at <= until)
        .filter(fires)
        .collect();
    let found: Vec<_> = schedule
        .upcoming(after)
        .take_while(|at| *at <= until)
        .collect();
    assert_eq!(found, expected, "{schedule} after {after}");
}

/// A field of the normal form.
struct Field {
    values: Vec<i8>,
    star: bool,
}

impl Field {
    fn read(text: &str, min: i8, max: i8) -> Self {
        let number = |text: &str| text.parse::<i8>().expect("a number");
        let values = text.split(',').flat_map(|item| {
            let (range, step) = item
                .split_once('/')
                .map_or((item, None), |(range, step)| (range, Some(number(step))));
            let (first, last) = match range.split_once('-') {
                Some((first, last)) => (number(first), number(last)),
                None if range == "*" => (min, max),
                None if step.is_some() => (number(range), max),
                None => (number(range), number(range)),
            };
            let step = usize::try_from(step.unwrap_or(1)).expect("a step");
            (first..=last).step_by(step)
        });
        Self {
            values: values.collect(),
            star: text.starts_with('*'),
        }
    }

    fn holds(&self, value: i8) -> bool {
        self.values.contains(&value)
    }
}
