//! Schedules against a slow reference that looks at a wall clock every half minute.

use jiff::{SignedDuration, Timestamp, civil::DateTime, tz::TimeZone};
use proptest::{collection::vec, prelude::*};

use super::{schedule, time};

/// Days on which the wall clock jumps, and some on which it does not.
const DAYS: [(&str, &str); 20] = [
    ("UTC", "2026-03-29T00:00:00Z"),
    ("Europe/Berlin", "2026-03-29T01:00:00Z"),
    ("Europe/Berlin", "2026-10-25T01:00:00Z"),
    ("Europe/Dublin", "2026-10-25T01:00:00Z"),
    ("America/New_York", "2026-03-08T07:00:00Z"),
    ("America/New_York", "2026-11-01T06:00:00Z"),
    ("America/Havana", "2026-11-01T05:00:00Z"),
    ("Australia/Lord_Howe", "2026-04-04T15:00:00Z"),
    ("Australia/Lord_Howe", "2026-10-03T15:30:00Z"),
    ("Asia/Gaza", "2023-04-29T00:00:00Z"),
    ("Africa/Cairo", "2026-04-23T22:00:00Z"),
    ("Africa/Cairo", "2026-10-29T21:00:00Z"),
    ("Africa/Casablanca", "2026-02-15T02:00:00Z"),
    ("Antarctica/Troll", "2026-03-29T01:00:00Z"),
    ("America/Sao_Paulo", "2017-10-15T03:00:00Z"),
    ("America/Sao_Paulo", "2018-02-18T02:00:00Z"),
    ("Pacific/Apia", "2011-12-30T10:00:00Z"),
    ("Pacific/Kwajalein", "1969-09-30T13:00:00Z"),
    ("Africa/Monrovia", "1972-01-07T00:44:30Z"),
    ("Asia/Kolkata", "2026-02-28T18:30:00Z"),
];

/// One field: its text, its values, and whether it begins with a star.
#[derive(Clone, Debug)]
struct Values {
    text: String,
    values: Vec<i8>,
}

impl Values {
    fn star(&self) -> bool {
        self.text.starts_with('*')
    }

    fn hold(&self, value: i8) -> bool {
        self.values.contains(&value)
    }
}

fn values(min: i8, max: i8) -> impl Strategy<Value = Values> {
    let item = prop_oneof![
        (min..=max).prop_map(|n| (n.to_string(), vec![n])),
        (min..=max, min..=max, 1..=max).prop_map(|(a, b, step)| {
            let (a, b) = (a.min(b), a.max(b));
            (
                format!("{a}-{b}/{step}"),
                (a..=b).step_by(step as usize).collect(),
            )
        }),
        (min..=max, 1..=max).prop_map(move |(a, step)| {
            (
                format!("{a}/{step}"),
                (a..=max).step_by(step as usize).collect(),
            )
        }),
    ];
    let list = vec(item, 1..4).prop_map(|items| {
        let (texts, values): (Vec<String>, Vec<Vec<i8>>) = items.into_iter().unzip();
        Values {
            text: texts.join(","),
            values: values.concat(),
        }
    });
    prop_oneof![
        2 => Just(Values { text: "*".to_owned(), values: (min..=max).collect() }),
        1 => (1..=max).prop_map(move |step| Values {
            text: format!("*/{step}"),
            values: (min..=max).step_by(step as usize).collect(),
        }),
        3 => list,
    ]
}

type Fields = (Values, Values, Values, Values, Values);

fn fields() -> impl Strategy<Value = Fields> {
    let month = prop_oneof![3 => Just(Values { text: "*".to_owned(), values: (1..=12).collect() }), 1 => values(1, 12)];
    (
        values(0, 59),
        values(0, 23),
        values(1, 31),
        month,
        values(0, 7),
    )
}

fn matches((minute, hour, day, month, weekday): &Fields, wall: DateTime) -> bool {
    let of_week = wall.date().weekday().to_sunday_zero_offset();
    let by_weekday = weekday.hold(of_week) || (of_week == 0 && weekday.hold(7));
    let by_day = day.hold(wall.day());
    let day_fits = if day.star() || weekday.star() {
        by_day && by_weekday
    } else {
        by_day || by_weekday
    };
    let time_fits = minute.hold(wall.minute()) && hour.hold(wall.hour());
    time_fits && day_fits && month.hold(wall.month())
}

