//! Random histories: slow runs, crashes, late wake-ups, a clock that jumps both ways.

use std::{collections::BTreeSet, time::Duration};

use jiff::{SignedDuration, Timestamp};
use proptest::{collection::vec, prelude::*};

use super::{schedule, time};
use crate::cron::{
    Cause, Decision, Ledger, MissedRunPolicy, OverlapPolicy, Policies, RunEnd, Schedule, decide,
};

#[derive(Clone, Debug)]
enum Event {
    /// The clock goes on, or is set forward, by so many seconds.
    Forward(i64),
    /// The clock is set back.
    Back(i64),
    /// Woken exactly at the next due time.
    Punctual,
    /// A run ends, this one of those under way.
    End(usize, RunEnd),
    /// The process ends, and another takes over.
    Crash,
    /// The process ends after it has claimed what is due and before it has run it.
    CrashAfterClaim,
    /// Another process has changed the stored ledger; what was decided is thrown away.
    LostRace,
}

fn event() -> impl Strategy<Value = Event> {
    let end = prop_oneof![Just(RunEnd::Succeeded), Just(RunEnd::Failed)];
    prop_oneof![
        3 => (0_i64..200).prop_map(Event::Forward),
        1 => (0_i64..200_000).prop_map(Event::Forward),
        1 => (0_i64..10_000).prop_map(Event::Back),
        4 => Just(Event::Punctual),
        4 => (0_usize..4, end).prop_map(|(which, end)| Event::End(which, end)),
        1 => Just(Event::Crash),
        1 => Just(Event::CrashAfterClaim),
        1 => Just(Event::LostRace),
    ]
}

fn policies() -> impl Strategy<Value = Policies> {
    let missed = prop_oneof![Just(MissedRunPolicy::RunOnce), Just(MissedRunPolicy::Skip)];
    let overlap = prop_oneof![Just(OverlapPolicy::Skip), Just(OverlapPolicy::Allow)];
    (missed, overlap, 0_usize..4, 0_u64..100_000, 0_u64..120).prop_map(
        |(missed, overlap, runs, deadline, delay)| {
            Policies::default()
                .with_missed_runs(missed)
                .with_overlap(overlap)
                .with_max_running(runs)
                .with_missed_deadline(Duration::from_secs(deadline))
                .with_on_time_within(Duration::from_secs(delay))
        },
    )
}

struct History {
    schedule: Schedule,
    policies: Policies,
    created: Timestamp,
    now: Timestamp,
    stored: Ledger,
    /// Runs that are really going on.
    going_on: Vec<Timestamp>,
    claimed: BTreeSet<Timestamp>,
    ended: u64,
    failed: u64,
}

impl History {
    /// Decides until there is nothing to do; gives the time to wait for.
    fn settle(&mut self) -> Option<Timestamp> {
        // At most: count what is too old, run each interrupted time, then what is due.
        for _ in 0..self.stored.interrupted.len() + 4 {
            match self.decided() {
                Decision::Fire { at, cause, ledger } => {
                    self.claim(at, cause, ledger);
                    self.going_on.push(at);
                    let room = match self.policies.overlap {
                        OverlapPolicy::Skip => 1,
                        OverlapPolicy::Allow => self.policies.max_running.max(1),
                    };
                    assert!(
                        self.going_on.len() <= room,
                        "{} at once",
                        self.going_on.len()
                    );
                }
                Decision::Skip { ledger } => {
                    assert_ne!(ledger, self.stored, "a skip writes something down");
                    self.stored = ledger;
                }
                Decision::Wait { until } => {
                    assert!(until.is_none_or(|until| until > self.now));
                    return until;
                }
            }
            self.assert_accounts_balance();
        }
        panic!("does not settle");
    }

    fn decided(&self) -> Decision {
        decide(
            &self.schedule,
            &self.policies,
            &self.stored,
            self.created,
            self.now,
        )
    }

    fn claim(&mut self, at: Timestamp, cause: Cause, ledger: Ledger) {
        let age = self.now.duration_since(at);
        let made_up_for = || {
            self.policies.missed_runs == MissedRunPolicy::RunOnce
                && age <= SignedDuration::try_from(self.policies.missed_deadline).expect("small")
        };
        match cause {
            Cause::Interrupted => {
                assert!(self.stored.interrupted.contains(&at) && made_up_for());
            }
            Cause::Due | Cause::Missed => {
                assert!(self.claimed.insert(at), "{at} is claimed twice");
                assert!(at > self.created && at <= self.now);
                assert_eq!(ledger.last_fire_at, Some(at));
                assert_eq!(ledger.accounted_until, Some(at));
                assert!(cause == Cause::Due || made_up_for());
            }
        }
        assert!(ledger.running.contains(&at));
        self.stored = ledger;
    }

    /// Every due time is exactly one of running, interrupted, fired, skipped and missed.
    fn assert_accounts_balance(&self) {
        let ledger = &self.stored;
        let until = ledger.accounted_until.unwrap_or(self.created);
        let due = self
            .schedule
            .upcoming(self.created)
            .take_while(|at| *at <= until)
            .count() as u64;
        let under_way = (ledger.running.len() + ledger.interrupted.len()) as u64;
        assert_eq!(
            due,
            under_way + ledger.fired + ledger.skipped + ledger.missed,
            "{ledger:?}"
        );
        assert_eq!((ledger.fired, ledger.failed), (self.ended, self.failed));
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Forward(seconds) => self.now += SignedDuration::from_secs(seconds),
            Event::Back(seconds) => self.now -= SignedDuration::from_secs(seconds),
            Event::Punctual => self.now = self.settle().expect("there is always a next time"),
            Event::End(which, end) => {
                if self.going_on.is_empty() {
                    return;
                }
                let at = self.going_on.remove(which % self.going_on.len());
                self.stored = self.stored.finish(at, end);
                self.ended += 1;
                self.failed += u64::from(end == RunEnd::Failed);
            }
            Event::Crash => self.crash(),
            Event::CrashAfterClaim => {
                if let Decision::Fire { at, cause, ledger } = self.decided() {
                    self.claim(at, cause, ledger);
                }
                self.crash();
            }
            Event::LostRace => drop(self.decided()),
        }
        self.assert_accounts_balance();
    }

    fn crash(&mut self) {
        self.going_on.clear();
        self.stored = self.stored.recover();
        let text = serde_json::to_string(&self.stored).expect("json");
        self.stored = serde_json::from_str(&text).expect("a ledger");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_due_time_is_accounted_for_exactly_once(
        expression in prop::sample::select(vec![
            "* * * * *", "*/7 * * * *", "0 * * * *", "30 2 * * *", "0,30 1-3 * * *", "0 0 * * 1",
        ]),
        zone in prop::sample::select(vec!["UTC", "Europe/Berlin", "Australia/Lord_Howe"]),
        start in prop::sample::select(vec!["2026-03-28T20:00:07Z", "2026-10-24T20:00:00Z", "2026-04-04T10:00:00.5Z"]),
        policies in policies(),
        events in vec(event(), 1..40),
    ) {
        let created = time(start);
        let mut history = History {
            schedule: schedule(expression, zone),
            policies,
            created,
            now: created,
            stored: Ledger::default(),
            going_on: Vec::new(),
            claimed: BTreeSet::new(),
            ended: 0,
            failed: 0,
        };
        for event in events {
            history.step(event);
            history.settle();
        }
    }
}
