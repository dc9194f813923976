//! What to do with runs that were missed or that would overlap.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What becomes of a due time that passed while nothing could fire it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum MissedRunPolicy {
    /// The latest one is run, once; the others are counted as missed. A run that was interrupted is
    /// run again.
    #[default]
    RunOnce,
    /// All are counted as missed, interrupted ones too.
    Skip,
}

/// What becomes of a due time that comes while an earlier run goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum OverlapPolicy {
    /// It is counted as skipped: never two at once.
    #[default]
    Skip,
    /// It is run beside the others, up to [`Policies::max_running`] at once.
    Allow,
}

/// How a schedule deals with missed and overlapping runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Policies {
    /// What becomes of missed runs.
    pub missed_runs: MissedRunPolicy,
    /// A missed or interrupted run whose time is longer ago than this is not run any more. One day
    /// by default, so that a nightly run is made up for in the morning. Whole seconds
    /// (`missedDeadlineSeconds`).
    #[serde(rename = "missedDeadlineSeconds", with = "seconds")]
    pub missed_deadline: Duration,
    /// What becomes of overlapping runs.
    pub overlap: OverlapPolicy,
    /// How many runs may go on at once under [`OverlapPolicy::Allow`]; a time that is due beyond
    /// them is counted as skipped. 10 by default; 0 means 1.
    pub max_running: usize,
    /// Up to this long after its time a run counts as on time rather than missed: timers and
    /// restarts take a moment. One minute by default. Whole seconds (`onTimeWithinSeconds`).
    #[serde(rename = "onTimeWithinSeconds", with = "seconds")]
    pub on_time_within: Duration,
}

impl Default for Policies {
    fn default() -> Self {
        Self {
            missed_runs: MissedRunPolicy::default(),
            missed_deadline: Duration::from_secs(86_400),
            overlap: OverlapPolicy::default(),
            max_running: 10,
            on_time_within: Duration::from_secs(60),
        }
    }
}

impl Policies {
    /// With this policy for missed runs.
    #[must_use]
    pub fn with_missed_runs(mut self, policy: MissedRunPolicy) -> Self {
        self.missed_runs = policy;
        self
    }

    /// With this longest delay of a missed run.
    #[must_use]
    pub fn with_missed_deadline(mut self, deadline: Duration) -> Self {
        self.missed_deadline = deadline;
        self
    }

    /// With this policy for overlapping runs.
    #[must_use]
    pub fn with_overlap(mut self, policy: OverlapPolicy) -> Self {
        self.overlap = policy;
        self
    }

    /// With this many runs at once under [`OverlapPolicy::Allow`].
    #[must_use]
    pub fn with_max_running(mut self, runs: usize) -> Self {
        self.max_running = runs;
        self
    }

    /// With this delay within which a run is on time.
    #[must_use]
    pub fn with_on_time_within(mut self, delay: Duration) -> Self {
        self.on_time_within = delay;
        self
    }

    /// How many runs may go on at once.
    pub(super) fn room(&self) -> usize {
        match self.overlap {
            OverlapPolicy::Skip => 1,
            OverlapPolicy::Allow => self.max_running.max(1),
        }
    }
}

/// Durations as whole seconds.
mod seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(value.as_secs())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_secs)
    }
}
