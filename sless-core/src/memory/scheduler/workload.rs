//! What is applied, and what serves.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use super::{
    super::{lock, log::LogRing},
    Shared,
    gate::Gate,
    handler::Handler,
};
use crate::{
    Digest, Failure, LogSource, Workload, WorkloadPhase, WorkloadStatus, reason,
    resource::FunctionId,
};

/// One function that was applied.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) log: Arc<LogRing>,
    applied: Option<Applied>,
    serving: Option<Arc<Revision>>,
    /// Earlier revisions on which calls may still run.
    draining: Vec<Arc<Revision>>,
}

#[derive(Debug)]
struct Applied {
    workload: Workload,
    digest: Digest,
    phase: WorkloadPhase,
    failure: Option<Failure>,
    /// Ends the wait for the start of this revision.
    starting: CancellationToken,
}

/// What a call runs on.
pub(super) struct Revision {
    pub(super) digest: Digest,
    pub(super) workload: Workload,
    pub(super) env: Arc<BTreeMap<String, String>>,
    pub(super) handler: Arc<dyn Handler>,
    pub(super) gate: Arc<Gate>,
    /// Cuts off its calls.
    pub(super) cut: CancellationToken,
    pub(super) log: Arc<LogRing>,
    /// When the last call ended, and when it is awake; nanoseconds of the clock's elapsed time.
    last_used: AtomicU64,
    awake_at: AtomicU64,
    /// How long without a call until it sleeps, in nanoseconds; 0 is never.
    idle: AtomicU64,
}

impl std::fmt::Debug for Revision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Revision")
            .field("digest", &self.digest)
            .finish_non_exhaustive()
    }
}

impl Revision {
    fn new(
        shared: &Shared,
        workload: &Workload,
        handler: Arc<dyn Handler>,
        log: Arc<LogRing>,
    ) -> Self {
        let idle = workload.idle.unwrap_or(shared.config.idle);
        let now = nanos(shared.clock.elapsed());
        Self {
            digest: workload.revision(),
            env: Arc::new(workload.env.clone()),
            handler,
            gate: Gate::new(places(workload)),
            cut: CancellationToken::new(),
            log,
            last_used: AtomicU64::new(now),
            awake_at: AtomicU64::new(now),
            idle: AtomicU64::new(nanos(idle)),
            workload: workload.clone(),
        }
    }

    pub(super) fn is_asleep(&self, shared: &Shared) -> bool {
        let idle_since = Duration::from_nanos(self.last_used.load(Ordering::Relaxed));
        let idle_for = shared.clock.elapsed().saturating_sub(idle_since);
        let idle = self.idle.load(Ordering::Relaxed);
        !self.gate.is_busy() && idle > 0 && nanos(idle_for) >= idle
    }

    /// Marks a call's begin or end.
    pub(super) fn used(&self, shared: &Shared) {
        self.last_used
            .store(nanos(shared.clock.elapsed()), Ordering::Relaxed);
    }

