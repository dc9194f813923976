use proptest::prelude::*;

use super::{fires, schedule, time};
use crate::{ErrorKind, cron::Schedule};

fn refusal(expression: &str) -> (String, String) {
    let error = Schedule::parse(expression, None).expect_err(expression);
    assert_eq!(error.kind(), ErrorKind::Invalid, "{expression}");
    (error.reason().to_owned(), error.message().to_owned())
}

#[test]
fn a_malformed_field_is_named_with_what_was_given_and_expected() {
    let cases = [
        ("60 * * * *", "minute is \"60\"", "a number from 0 to 59"),
        ("-1 * * * *", "minute is \"-1\"", "a number from 0 to 59"),
        ("+5 * * * *", "minute is \"+5\"", "a number from 0 to 59"),
        ("*/0 * * * *", "minute is \"*/0\"", "a step from 1 to 59"),
        ("*/90 * * * *", "minute is \"*/90\"", "a step from 1 to 59"),
        ("*/ * * * *", "minute is \"*/\"", "a step from 1 to 59"),
        (
            "1/2/3 * * * *",
            "minute is \"1/2/3\"",
            "a step from 1 to 59",
        ),
        (
            "30-10 * * * *",
            "minute is \"30-10\"",
            "does not end before it begins",
        ),
        (
            "1-2-3 * * * *",
            "minute is \"1-2-3\"",
            "a number from 0 to 59",
        ),
        (
            "1,,2 * * * *",
            "minute is \"1,,2\"",
            "a value between any two commas",
        ),
        (
            "1, * * * *",
            "minute is \"1,\"",
            "a value between any two commas",
        ),
        ("** * * * *", "minute is \"**\"", "a number from 0 to 59"),
        ("*-5 * * * *", "minute is \"*-5\"", "a number from 0 to 59"),
        ("300 * * * *", "minute is \"300\"", "a number from 0 to 59"),
        ("0 24 * * *", "hour is \"24\"", "a number from 0 to 23"),
        (
            "0 0 0 * *",
            "day of month is \"0\"",
            "a number from 1 to 31",
        ),
        (
            "0 0 L * *",
            "day of month is \"L\"",
            "a number from 1 to 31",
        ),
        (
            "0 0 15W * *",
            "day of month is \"15W\"",
            "a number from 1 to 31",
        ),
        (
            "0 0 ? * *",
            "day of month is \"?\"",
            "a number from 1 to 31",
        ),
        (
            "0 0 * 13 *",
            "month is \"13\"",
            "a number from 1 to 12 or a name from \"jan\" to \"dec\"",
        ),
        (
            "0 0 * june *",
            "month is \"june\"",
            "or a name from \"jan\" to \"dec\"",
        ),
        (
            "0 0 * * 8",
            "day of week is \"8\"",
            "a number from 0 to 7 or a name from \"sun\" to \"sat\"",
        ),
        (
            "0 0 * * 5-0",
            "day of week is \"5-0\"",
            "does not end before it begins",
        ),
        (
            "0 0 * * fri-mon",
            "day of week is \"fri-mon\"",
            "does not end before it begins",
        ),
        (
            "0 0 * * 5#3",
            "day of week is \"5#3\"",
            "a number from 0 to 7",
        ),
        (
            "0 0 * jan-٣ *",
            "month is \"jan-٣\"",
            "a number from 1 to 12",
        ),
    ];
    for (expression, given, expected) in cases {
        let (reason, message) = refusal(expression);
        assert_eq!(reason, "cron_field", "{expression}");
        assert!(
            message.contains(given) && message.contains(expected),
            "{message}"
        );
        assert!(
            message.contains(&format!("schedule {expression:?}")),
            "{message}"
        );
    }
}

