//! The days on which the wall clock jumps. Every list stands on the wall clock of the zone.

use super::{fires, schedule, time};

fn assert_fires(expression: &str, zone: &str, after: &str, expected: &[&str]) {
    let schedule = schedule(expression, zone);
    let found = fires(&schedule, after, expected.len());
    assert_eq!(found, expected, "{expression} in {zone}");
    // Backward and by counting, the same.
    let mut before = time(after);
    for (index, fire) in expected.iter().enumerate() {
        let at = time(fire);
        assert_eq!(
            schedule.previous_or_at(at),
            Some(at),
            "{expression} at {fire}"
        );
        let due = schedule.due_between(time(after), at);
        assert_eq!(
            (due.count, due.latest),
            (index as u64 + 1, Some(at)),
            "{expression} {fire}"
        );
        assert_eq!(
            schedule.due_between(before, at).count,
            1,
            "{expression} {fire}"
        );
        before = at;
    }
}

#[test]
fn berlin_loses_an_hour() {
    // 2026-03-29 02:00+01 is 03:00+02.
    let after = "2026-03-28T02:00:00Z";
    let berlin =
        |expression, expected: &[&str]| assert_fires(expression, "Europe/Berlin", after, expected);
    berlin(
        "30 2 * * *",
        &["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"],
    );
    berlin(
        "0,30 2-3 * * *",
        &[
            "2026-03-28T03:30:00+01:00",
            "2026-03-29T03:00:00+02:00",
            "2026-03-29T03:30:00+02:00",
            "2026-03-30T02:00:00+02:00",
        ],
    );
    berlin(
        "0-59 2 * * 0",
        &["2026-03-29T03:00:00+02:00", "2026-04-05T02:00:00+02:00"],
    );
    berlin(
        "*/20 1-3 29 3 *",
        &[
            "2026-03-29T01:00:00+01:00",
            "2026-03-29T01:20:00+01:00",
            "2026-03-29T01:40:00+01:00",
            "2026-03-29T03:00:00+02:00",
            "2026-03-29T03:20:00+02:00",
            "2026-03-29T03:40:00+02:00",
            "2027-03-29T01:00:00+02:00",
        ],
    );
    berlin(
        "*/10 2 29,30 * *",
        &["2026-03-30T02:00:00+02:00", "2026-03-30T02:10:00+02:00"],
    );
}

#[test]
fn berlin_repeats_an_hour() {
    // 2026-10-25 03:00+02 is 02:00+01.
    let after = "2026-10-24T22:30:00Z";
    let berlin =
        |expression, expected: &[&str]| assert_fires(expression, "Europe/Berlin", after, expected);
    berlin(
        "30 2 * * *",
        &["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"],
    );
    berlin(
        "0 1-4 * * *",
        &[
            "2026-10-25T01:00:00+02:00",
            "2026-10-25T02:00:00+02:00",
            "2026-10-25T03:00:00+01:00",
            "2026-10-25T04:00:00+01:00",
        ],
    );
    berlin(
        "0 * * * *",
        &[
            "2026-10-25T01:00:00+02:00",
            "2026-10-25T02:00:00+02:00",
            "2026-10-25T02:00:00+01:00",
            "2026-10-25T03:00:00+01:00",
        ],
    );
    berlin(
        "*/30 2 * * *",
        &[
            "2026-10-25T02:00:00+02:00",
            "2026-10-25T02:30:00+02:00",
            "2026-10-25T02:00:00+01:00",
            "2026-10-25T02:30:00+01:00",
            "2026-10-26T02:00:00+01:00",
        ],
    );
}

#[test]
fn new_york_loses_and_repeats_an_hour() {
    let zone = "America/New_York";
    assert_fires(
        "15 2 * * *",
        zone,
        "2026-03-08T00:00:00Z",
        &["2026-03-08T03:00:00-04:00", "2026-03-09T02:15:00-04:00"],
    );
    assert_fires(
        "15 1 * * *",
        zone,
        "2026-11-01T00:00:00Z",
        &["2026-11-01T01:15:00-04:00", "2026-11-02T01:15:00-05:00"],
    );
    assert_fires(
        "15 * * * *",
        zone,
        "2026-11-01T05:00:00Z",
        &[
            "2026-11-01T01:15:00-04:00",
            "2026-11-01T01:15:00-05:00",
            "2026-11-01T02:15:00-05:00",
        ],
    );
}

