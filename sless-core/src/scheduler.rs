//! [`Scheduler`]: artifact in, something that answers out.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    Artifact, ArtifactKind, Body, ChangeStream, Digest, Ensured, Entrypoint, Failure, HeldStream,
    LogOptions, LogStream, LogTail, Namespace, Quantity, Receipt, Result, Runtime,
    resource::{FunctionId, JobId},
};

/// Runs functions and jobs.
///
/// Closures in memory, supervised processes on one machine, or Deployments in a cluster. Backends run
/// `sless_conformance::scheduler!`; the clauses stand in `docs/contracts/scheduler.md`.
///
/// # Contract
/// - Methods that change something take the wanted state, do nothing where it is already so, can be
///   repeated after a crash at any point, and answer with what they see now.
/// - Work goes on between calls; the backend owns it and ends it when it is shut down or dropped.
/// - A new revision takes over without a failed call between, and only once it can answer; one that
///   cannot leaves the old one serving.
#[async_trait]
pub trait Scheduler: fmt::Debug + Send + Sync + 'static {
    /// What this backend can run.
    fn capabilities(&self) -> SchedulerCapabilities;

    /// Sees to it that this workload runs, or is on its way, and answers where it is.
    ///
    /// The same [`Workload::revision`] changes nothing that runs, save that `replicas` scales, and that
    /// `max_replicas` and `idle` are taken over; what other hands changed is repaired, and a newer version of the backend
    /// may roll out anew. Progress is hinted by [`changes`](Scheduler::changes).
    ///
    /// # Errors
    /// Only if nothing could be found out or begun; a workload that cannot start is a value.
    /// `Conflict` if a higher [`Workload::generation`] was applied already; `NotFound`, reason
    /// `namespace_missing`, if the backend needs a place for the namespace and none was made.
    async fn apply(&self, workload: &Workload) -> Result<WorkloadStatus>;

    /// Where a workload is. One that was never applied is [`WorkloadPhase::Absent`].
    async fn status(&self, function: &FunctionId) -> Result<WorkloadStatus>;

    /// Ends a workload, with what is in flight finished within the backend's drain time, and removes
    /// everything that was made for it. Goes on past what is already gone; what is still ending is in
    /// [`Receipt::left`]. Repeated, it removes nothing.
    async fn remove(&self, function: &FunctionId) -> Result<Receipt>;

    /// What calls the function. It stays right over new revisions and sleep; after
    /// [`remove`](Scheduler::remove) its calls fail with `NotFound`.
    ///
    /// # Errors
    /// `NotFound` if the function was never applied, or is removed.
    async fn invoker(&self, function: &FunctionId) -> Result<Arc<dyn Invoke>>;

    /// Sees to it that this run happens, once, and answers where it is. A run that has ended stays
    /// ended: the same run id never runs twice, also after a crash, where a run that was cut off ends
    /// as `Failed` with reason `interrupted`. Only the newest run of a job need be remembered.
    async fn run_job(&self, run: &JobRun) -> Result<RunStatus>;

    /// Ends what runs of a job, and forgets and removes everything of its runs.
    async fn remove_job(&self, job: &JobId) -> Result<Receipt>;

    /// What a function or a job wrote.
    ///
    /// # Errors
    /// `NotFound` if the backend knows nothing of it.
    async fn logs(&self, of: &LogTarget, options: &LogOptions) -> Result<LogStream>;

    /// Lists what this backend keeps for functions, jobs and triggers: what [`remove`](Scheduler::remove)
    /// and its like would remove, each with the object that it was made for. What belongs to a namespace
    /// is not in it. What comes or goes meanwhile may be in it or not.
    ///
    /// # Errors
    /// `Unsupported`, in the stream, for each thing that is kept and cannot be listed; the rest is.
    fn held(&self) -> HeldStream;

    /// Hints that a workload or a job may have moved on.
    fn changes(&self) -> ChangeStream;

    /// Makes the place where the workloads of a namespace live, if it is not there. There is no
    /// method that removes one.
    async fn ensure_namespace(&self, namespace: &Namespace) -> Result<Ensured>;
}