#[test]
fn too_few_and_too_many_fields_are_refused() {
    let cases = [
        (
            "",
            "has 0 fields, expected the five fields minute, hour, day of month, month, day of week: minute is missing",
        ),
        (
            "* * * *",
            "has 4 fields, expected the five fields minute, hour, day of month, month, day of week: day of week is missing",
        ),
        (
            "0 0 9 * * 1",
            "has 6 fields, expected the five fields minute, hour, day of month, month, day of week: there is no field for \"1\" (seconds and years are not supported)",
        ),
        (
            "@reboot",
            "is not known, expected five fields or one of @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually",
        ),
        ("@daily 5", "is not known, expected five fields or one of"),
    ];
    for (expression, expected) in cases {
        let (reason, message) = refusal(expression);
        assert_eq!(reason, "cron_field", "{expression}");
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn what_never_fires_is_refused() {
    for expression in [
        "0 0 31 2 *",
        "0 0 30 feb *",
        "0 0 31 4,6,9,11 *",
        "0 0 30-31 2 */2",
    ] {
        let (reason, message) = refusal(expression);
        assert_eq!(reason, "cron_never_fires", "{expression}");
        assert!(message.contains("day of month is \"3"), "{message}");
    }
    // The weekday is enough where both are restricted.
    assert!(Schedule::parse("0 0 31 2 1", None).is_ok());
    assert!(Schedule::parse("0 0 29 2 *", None).is_ok());
}

#[test]
fn an_unknown_time_zone_is_refused() {
    for zone in [
        "",
        "Europe/Atlantis",
        "+02:00",
        "../etc/passwd",
        "Etc/Unknown",
        "localtime",
    ] {
        let error = Schedule::parse("0 9 * * *", Some(zone)).expect_err(zone);
        assert_eq!(
            (error.kind(), error.reason()),
            (ErrorKind::Invalid, "time_zone_unknown")
        );
        assert!(
            error.message().contains(&format!("time zone {zone:?}")),
            "{error}"
        );
        assert!(error.message().contains("Europe/Berlin"), "{error}");
    }
    assert_eq!(
        schedule("0 9 * * *", "europe/berlin").time_zone(),
        "Europe/Berlin"
    );
    assert_eq!(
        Schedule::parse("0 9 * * *", None)
            .expect("valid")
            .time_zone(),
        "UTC"
    );
    assert_eq!(schedule("0 9 * * *", "UTC").time_zone(), "UTC");
}

#[test]
fn the_program_carries_its_own_time_zones() {
    let bundled = jiff::tz::TimeZoneDatabase::bundled();
    for zone in [
        "Europe/Berlin",
        "America/New_York",
        "Australia/Lord_Howe",
        "Pacific/Apia",
    ] {
        assert!(bundled.get(zone).is_ok(), "{zone}");
    }
}

#[test]
fn a_long_expression_is_refused_with_the_name_of_the_limit() {
    let error = Schedule::parse(&"1,".repeat(600), None).expect_err("too long");
    assert_eq!(error.reason(), "limit_cron_expression");
    let all = |from: u8, to: u8| {
        (from..=to)
            .map(|n| n.to_string())
            .collect::<Vec<_>>()
            .join(",")
    };
    let longest = [all(0, 59), all(0, 23), all(1, 31), all(1, 12), all(0, 7)].join(" ");
    assert_eq!(
        fires(&schedule(&longest, "UTC"), "2026-05-01T00:00:00Z", 1),
        ["2026-05-01T00:01:00+00:00"]
    );
    // What is repeated in a message is cut.
    let (_, message) = refusal(&"x".repeat(1000));
    assert!(message.len() < 300, "{message}");
}

#[test]
fn the_normal_form_has_numbers_and_single_blanks() {
    let cases = [
        ("  05\t 4 *  * \n*", "5 4 * * *"),
        ("0 9 * JAN-Mar,dec Mon-FRI", "0 9 * 1-3,12 1-5"),
        ("0 0 * * fri-sun", "0 0 * * 5-7"),
        ("0 0 * * sun-tue", "0 0 * * 0-2"),
        ("0 0 * * sun-sun", "0 0 * * 0-0"),
        ("*/1 */02 1/1 1-6/1 *", "* */2 1/1 1-6 *"),
        ("@Weekly", "0 0 * * 0"),
        (" @hourly ", "0 * * * *"),
        ("@midnight", "0 0 * * *"),
        ("@monthly", "0 0 1 * *"),
        ("@annually", "0 0 1 1 *"),
    ];
    for (expression, normal) in cases {
        assert_eq!(schedule(expression, "UTC").to_string(), normal);
    }
    assert_eq!(schedule("@yearly", "UTC"), schedule("0 0 1 JAN *", "Utc"));
    assert_ne!(
        schedule("@yearly", "UTC"),
        schedule("@yearly", "Europe/Berlin")
    );
}

#[test]
fn posix_meaning_of_days() {
    let from = "2026-05-01T00:00:00Z"; // a Friday
    let days = |expression: &str| -> Vec<String> {
        let day = |fire: String| fire.get(5..10).expect("a date").to_owned();
        fires(&schedule(expression, "UTC"), from, 4)
            .into_iter()
            .map(day)
            .collect()
    };
    assert_eq!(days("0 9 * * 1-5"), ["05-01", "05-04", "05-05", "05-06"]);
    assert_eq!(days("0 0 * * 0"), ["05-03", "05-10", "05-17", "05-24"]);
    assert_eq!(days("0 0 * * 7"), days("0 0 * * 0"));
    assert_eq!(days("@weekly"), days("0 0 * * 0"));
    assert_eq!(days("0 0 * * 6-7"), ["05-02", "05-03", "05-09", "05-10"]);
    // Both restricted: either.
    assert_eq!(days("0 9 13 * 5"), ["05-01", "05-08", "05-13", "05-15"]);
    assert_eq!(days("0 0 1-31/2 * 1"), ["05-03", "05-04", "05-05", "05-07"]);
    // One begins with a star: both.
    assert_eq!(days("0 0 */2 * 1"), ["05-11", "05-25", "06-01", "06-15"]);
    assert_eq!(days("0 0 13 * */5"), ["09-13", "11-13", "12-13", "06-13"]);
    // A step from a single value goes to the end of the field.
    assert_eq!(days("0 0 25/3 * *"), ["05-25", "05-28", "05-31", "06-25"]);
}

#[test]
fn intervals_begin_anew_in_each_hour() {
    let found = fires(&schedule("*/7 * * * *", "UTC"), "2026-05-01T00:40:30Z", 4);
    let minutes: Vec<&str> = found.iter().map(|fire| &fire[11..16]).collect();
    assert_eq!(minutes, ["00:42", "00:49", "00:56", "01:00"]);
}

#[test]
fn sparse_schedules_are_found_across_centuries() {
    let leap = schedule("0 0 29 2 *", "Europe/Berlin");
    assert_eq!(
        leap.next_after(time("2096-03-01T00:00:00Z")),
        Some(time("2104-02-28T23:00:00Z"))
    );
    assert_eq!(
        leap.previous_or_at(time("2104-02-28T22:59:59Z")),
        Some(time("2096-02-28T23:00:00Z"))
    );
    // A leap day that is a Sunday, over 2100, which has none.
    let sunday = schedule("*/30 12 29 2 */7", "America/New_York");
    assert_eq!(
        sunday.next_after(time("2088-03-01T00:00:00Z")),
        Some(time("2128-02-29T17:00:00Z"))
    );
    assert_eq!(
        sunday.previous_or_at(time("2128-02-29T16:59:59Z")),
        Some(time("2088-02-29T17:30:00Z"))
    );
}

#[test]
fn the_end_of_time_is_an_end() {
    use jiff::Timestamp;
    let every = schedule("* * * * *", "Pacific/Apia");
    assert_eq!(every.next_after(Timestamp::MAX), None);
    assert!(every.next_after(Timestamp::MIN).is_some());
    assert!(every.previous_or_at(Timestamp::MAX).is_some());
    let due = every.due_between(Timestamp::MIN, Timestamp::MAX);
    assert!(due.count > 10_000_000_000, "{due:?}");
    assert_eq!(every.due_between(Timestamp::MAX, Timestamp::MIN).count, 0);
    for zone in ["America/New_York", "Asia/Manila", "UTC"] {
        let fixed = schedule("59 23 31 12 *", zone);
        assert!(fixed.previous_or_at(Timestamp::MAX).is_some());
        let _ = (
            fixed.next_after(Timestamp::MIN),
            fixed.previous_or_at(Timestamp::MIN),
        );
    }
}

#[test]
fn parts_of_seconds_do_not_count() {
    let every = schedule("* * * * *", "UTC");
    for (after, next) in [
        ("2026-05-01T00:00:59.999999999Z", "2026-05-01T00:01:00Z"),
        ("2026-05-01T00:01:00Z", "2026-05-01T00:02:00Z"),
        ("2026-05-01T00:01:00.000000001Z", "2026-05-01T00:02:00Z"),
        ("1969-12-31T23:58:59.5Z", "1969-12-31T23:59:00Z"),
        ("1969-12-31T23:59:00.5Z", "1970-01-01T00:00:00Z"),
    ] {
        assert_eq!(every.next_after(time(after)), Some(time(next)), "{after}");
    }
    let at = |text| every.previous_or_at(time(text));
    assert_eq!(
        at("1969-12-31T23:58:59.5Z"),
        Some(time("1969-12-31T23:58:00Z"))
    );
    assert_eq!(
        at("1969-12-31T23:59:00Z"),
        Some(time("1969-12-31T23:59:00Z"))
    );
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in any::<String>(), zone in any::<String>()) {
        let _ = Schedule::parse(&text, None);
        let _ = Schedule::parse("* * * * *", Some(&zone));
    }

    #[test]
    fn text_like_an_expression_is_read_or_refused(text in "([0-9*/,a-z@-]{0,6}[ \t]){0,5}[0-9*/,-]{1,5}") {
        if let Ok(read) = Schedule::parse(&text, None) {
            let again = Schedule::parse(&read.to_string(), None).expect("the normal form is valid");
            prop_assert_eq!(again.to_string(), read.to_string());
            let from = time("2026-05-01T00:00:00Z");
            prop_assert!(again.upcoming(from).take(5).eq(read.upcoming(from).take(5)));
        }
    }
}