/// Watches the wall clock from three days before `from` and notes what fires up to `until`.
fn watch(fields: &Fields, zone: &TimeZone, from: Timestamp, until: Timestamp) -> Vec<Timestamp> {
    let half_minute = SignedDuration::from_secs(30);
    let fixed = !fields.0.star() && !fields.1.star();
    let mut fires = Vec::new();
    let mut at = from - SignedDuration::from_hours(72);
    let mut furthest = zone.to_datetime(at);
    while at < until {
        at += half_minute;
        let wall = zone.to_datetime(at);
        let fire = if fixed {
            // Each half minute that the clock shows for the first time or jumps over.
            let mut minute = furthest;
            let mut fire = false;
            while minute < wall && !fire {
                minute += half_minute;
                fire = minute.second() == 0 && matches(fields, minute);
            }
            furthest = furthest.max(wall);
            fire
        } else {
            wall.second() == 0 && matches(fields, wall)
        };
        if fire && at > from {
            fires.push(at);
        }
    }
    fires
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn fires_as_a_watcher_of_the_wall_clock_would_see(
        fields in fields(),
        day in 0..DAYS.len(),
        hours_before in 0_i64..40,
        offset in 0_i64..7200,
    ) {
        let (zone, change) = DAYS[day];
        let text = [&fields.0, &fields.1, &fields.2, &fields.3, &fields.4].map(|field| field.text.as_str()).join(" ");
        let Ok(found) = crate::cron::Schedule::parse(&text, Some(zone)) else {
            // The only valid texts that are refused are those without a day.
            prop_assert!(!(fields.2.star() && fields.2.hold(1)), "{}", text);
            return Ok(());
        };
        let from = time(change) - SignedDuration::from_hours(hours_before);
        let until = time(change) + SignedDuration::from_hours(30) + SignedDuration::from_secs(offset);
        let until = until - SignedDuration::from_secs(until.as_second().rem_euclid(30));
        let zone = TimeZone::get(zone).expect("a zone");
        let expected = watch(&fields, &zone, from, until);

        let forward: Vec<Timestamp> = found.upcoming(from).take_while(|at| *at <= until).collect();
        prop_assert_eq!(&forward, &expected, "{} in {:?}", text, zone.iana_name());

        let mut backward = Vec::new();
        let mut at = until;
        while let Some(fire) = found.previous_or_at(at).filter(|fire| *fire > from) {
            backward.push(fire);
            at = fire - SignedDuration::from_secs(1);
        }
        backward.reverse();
        prop_assert_eq!(&backward, &expected, "{} in {:?}, backward", text, zone.iana_name());

        // Count to and from every place, the very change among them.
        let edges = [from, time(change) - SignedDuration::from_secs(1), time(change), until];
        for edge in edges.into_iter().filter(|edge| *edge >= from) {
            let after = expected.iter().filter(|fire| **fire > edge).count() as u64;
            prop_assert_eq!(found.due_between(edge, until).count, after, "{} after {}", text, edge);
            let due = found.due_between(from, edge);
            let before: Vec<&Timestamp> = expected.iter().filter(|fire| **fire <= edge).collect();
            prop_assert_eq!(due.count, before.len() as u64, "{} until {}", text, edge);
            prop_assert_eq!(due.latest.as_ref(), before.last().copied(), "{} until {}", text, edge);
        }
    }
}

#[test]
fn ten_years_are_counted_without_passing_through_each_minute() {
    let every = schedule("* * * * *", "Europe/Berlin");
    let (from, until) = (time("2016-01-01T00:00:00Z"), time("2026-01-01T00:00:00Z"));
    let due = every.due_between(from, until);
    assert_eq!(
        due.count,
        (until.as_second() - from.as_second()) as u64 / 60
    );
    assert_eq!(due.latest, Some(until));
    // Each day once, whatever the clock does.
    let daily = schedule("30 2 * * *", "Europe/Berlin");
    assert_eq!(daily.due_between(from, until).count, 3653);
}