/// Calls a function.
#[async_trait]
pub trait Invoke: fmt::Debug + Send + Sync + 'static {
    /// Sends a request and answers the response as soon as its head is there. Bodies stream both
    /// ways. A function that sleeps is woken, and the call waits for it within its time.
    ///
    /// Whatever the function answers is a response, a raised error too (status 500). Dropping the
    /// future, or the response's body, tells the function that the caller left.
    ///
    /// # Errors
    /// `NotFound` (removed), `Unavailable` (stopped, or cannot start, with the reason), `Overloaded`
    /// (the named queue is full; carries when to retry), `Timeout`, `Interrupted` (it died on the
    /// way).
    async fn invoke(
        &self,
        request: http::Request<Body>,
        context: &CallContext,
    ) -> Result<http::Response<Body>>;
}

/// What goes with a call beside the request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallContext {
    /// Names the call in every log.
    pub request_id: Arc<str>,
    /// How long the call may take in all, waking and the response's body included. A backend ends what
    /// takes longer; the engine ends a call whose head has not come by then.
    pub timeout: Duration,
    /// Where the end of what the call writes to its log goes, if somebody wants it.
    pub log_tail: LogTail,
}

impl CallContext {
    /// A context of its two parts.
    pub fn new(request_id: impl Into<Arc<str>>, timeout: Duration) -> Self {
        Self {
            request_id: request_id.into(),
            timeout,
            log_tail: LogTail::default(),
        }
    }

    /// Says where the end of what the call writes to its log goes.
    #[must_use]
    pub fn with_log_tail(mut self, log_tail: LogTail) -> Self {
        self.log_tail = log_tail;
        self
    }
}

/// What a [`Scheduler`] can do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchedulerCapabilities {
    /// The kinds of artifact that it runs.
    pub artifacts: Vec<ArtifactKind>,
    /// Whether functions without calls go to sleep and wake on the next one.
    pub sleeps: bool,
    /// Whether more than one copy of a function can run.
    pub replicas: bool,
    /// Whether copies are added and taken away with the calls under way.
    pub scales: bool,
}

impl SchedulerCapabilities {
    /// A scheduler of such artifacts, with one copy each that never sleeps.
    pub fn new(artifacts: impl Into<Vec<ArtifactKind>>) -> Self {
        Self {
            artifacts: artifacts.into(),
            sleeps: false,
            replicas: false,
            scales: false,
        }
    }

    /// Says that functions without calls go to sleep.
    #[must_use]
    pub const fn with_sleeps(mut self) -> Self {
        self.sleeps = true;
        self
    }

    /// Says that more than one copy of a function can run.
    #[must_use]
    pub const fn with_replicas(mut self) -> Self {
        self.replicas = true;
        self
    }

    /// Says that copies are added and taken away with the calls under way.
    #[must_use]
    pub const fn with_scaling(mut self) -> Self {
        self.scales = true;
        self
    }
}

/// What is to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// The function.
    pub function: FunctionId,
    /// The generation of the function's spec: it fences off a writer that was overtaken.
    pub generation: i64,
    /// What was built.
    pub artifact: Artifact,
    /// The language and its version.
    pub runtime: Runtime,
    /// `module.function`.
    pub entrypoint: Entrypoint,
    /// The environment, sorted.
    pub env: BTreeMap<String, String>,
    /// How many copies; 0 is off.
    pub replicas: u32,
    /// The most copies; where it is above `replicas`, and that is not 0, a backend that scales adds copies while more calls
    /// are under way than those take.
    #[serde(default)]
    pub max_replicas: u32,
    /// How long one call may take.
    pub timeout: Duration,
    /// The most memory of one copy.
    pub memory: Option<Quantity>,
    /// The processor share of one copy.
    pub cpu: Option<Quantity>,
    /// Calls at once in one copy.
    pub concurrency: u32,
    /// How long without a call until a copy goes to sleep; `None` is the backend's default, zero is
    /// never.
    pub idle: Option<Duration>,
    /// When the artifact was built.
    pub built_at: Timestamp,
}

impl Workload {
    /// The digest of all that a running copy depends on. Another revision is another rollout; the
    /// same one is none. Generation, numbers of copies, idle time and the time of the build are no
    /// part of it.
    pub fn revision(&self) -> Digest {
        let Self {
            function,
            generation: _,
            artifact,
            runtime,
            entrypoint,
            env,
            replicas: _,
            max_replicas: _,
            timeout,
            memory,
            cpu,
            concurrency,
            idle: _,
            built_at: _,
        } = self;
        let parts = (
            "sless-revision-v1",
            function.uid.as_str(),
            &artifact.digest,
            runtime.as_str(),
            entrypoint,
            env,
            timeout.as_millis(),
            memory.as_ref().map(Quantity::milli),
            cpu.as_ref().map(Quantity::milli),
            concurrency,
        );
        // Strings, numbers and sorted maps of them always serialize; the fallback only keeps the
        // signature simple.
        Digest::of(serde_json::to_vec(&parts).unwrap_or_default())
    }
}

