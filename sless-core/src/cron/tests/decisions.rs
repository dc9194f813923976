use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{schedule, time};
use crate::cron::{
    Cause, Decision, Ledger, MissedRunPolicy, OverlapPolicy, Policies, RunEnd, Schedule, decide,
};

const CREATED: &str = "2026-05-01T00:00:30Z";

fn every_minute() -> Schedule {
    schedule("* * * * *", "UTC")
}

fn at(clock: &str) -> Timestamp {
    time(&format!("2026-05-01T{clock}Z"))
}

fn decided(policies: &Policies, ledger: &Ledger, now: Timestamp) -> Decision {
    decide(&every_minute(), policies, ledger, time(CREATED), now)
}

fn fire(policies: &Policies, ledger: &Ledger, now: Timestamp) -> (Timestamp, Cause, Ledger) {
    match decided(policies, ledger, now) {
        Decision::Fire { at, cause, ledger } => (at, cause, ledger),
        other => panic!("expected a fire, got {other:?}"),
    }
}

fn skip(policies: &Policies, ledger: &Ledger, now: Timestamp) -> Ledger {
    match decided(policies, ledger, now) {
        Decision::Skip { ledger } => ledger,
        other => panic!("expected a skip, got {other:?}"),
    }
}

fn assert_waits(policies: &Policies, ledger: &Ledger, now: Timestamp, until: Timestamp) {
    assert_eq!(
        decided(policies, ledger, now),
        Decision::Wait { until: Some(until) }
    );
}

#[test]
fn a_due_time_is_claimed_once() {
    let policies = Policies::default();
    assert_waits(
        &policies,
        &Ledger::default(),
        at("00:00:59"),
        at("00:01:00"),
    );
    let (when, cause, ledger) = fire(&policies, &Ledger::default(), at("00:01:00.01"));
    assert_eq!((when, cause), (at("00:01:00"), Cause::Due));
    assert!(ledger.is_running());
    assert_waits(&policies, &ledger, at("00:01:00.01"), at("00:02:00"));
    let ended = ledger.finish(when, RunEnd::Failed);
    assert_eq!(
        (ended.fired, ended.failed, ended.last_fire_at),
        (1, 1, Some(when))
    );
    assert_eq!(ended.finish(when, RunEnd::Failed), ended);
    assert_waits(&policies, &ended, at("00:01:01"), at("00:02:00"));
}

#[test]
fn a_slow_run_is_never_run_twice_at_once() {
    let policies = Policies::default();
    let (when, _, ledger) = fire(&policies, &Ledger::default(), at("00:01:00"));
    let ledger = skip(&policies, &ledger, at("00:02:00"));
    let ledger = skip(&policies, &ledger, at("00:04:30"));
    assert_eq!((ledger.skipped, ledger.missed), (3, 0));
    let ledger = ledger.finish(when, RunEnd::Succeeded);
    assert_waits(&policies, &ledger, at("00:04:40"), at("00:05:00"));
    assert_eq!(fire(&policies, &ledger, at("00:05:00")).0, at("00:05:00"));
}

#[test]
fn overlapping_runs_are_bounded_where_asked_for() {
    let policies = Policies::default()
        .with_overlap(OverlapPolicy::Allow)
        .with_max_running(2);
    let (first, _, ledger) = fire(&policies, &Ledger::default(), at("00:01:00"));
    let (second, _, ledger) = fire(&policies, &ledger, at("00:02:00"));
    assert_eq!(ledger.running, [first, second]);
    let ledger = skip(&policies, &ledger, at("00:03:00"));
    assert_eq!(ledger.skipped, 1);
    let ledger = ledger.finish(first, RunEnd::Succeeded);
    assert_eq!(fire(&policies, &ledger, at("00:04:00")).0, at("00:04:00"));
}

#[test]
fn of_missed_runs_the_latest_is_made_up_for_within_the_deadline() {
    let hourly = schedule("@hourly", "UTC");
    let policies = Policies::default().with_missed_deadline(Duration::from_secs(1800));
    let decide = |policies: &Policies, now| {
        decide(&hourly, policies, &Ledger::default(), time(CREATED), now)
    };

    let Decision::Fire {
        at: when,
        cause,
        ledger,
    } = decide(&policies, at("05:30:00"))
    else {
        panic!("within the deadline");
    };
    assert_eq!(
        (when, cause, ledger.missed),
        (at("05:00:00"), Cause::Missed, 4)
    );

    let Decision::Skip { ledger } = decide(&policies, at("05:30:01")) else {
        panic!("past the deadline");
    };
    assert_eq!(
        (ledger.missed, ledger.accounted_until),
        (5, Some(at("05:00:00")))
    );
    assert_eq!(ledger.last_fire_at, None);

    let never = policies.with_missed_runs(MissedRunPolicy::Skip);
    let Decision::Skip { ledger } = decide(&never, at("05:01:01")) else {
        panic!("missed");
    };
    assert_eq!(ledger.missed, 5);
    // Late by no more than the tolerance is on time under any policy.
    assert!(matches!(
        decide(&never, at("05:01:00")),
        Decision::Fire {
            cause: Cause::Due,
            ..
        }
    ));
}

