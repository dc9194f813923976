//! What to do now: fire, write down, or wait.

use jiff::{SignedDuration, Timestamp};

use crate::cron::{Ledger, MissedRunPolicy, Policies, Schedule};

/// What [`decide`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Store this ledger, then run the function for this due time, then call [`Ledger::finish`].
    ///
    /// If the ledger cannot be stored because it was changed meanwhile, do not run; read and decide
    /// again.
    Fire {
        /// The due time. It names the run: a run that is repeated after a crash has the same one.
        at: Timestamp,
        /// Why it is run now.
        cause: Cause,
        /// What to store first.
        ledger: Ledger,
    },
    /// Nothing is to be run, but due times were passed over: store this ledger and decide again.
    Skip {
        /// What to store.
        ledger: Ledger,
    },
    /// There is nothing to do before this time; nothing needs to be stored. Decide again then, and
    /// whenever a run has ended. `None`: never.
    Wait {
        /// The next due time, always later than now.
        until: Option<Timestamp>,
    },
}

/// Why a due time is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It is due now.
    Due,
    /// It was missed and is made up for.
    Missed,
    /// It was run before, and the process was gone before the run ended.
    Interrupted,
}

/// Decides what a cron trigger does now.
///
/// It is a pure function; whoever calls it stores the ledger it gives (with a compare-and-swap)
/// **before** running anything. So a due time is *claimed first*:
///
/// - No due time is claimed twice, whatever the clock does. When the clock is set back, nothing
///   fires before it is past the last time that was dealt with. When it is set forward, what lies
///   between was missed.
/// - A crash between the claim and [`Ledger::finish`] leaves the due time in
///   [`Ledger::running`]. Who takes over calls [`Ledger::recover`], and `decide` treats what was
///   interrupted as missed: under [`MissedRunPolicy::RunOnce`] it is run again, with the same due
///   time. A run thus happens at least once, and the due time serves as its idempotency key.
/// - Every due time is fired, skipped or missed, exactly once; [`Ledger`] tells the sum.
///
/// Of several due times that have passed since the last decision, only the latest one can still be
/// run. It is *due* when it is not older than [`Policies::on_time_within`], else *missed*: then it
/// is run under [`MissedRunPolicy::RunOnce`] unless it is older than [`Policies::missed_deadline`].
/// The earlier ones are counted as missed. Where an earlier run leaves no room
/// ([`OverlapPolicy`](super::OverlapPolicy)) all are counted as skipped.
///
/// `created_at` is where accounting begins for a ledger that has dealt with nothing yet: a trigger
/// misses nothing from before it was made.
///
/// ```
/// use jiff::Timestamp;
/// use sless_core::cron::{Cause, Decision, Ledger, Policies, RunEnd, Schedule, decide};
///
/// let nightly = Schedule::parse("0 2 * * *", None)?;
/// let time = |text: &str| text.parse::<Timestamp>().unwrap();
/// let (policies, created) = (Policies::default(), time("2026-05-01T12:00:00Z"));
///
/// // Down for three nights, up again in the morning: the last one is made up for.
/// let now = time("2026-05-04T07:30:00Z");
/// let Decision::Fire { at, cause, ledger } =
///     decide(&nightly, &policies, &Ledger::default(), created, now)
/// else {
///     panic!("something is due");
/// };
/// assert_eq!((at, cause), (time("2026-05-04T02:00:00Z"), Cause::Missed));
/// assert_eq!(ledger.missed, 2);
///
/// let ledger = ledger.finish(at, RunEnd::Succeeded);
/// assert_eq!(
///     decide(&nightly, &policies, &ledger, created, now),
///     Decision::Wait { until: Some(time("2026-05-05T02:00:00Z")) }
/// );
/// # Ok::<(), sless_core::Error>(())
/// ```
pub fn decide(
    schedule: &Schedule,
    policies: &Policies,
    ledger: &Ledger,
    created_at: Timestamp,
    now: Timestamp,
) -> Decision {
    let mut next = ledger.clone();
    if let Some(at) = take_interrupted(&mut next, policies, now) {
        return Decision::Fire {
            at,
            cause: Cause::Interrupted,
            ledger: next,
        };
    }

    let accounted = ledger.accounted_until.unwrap_or(created_at);
    let due = schedule.due_between(accounted, now);
    let Some(latest) = due.latest else {
        if next != *ledger {
            return Decision::Skip { ledger: next };
        }
        return Decision::Wait {
            until: schedule.next_after(accounted.max(now)),
        };
    };

    next.accounted_until = Some(latest);
    if next.running.len() >= policies.room() {
        next.skipped += due.count;
        return Decision::Skip { ledger: next };
    }
    let age = now.duration_since(latest);
    let on_time = age <= signed(policies.on_time_within);
    if !on_time && !may_make_up(policies, age) {
        next.missed += due.count;
        return Decision::Skip { ledger: next };
    }
    next.missed += due.count - 1;
    next.running.push(latest);
    next.last_fire_at = next.last_fire_at.max(Some(latest));
    let cause = if on_time { Cause::Due } else { Cause::Missed };
    Decision::Fire {
        at: latest,
        cause,
        ledger: next,
    }
}

/// Claims the oldest interrupted time that may be run again now; counts as missed those that may
/// not be any more.
fn take_interrupted(ledger: &mut Ledger, policies: &Policies, now: Timestamp) -> Option<Timestamp> {
    let before = ledger.interrupted.len();
    ledger
        .interrupted
        .retain(|at| may_make_up(policies, now.duration_since(*at)));
    ledger.missed += (before - ledger.interrupted.len()) as u64;
    if ledger.interrupted.is_empty() || ledger.running.len() >= policies.room() {
        return None;
    }
    let at = ledger.interrupted.remove(0);
    ledger.running.push(at);
    Some(at)
}

fn may_make_up(policies: &Policies, age: SignedDuration) -> bool {
    policies.missed_runs == MissedRunPolicy::RunOnce && age <= signed(policies.missed_deadline)
}

fn signed(duration: std::time::Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}