/// Where a workload is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WorkloadPhase {
    /// It was never applied, or was removed.
    #[default]
    Absent,
    /// The applied revision is on its way.
    Starting,
    /// The applied revision answers, or would on the next call where it sleeps.
    Ready,
    /// The applied revision cannot run.
    Failed,
    /// Off: no copies are wanted, and none run.
    Stopped,
}

/// What is seen of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkloadStatus {
    /// Where it is.
    pub phase: WorkloadPhase,
    /// The revision that was applied last.
    pub applied: Option<Digest>,
    /// The revision that answers calls that begin now. While two do, the older one: the new one is
    /// named once every call that begins goes to it.
    pub serving: Option<Digest>,
    /// How many copies answer, or would on the next call where they sleep.
    pub ready_replicas: u32,
    /// Whether no copy is awake.
    pub asleep: bool,
    /// Why it is not ready; with [`WorkloadPhase::Starting`], what holds it up and may pass.
    pub failure: Option<Failure>,
}

impl WorkloadStatus {
    /// A status with this phase, of this revision.
    pub const fn new(phase: WorkloadPhase, applied: Option<Digest>) -> Self {
        Self {
            phase,
            applied,
            serving: None,
            ready_replicas: 0,
            asleep: false,
            failure: None,
        }
    }

    /// Says which revision answers, in how many copies.
    #[must_use]
    pub const fn with_serving(mut self, serving: Option<Digest>, ready_replicas: u32) -> Self {
        self.serving = serving;
        self.ready_replicas = ready_replicas;
        self
    }

    /// Says whether no copy is awake.
    #[must_use]
    pub const fn with_asleep(mut self, asleep: bool) -> Self {
        self.asleep = asleep;
        self
    }

    /// Says why it is not ready.
    #[must_use]
    pub fn with_failure(mut self, failure: Failure) -> Self {
        self.failure = Some(failure);
        self
    }
}

/// One run of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobRun {
    /// The job.
    pub job: JobId,
    /// Which run of it, from 1.
    pub run_id: i64,
    /// The function to run, as it would be applied.
    pub workload: Workload,
    /// The event, as JSON text.
    pub event: String,
    /// How long the run may take.
    pub timeout: Duration,
    /// Whether it was seen under way. Where nothing of it is left then, it was cut off, and ends as
    /// `Failed` with reason `interrupted`; it must not begin again.
    pub began: bool,
}

/// Where a run of a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RunPhase {
    /// It waits for a place.
    Pending,
    /// It is under way.
    Running,
    /// The handler returned.
    Succeeded,
    /// The handler raised, was stopped, or could not be started.
    Failed,
}

impl RunPhase {
    /// Whether this is the end of the run.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// What is seen of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStatus {
    /// Where it is.
    pub phase: RunPhase,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// What the handler returned, as JSON text of at most [`RunStatus::RESULT_BYTES_MAX`] bytes.
    pub result: Option<String>,
    /// Why it failed.
    pub failure: Option<Failure>,
}

impl RunStatus {
    /// The longest result; a longer one is a failure that names this limit, `result_bytes`.
    pub const RESULT_BYTES_MAX: usize = 64 * 1024;

    /// A run that waits.
    pub const fn pending() -> Self {
        Self {
            phase: RunPhase::Pending,
            started_at: None,
            finished_at: None,
            result: None,
            failure: None,
        }
    }

    /// A run that began at this time.
    pub const fn running(started_at: Timestamp) -> Self {
        Self {
            phase: RunPhase::Running,
            started_at: Some(started_at),
            finished_at: None,
            result: None,
            failure: None,
        }
    }

    /// The same run, ended.
    #[must_use]
    pub fn finished(mut self, at: Timestamp, outcome: Result<String, Failure>) -> Self {
        self.finished_at = Some(at);
        match outcome {
            Ok(result) => {
                self.phase = RunPhase::Succeeded;
                self.result = Some(result);
            }
            Err(failure) => {
                self.phase = RunPhase::Failed;
                self.failure = Some(failure);
            }
        }
        self
    }
}

/// Whose log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LogTarget {
    /// A function's, over all its copies.
    Function(FunctionId),
    /// A job's, over all its runs.
    Job(JobId),
}