#[test]
fn lord_howe_shifts_by_half_an_hour() {
    let zone = "Australia/Lord_Howe";
    // 2026-10-04 02:00+10:30 is 02:30+11; 2026-04-05 02:00+11 is 01:30+10:30.
    assert_fires(
        "0,15,45 2 * * *",
        zone,
        "2026-10-03T14:00:00Z",
        &[
            "2026-10-04T02:30:00+11:00",
            "2026-10-04T02:45:00+11:00",
            "2026-10-05T02:00:00+11:00",
        ],
    );
    assert_fires(
        "*/15 2 * * *",
        zone,
        "2026-10-03T14:00:00Z",
        &[
            "2026-10-04T02:30:00+11:00",
            "2026-10-04T02:45:00+11:00",
            "2026-10-05T02:00:00+11:00",
        ],
    );
    assert_fires(
        "15,45 1 * * *",
        zone,
        "2026-04-04T14:00:00Z",
        &[
            "2026-04-05T01:15:00+11:00",
            "2026-04-05T01:45:00+11:00",
            "2026-04-06T01:15:00+10:30",
        ],
    );
    assert_fires(
        "45 * * * *",
        zone,
        "2026-04-04T14:00:00Z",
        &[
            "2026-04-05T01:45:00+11:00",
            "2026-04-05T01:45:00+10:30",
            "2026-04-05T02:45:00+10:30",
        ],
    );
}

#[test]
fn a_midnight_that_does_not_exist_fires_at_one() {
    assert_fires(
        "0 0 * * *",
        "Africa/Cairo",
        "2026-04-22T23:00:00Z",
        &["2026-04-24T01:00:00+03:00", "2026-04-25T00:00:00+03:00"],
    );
    assert_fires(
        "@daily",
        "America/Sao_Paulo",
        "2017-10-14T04:00:00Z",
        &["2017-10-15T01:00:00-02:00", "2017-10-16T00:00:00-02:00"],
    );
    // An hourly one simply has 23 fires on that day.
    assert_fires(
        "@hourly",
        "America/Sao_Paulo",
        "2017-10-15T01:30:00Z",
        &["2017-10-14T23:00:00-03:00", "2017-10-15T01:00:00-02:00"],
    );
}

#[test]
fn a_midnight_that_comes_twice_fires_once() {
    // 2018-02-18 00:00-02 is 2018-02-17 23:00-03: the evening is repeated, not the midnight.
    assert_fires(
        "30 23 * * *",
        "America/Sao_Paulo",
        "2018-02-17T12:00:00Z",
        &["2018-02-17T23:30:00-02:00", "2018-02-18T23:30:00-03:00"],
    );
    // 2026-11-01 01:00-04 is 00:00-05.
    assert_fires(
        "@daily",
        "America/Havana",
        "2026-10-31T12:00:00Z",
        &["2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00"],
    );
    assert_fires(
        "@hourly",
        "America/Havana",
        "2026-11-01T03:30:00Z",
        &[
            "2026-11-01T00:00:00-04:00",
            "2026-11-01T00:00:00-05:00",
            "2026-11-01T01:00:00-05:00",
        ],
    );
}

#[test]
fn samoa_skips_a_day() {
    // After 2011-12-29 23:59-10 came 2011-12-31 00:00+14.
    let zone = "Pacific/Apia";
    assert_fires(
        "0 12 * * *",
        zone,
        "2011-12-29T12:00:00Z",
        &[
            "2011-12-29T12:00:00-10:00",
            "2011-12-31T00:00:00+14:00",
            "2011-12-31T12:00:00+14:00",
        ],
    );
    assert_fires(
        "0 12 30 12 *",
        zone,
        "2011-12-01T00:00:00Z",
        &["2011-12-31T00:00:00+14:00", "2012-12-30T12:00:00+14:00"],
    );
    assert_fires(
        "0 */6 30 12 *",
        zone,
        "2011-12-01T00:00:00Z",
        &["2012-12-30T00:00:00+14:00"],
    );
    assert_fires(
        "@daily",
        zone,
        "2011-12-29T12:00:00Z",
        &["2011-12-31T00:00:00+14:00", "2012-01-01T00:00:00+14:00"],
    );
}

#[test]
fn utc_has_no_such_days() {
    assert_fires(
        "30 2 * * *",
        "UTC",
        "2026-03-28T12:00:00Z",
        &["2026-03-29T02:30:00+00:00", "2026-03-30T02:30:00+00:00"],
    );
}

#[test]
fn which_schedules_are_fixed_time() {
    for (expression, fixed) in [
        ("30 2 * * *", true),
        ("0-59 2 * * *", true),
        ("5/10 8-18/2 * * *", true),
        ("@daily", true),
        ("* 2 * * *", false),
        ("*/5 2 * * *", false),
        ("30 */2 * * *", false),
        ("@hourly", false),
    ] {
        assert_eq!(
            schedule(expression, "UTC").is_fixed_time(),
            fixed,
            "{expression}"
        );
    }
}