#[test]
fn an_interrupted_run_is_run_again_with_the_same_time() {
    let policies = Policies::default();
    let (when, _, claimed) = fire(&policies, &Ledger::default(), at("00:01:00"));
    // The process is gone; one who takes over:
    let ledger = claimed.recover();
    assert_eq!(
        (ledger.is_running(), &ledger.interrupted[..]),
        (false, &[when][..])
    );
    assert_eq!(ledger.recover(), ledger);
    let (again, cause, ledger) = fire(&policies, &ledger, at("00:01:20"));
    assert_eq!((again, cause), (when, Cause::Interrupted));
    let ledger = ledger.finish(again, RunEnd::Succeeded);
    assert_eq!((ledger.fired, ledger.missed), (1, 0));
    assert_waits(&policies, &ledger, at("00:01:30"), at("00:02:00"));

    let never = Policies::default().with_missed_runs(MissedRunPolicy::Skip);
    let ledger = skip(&never, &claimed.recover(), at("00:01:20"));
    assert_eq!((ledger.fired, ledger.missed), (0, 1));

    // The first process was not gone after all.
    let late = claimed.recover().finish(when, RunEnd::Succeeded);
    assert_eq!((late.fired, late.interrupted.len()), (1, 0));
}

#[test]
fn a_function_that_brings_the_process_down_is_not_run_for_ever() {
    let daily = schedule("@daily", "UTC");
    let policies = Policies::default().with_missed_deadline(Duration::from_secs(600));
    let mut now = time("2026-05-02T00:00:00Z");
    let mut ledger = Ledger::default();
    let mut runs = 0;
    while let Decision::Fire {
        ledger: claimed, ..
    } = decide(&daily, &policies, &ledger, time(CREATED), now)
    {
        runs += 1;
        ledger = claimed.recover();
        now += SignedDuration::from_secs(60);
    }
    assert_eq!(runs, 11);
}

#[test]
fn nothing_fires_again_when_the_clock_is_set_back() {
    let policies = Policies::default();
    let (when, _, ledger) = fire(&policies, &Ledger::default(), at("10:00:00"));
    let ledger = ledger.finish(when, RunEnd::Succeeded);
    assert_waits(&policies, &ledger, at("09:00:00"), at("10:01:00"));
    assert_eq!(fire(&policies, &ledger, at("10:01:00")).0, at("10:01:00"));
}

#[test]
fn disabled_time_is_neither_fired_nor_missed() {
    let policies = Policies::default();
    let ledger = Ledger::default().resume(at("12:00:30"));
    assert_waits(&policies, &ledger, at("12:00:30"), at("12:01:00"));
    assert_eq!((ledger.missed, ledger.fired), (0, 0));
    // Set back a little while it was disabled: what was dealt with does not come again.
    assert_eq!(
        ledger.resume(at("11:59:00")).accounted_until,
        Some(at("12:00:30"))
    );
    // Years ahead by a wrong clock: begin anew.
    let lost = Ledger::default().resume(time("2099-01-01T00:00:00Z"));
    assert_eq!(
        lost.resume(at("12:00:00")).accounted_until,
        Some(at("12:00:00"))
    );
}

#[test]
fn the_stored_form_is_small_and_tolerant() {
    let json = |ledger: &Ledger| serde_json::to_string(ledger).expect("json");
    let empty = json(&Ledger::default());
    assert_eq!(empty, r#"{"fired":0,"failed":0,"skipped":0,"missed":0}"#);
    let (_, _, ledger) = fire(&Policies::default(), &Ledger::default(), at("00:01:00"));
    let text = json(&ledger);
    assert_eq!(
        text,
        r#"{"lastFireAt":"2026-05-01T00:01:00Z","accountedUntil":"2026-05-01T00:01:00Z","running":["2026-05-01T00:01:00Z"],"fired":0,"failed":0,"skipped":0,"missed":0}"#
    );
    let read = |text: &str| serde_json::from_str::<Ledger>(text).expect("a ledger");
    assert_eq!(read(&text), ledger);
    assert_eq!(read(r#"{"fromALaterVersion":1,"fired":3}"#).fired, 3);

    let policies = r#"{"missedRuns":"skip","missedDeadlineSeconds":60,"overlap":"allow","maxRunning":3,"onTimeWithinSeconds":5}"#;
    let read: Policies = serde_json::from_str(policies).expect("policies");
    assert_eq!(serde_json::to_string(&read).expect("json"), policies);
    assert_eq!(
        serde_json::from_str::<Policies>("{}").expect("defaults"),
        Policies::default()
    );
}
