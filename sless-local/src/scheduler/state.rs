//! What is known of one function.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sless_core::{Digest, Failure, FunctionId, Workload, WorkloadPhase, WorkloadStatus};
use tokio_util::sync::CancellationToken;

use super::crew::Crew;

/// Which revision is wanted, which one serves, and who serves it.
#[derive(Debug, Default)]
pub(super) struct State {
    /// What was applied last.
    pub(super) applied: Option<Arc<Workload>>,
    /// What serves: a revision whose handler was imported once.
    pub(super) serving: Option<Arc<Workload>>,
    /// Who serves; absent while the function sleeps.
    pub(super) crew: Option<Arc<Crew>>,
    /// The revision that is being started to take over.
    pub(super) starting: Option<Starting>,
    /// The revision that could not be started.
    pub(super) failed: Option<Failed>,
    /// How often a revision could not be started, one time after the other.
    pub(super) tries: Option<(Digest, u32)>,
    /// Nothing is applied, and no crew begins, any more.
    pub(super) ended: bool,
}

/// A revision that is being started to take over.
#[derive(Debug)]
pub(super) struct Starting {
    pub(super) revision: Digest,
    pub(super) cancel: CancellationToken,
}

/// A revision that could not be started.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) revision: Digest,
    pub(super) why: Failure,
    /// Whether it may be tried again now.
    pub(super) due: bool,
}

/// What is remembered of a function.
#[derive(Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) function: FunctionId,
    pub(super) applied: Workload,
    pub(super) serving: Option<Workload>,
}

/// Whether the next try to start can go better.
pub(super) fn passes(reason: &str) -> bool {
    use sless_core::reason;
    [
        reason::START_TIMEOUT,
        reason::OUT_OF_MEMORY,
        reason::BACKEND_UNAVAILABLE,
        "crash",
        "host",
    ]
    .contains(&reason)
}

impl State {
    pub(super) fn is_off(&self) -> bool {
        self.applied
            .as_ref()
            .is_some_and(|applied| applied.replicas == 0)
    }

    pub(super) fn serves(&self, revision: &Digest) -> bool {
        self.serving
            .as_ref()
            .is_some_and(|serving| serving.revision() == *revision)
    }

    pub(super) fn record(&self, function: &FunctionId) -> Option<Record> {
        Some(Record {
            function: function.clone(),
            applied: self.applied.as_deref()?.clone(),
            serving: self.serving.as_deref().cloned(),
        })
    }

    /// What is to be remembered where what was applied is about to serve.
    pub(super) fn record_of_next(&self, function: &FunctionId) -> Option<Record> {
        let record = self.record(function)?;
        let serving = Some(record.applied.clone());
        Some(Record { serving, ..record })
    }

    pub(super) fn status(&self) -> WorkloadStatus {
        let Some(applied) = self.applied.as_ref().filter(|_| !self.ended) else {
            return WorkloadStatus::new(WorkloadPhase::Absent, None);
        };
        let revision = applied.revision();
        if self.is_off() {
            return WorkloadStatus::new(WorkloadPhase::Stopped, Some(revision));
        }
        let failed = self
            .failed
            .as_ref()
            .filter(|failed| failed.revision == revision);
        let phase = match failed {
            _ if self.serves(&revision) => WorkloadPhase::Ready,
            Some(_) => WorkloadPhase::Failed,
            None => WorkloadPhase::Starting,
        };
        let serving = self.serving.as_ref().map(|serving| serving.revision());
        let replicas = if serving.is_some() {
            applied.replicas
        } else {
            0
        };
        let status = WorkloadStatus::new(phase, Some(revision))
            .with_serving(serving, replicas)
            .with_asleep(self.crew.is_none());
        match failed {
            Some(failed) if phase == WorkloadPhase::Failed => {
                status.with_failure(failed.why.clone())
            }
            _ => status,
        }
    }
}
