//! What a cron trigger remembers: which times were dealt with, and how.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// How far in the future the accounting may stand before [`Ledger::resume`] takes it for the work
/// of a clock that was wrong.
const WRONG_CLOCK: SignedDuration = SignedDuration::from_hours(24);

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// The function answered with success.
    Succeeded,
    /// It did not.
    Failed,
}

/// What is stored with a cron trigger, as part of its status.
///
/// It accounts for every due time: each one after the trigger's creation and up to
/// [`accounted_until`](Self::accounted_until) is exactly one of running, interrupted, fired,
/// skipped or missed, so that
/// `running.len() + interrupted.len() + fired + skipped + missed` is the number of due times.
///
/// It is a few numbers and, usually, at most one fire time. Fields that are absent have their
/// defaults and unknown ones are passed over, so that older and newer versions read each other's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Ledger {
    /// The newest due time that was fired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_fire_at: Option<Timestamp>,
    /// Due times up to this one are dealt with and never come again. `None` stands for the
    /// trigger's creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accounted_until: Option<Timestamp>,
    /// Due times that were claimed and whose runs have not ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub running: Vec<Timestamp>,
    /// Due times that were claimed by a process that is gone, and that may have run in part.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interrupted: Vec<Timestamp>,
    /// How many due times were run to an end.
    pub fired: u64,
    /// How many of these failed.
    pub failed: u64,
    /// How many due times were passed over because an earlier run went on.
    pub skipped: u64,
    /// How many due times nothing fired in time.
    pub missed: u64,
}

impl Ledger {
    /// After the run of this due time has ended. A time that is not under way changes nothing, so
    /// that saying it twice does no harm.
    #[must_use]
    pub fn finish(&self, at: Timestamp, end: RunEnd) -> Self {
        let mut next = self.clone();
        // A run that was given up for interrupted may still come to its end.
        for under_way in [&mut next.running, &mut next.interrupted] {
            if let Some(index) = under_way.iter().position(|time| *time == at) {
                under_way.remove(index);
                next.fired += 1;
                next.failed += u64::from(end == RunEnd::Failed);
                break;
            }
        }
        next
    }

    /// After the process that ran this trigger's runs is gone: they are interrupted. To be called
    /// (and stored) once by whoever takes over a trigger, before the first [`decide`](super::decide),
    /// and never while one of its runs can still be going on.
    #[must_use]
    pub fn recover(&self) -> Self {
        self.recover_but(&BTreeSet::new())
    }

    /// After it is found that nobody runs what is under way, save for `going_on`: the rest is
    /// interrupted. Who has read the stored ledger calls this each time before [`decide`](super::decide),
    /// with the runs that it knows to go on: a claim can have been stored although the answer was lost.
    #[must_use]
    pub fn recover_but(&self, going_on: &BTreeSet<Timestamp>) -> Self {
        let mut next = self.clone();
        let (running, lost): (Vec<_>, Vec<_>) = next
            .running
            .into_iter()
            .partition(|at| going_on.contains(at));
        next.running = running;
        next.interrupted.extend(lost);
        next.interrupted.sort_unstable();
        next.interrupted.dedup();
        next
    }

    /// After a stretch of time that does not count: the trigger was disabled until now, or got
    /// another schedule. What was due in it is neither fired nor missed.
    ///
    /// What is accounted for stays so when the clock was set back. Where it lies more than a day in
    /// the future, though, it comes from a clock that was wrong, and accounting begins anew from
    /// now: this is how a trigger is freed that would else wait for that day.
    #[must_use]
    pub fn resume(&self, now: Timestamp) -> Self {
        let mut next = self.clone();
        next.accounted_until = match self.accounted_until {
            Some(until) if until > now && until.duration_since(now) <= WRONG_CLOCK => Some(until),
            _ => Some(now),
        };
        next
    }

    /// Whether a run of this trigger is under way.
    pub fn is_running(&self) -> bool {
        !self.running.is_empty()
    }
}