    /// Wakes it where it sleeps, and answers how long until it is awake. Callers that come in
    /// between wait for the same start.
    pub(super) fn wake(&self, shared: &Shared) -> Duration {
        let now = shared.clock.elapsed();
        if self.is_asleep(shared) {
            let awake_at = nanos(now + shared.config.start_delay);
            self.awake_at.store(awake_at, Ordering::Relaxed);
        }
        self.used(shared);
        Duration::from_nanos(self.awake_at.load(Ordering::Relaxed)).saturating_sub(now)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn places(workload: &Workload) -> usize {
    let places = u64::from(workload.replicas) * u64::from(workload.concurrency.max(1));
    usize::try_from(places).unwrap_or(usize::MAX)
}

/// What `apply` has to see to when it has let go of the lock.
pub(super) enum Step {
    /// Nothing: all is as it was.
    None,
    /// Telling that something changed.
    Changed,
    /// Waiting for the start of a revision, until this is cancelled.
    Start(CancellationToken),
}

/// What a call finds.
pub(super) enum Target {
    /// The revision that serves.
    Revision(Arc<Revision>),
    /// Nothing serves, for this reason.
    None(Failure),
}

impl Entry {
    pub(super) const fn new(log: Arc<LogRing>) -> Self {
        Self {
            log,
            applied: None,
            serving: None,
            draining: Vec::new(),
        }
    }

    pub(super) fn apply(&mut self, shared: &Shared, workload: &Workload) -> Step {
        let digest = workload.revision();
        if let Some(applied) = self
            .applied
            .as_mut()
            .filter(|applied| applied.digest == digest)
        {
            let before = applied.workload.replicas;
            applied.workload = workload.clone();
            // What failed without a handler is begun anew only where there is one now: a hint of a
            // change that is none would be followed by another look, without end.
            let settled =
                applied.phase != WorkloadPhase::Failed || shared.handler(workload).is_none();
            if settled && (before == workload.replicas || before > 0 && workload.replicas > 0) {
                let serving = self
                    .serving
                    .as_ref()
                    .filter(|serving| serving.digest == digest);
                if let Some(serving) = serving {
                    serving.gate.resize(places(workload));
                    let idle = workload.idle.unwrap_or(shared.config.idle);
                    serving.idle.store(nanos(idle), Ordering::Relaxed);
                }
                return if before == workload.replicas {
                    Step::None
                } else {
                    Step::Changed
                };
            }
        }
        self.begin(shared, workload, digest)
    }

    /// The generation that was applied last.
    pub(super) fn generation(&self) -> i64 {
        self.applied
            .as_ref()
            .map_or(0, |applied| applied.workload.generation)
    }

    /// Begins what is wanted anew: another revision, one that failed, or one that goes on or off.
    fn begin(&mut self, shared: &Shared, workload: &Workload, digest: Digest) -> Step {
        if let Some(before) = self.applied.take() {
            before.starting.cancel();
        }
        let starting = CancellationToken::new();
        let mut applied = Applied {
            workload: workload.clone(),
            digest,
            phase: WorkloadPhase::Starting,
            failure: None,
            starting: starting.clone(),
        };
        let mut step = Step::Changed;
        if workload.replicas == 0 {
            applied.phase = WorkloadPhase::Stopped;
            self.retire();
        } else if let Some(handler) = shared.handler(workload) {
            if shared.config.start_delay.is_zero() {
                applied.phase = WorkloadPhase::Ready;
                self.serve(shared, workload, handler);
            } else {
                step = Step::Start(starting);
            }
        } else {
            let failure = handler_missing(workload);
            self.log.write(
                shared.clock.now(),
                LogSource::System,
                None,
                &failure.message,
            );
            applied.phase = WorkloadPhase::Failed;
            applied.failure = Some(failure);
        }
        self.applied = Some(applied);
        step
    }

    /// The revision that was waited for is up.
    fn started(&mut self, shared: &Shared) {
        let Some(applied) = &mut self.applied else {
            return;
        };
        let workload = applied.workload.clone();
        if let Some(handler) = shared.handler(&workload) {
            applied.phase = WorkloadPhase::Ready;
            self.serve(shared, &workload, handler);
        } else {
            applied.phase = WorkloadPhase::Failed;
            applied.failure = Some(handler_missing(&workload));
        }
    }

    fn serve(&mut self, shared: &Shared, workload: &Workload, handler: Arc<dyn Handler>) {
        let revision = Revision::new(shared, workload, handler, Arc::clone(&self.log));
        let before = self.serving.replace(Arc::new(revision));
        // Calls that wait on the old revision are served by it: nobody is sent away by a rollout.
        self.keep_draining(before);
    }

    /// Takes what serves out of service; calls that wait are sent away, those that run go on.
    fn retire(&mut self) {
        let before = self.serving.take();
        if let Some(before) = &before {
            before.gate.close();
        }
        self.keep_draining(before);
    }

    fn keep_draining(&mut self, before: Option<Arc<Revision>>) {
        self.draining.extend(before);
        self.draining.retain(|revision| revision.gate.is_busy());
    }

    pub(super) fn status(&self, shared: &Shared) -> WorkloadStatus {
        let Some(applied) = &self.applied else {
            return WorkloadStatus::default();
        };
        let status = WorkloadStatus::new(applied.phase, Some(applied.digest));
        let status = match &self.serving {
            None => status,
            Some(serving) => {
                let current = serving.digest == applied.digest;
                let of = if current {
                    &applied.workload
                } else {
                    &serving.workload
                };
                status
                    .with_serving(Some(serving.digest), of.replicas)
                    .with_asleep(serving.is_asleep(shared))
            }
        };
        match &applied.failure {
            Some(failure) => status.with_failure(failure.clone()),
            None => status,
        }
    }

    pub(super) fn target(&self) -> Target {
        if let Some(serving) = &self.serving {
            return Target::Revision(Arc::clone(serving));
        }
        let phase = self.applied.as_ref().map(|applied| applied.phase);
        let failure = self
            .applied
            .as_ref()
            .and_then(|applied| applied.failure.clone());
        Target::None(failure.unwrap_or_else(|| match phase {
            Some(WorkloadPhase::Stopped) => {
                Failure::new(reason::SCALED_TO_ZERO, "the function is off: replicas is 0")
            }
            _ => Failure::new("starting", "the function is not up yet"),
        }))
    }

    fn revisions(&self) -> impl Iterator<Item = &Arc<Revision>> {
        self.serving.iter().chain(&self.draining)
    }

    /// Lets no call in any more; the answer is done when the last one has ended.
    pub(super) fn remove(&self) -> impl Future<Output = ()> + Send + 'static {
        if let Some(applied) = &self.applied {
            applied.starting.cancel();
        }
        let gates: Vec<_> = self
            .revisions()
            .map(|revision| Arc::clone(&revision.gate))
            .collect();
        for gate in &gates {
            gate.close();
        }
        let log = Arc::clone(&self.log);
        async move {
            for gate in gates {
                gate.empty().await;
            }
            log.close();
        }
    }

    /// Ends every call at once.
    pub(super) fn cut_off(&self) {
        if let Some(applied) = &self.applied {
            applied.starting.cancel();
        }
        for revision in self.revisions() {
            revision.gate.close();
            revision.cut.cancel();
        }
        self.log.close();
    }
}

pub(super) fn handler_missing(workload: &Workload) -> Failure {
    let (function, entrypoint) = (&workload.function.name, &workload.entrypoint);
    let message = format!("no handler is registered for function {function} or {entrypoint}");
    Failure::new(reason::HANDLER_MISSING, message)
}

impl Shared {
    /// Ends the start that `token` stands for, unless something else was applied since.
    pub(super) fn started(&self, function: &FunctionId, token: &CancellationToken) {
        {
            let mut functions = lock(&self.functions);
            // Cancelled under the same lock by whatever takes the place of this start.
            let Some(entry) = functions
                .get_mut(function)
                .filter(|_| !token.is_cancelled())
            else {
                return;
            };
            entry.started(self);
        }
        self.changes.notify(function.key());
    }
}
