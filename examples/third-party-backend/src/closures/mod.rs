//! A [`Scheduler`] whose functions are async functions of this program.

mod call;
mod jobs;
mod log;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures::future::BoxFuture;
use http::{Request, Response};
use sless_core::{
    ArtifactKind, Body, ChangeStream, Changes, Digest, Ensured, Error, ErrorKind, Failure,
    FunctionId, Held, HeldStream, Invoke, JobId, JobRun, LogOptions, LogSource, LogStream,
    LogTarget, Namespace, Receipt, Result, RunStatus, Scheduler, SchedulerCapabilities, Workload,
    WorkloadPhase, WorkloadStatus, reason,
};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use self::{call::Invoker, jobs::Job, log::Log};

const BACKEND: &str = "closures";

/// Writes a line to a function's log.
pub type WriteLine = dyn Fn(LogSource, &str) + Send + Sync;

/// One call of a function.
pub struct Call {
    /// The request; for a job, a POST of its event.
    pub request: Request<Body>,
    /// Names the call.
    pub request_id: Arc<str>,
    /// The function's environment.
    pub env: Arc<BTreeMap<String, String>>,
    /// Writes a line to the function's log.
    pub log: Arc<WriteLine>,
}

/// What a function raises: the name of the error, and its message.
pub type Raised = (String, String);

/// What a function answers.
pub type Answer = Result<Response<Body>, Raised>;

/// A function of this program.
pub type Function = Arc<dyn Fn(Call) -> BoxFuture<'static, Answer> + Send + Sync>;

/// What a [`Closures`] holds at most.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Calls of one function that wait for a place.
    pub queued_calls: usize,
    /// How long the calls of a removed function may take to end.
    pub drain: Duration,
    /// Lines of one log.
    pub log_lines: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            queued_calls: 16,
            drain: Duration::from_secs(30),
            log_lines: 1_000,
        }
    }
}

/// A [`Scheduler`] whose functions are async functions of this program: an artifact's reference is
/// the name that one was registered under. One copy of each runs, in the tasks of its callers, and
/// everything ends with the process.
#[derive(Debug, Default)]
pub struct Closures(Arc<Shared>);

#[derive(Default)]
pub(crate) struct Shared {
    limits: Limits,
    functions: Mutex<HashMap<String, Function>>,
    entries: Mutex<BTreeMap<FunctionId, Entry>>,
    jobs: Mutex<BTreeMap<JobId, Job>>,
    namespaces: Mutex<BTreeSet<Namespace>>,
    changes: Changes,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// What was applied of one function.
struct Entry {
    applied: Workload,
    serving: Option<Arc<Revision>>,
    failure: Option<Failure>,
    log: Arc<Log>,
    /// Counts the calls, of all revisions.
    calls: TaskTracker,
}

/// A revision that serves, or served.
struct Revision {
    digest: Digest,
    workload: Workload,
    function: Function,
    env: Arc<BTreeMap<String, String>>,
    places: Arc<Semaphore>,
    queue: Arc<Semaphore>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Closures {
    /// A scheduler without functions.
    pub fn new(limits: Limits) -> Self {
        Self(Arc::new(Shared {
            limits,
            ..Shared::default()
        }))
    }

    /// Makes a function known under the reference that its artifact will have.
    pub fn register(&self, reference: impl Into<String>, function: Function) {
        lock(&self.0.functions).insert(reference.into(), function);
    }
}

impl Shared {
    /// The function of a workload. `Err` says why it cannot run, `Failure` being a value.
    fn function(&self, workload: &Workload) -> Result<Result<Function, Failure>> {
        let artifact = &workload.artifact;
        if artifact.kind != ArtifactKind::Memory {
            let message = format!("it runs no artifacts of kind {:?}", artifact.kind);
            return Err(Error::new(ErrorKind::Unsupported, message).at(BACKEND));
        }
        let found = lock(&self.functions).get(&artifact.reference).cloned();
        Ok(found.ok_or_else(|| {
            let message = format!("no function is registered as {}", artifact.reference);
            Failure::new(reason::HANDLER_MISSING, message)
        }))
    }

    fn revision(&self, workload: &Workload, function: Function) -> Arc<Revision> {
        Arc::new(Revision {
            digest: workload.revision(),
            workload: workload.clone(),
            function,
            env: Arc::new(workload.env.clone()),
            places: Arc::new(Semaphore::new(workload.concurrency.max(1) as usize)),
            queue: Arc::new(Semaphore::new(self.limits.queued_calls)),
        })
    }
}

impl Entry {
    fn status(&self) -> WorkloadStatus {
        let phase = match (&self.failure, self.applied.replicas) {
            (Some(_), _) => WorkloadPhase::Failed,
            (None, 0) => WorkloadPhase::Stopped,
            (None, _) => WorkloadPhase::Ready,
        };
        let status = WorkloadStatus::new(phase, Some(self.applied.revision()));
        let serving = self.serving.as_ref().map(|revision| revision.digest);
        let status = status.with_serving(serving, serving.is_some().into());
        match &self.failure {
            Some(failure) => status.with_failure(failure.clone()),
            None => status,
        }
    }

    /// Brings it to what is wanted.
    fn apply(&mut self, shared: &Shared, workload: &Workload, found: Result<Function, Failure>) {
        self.applied = workload.clone();
        self.failure = None;
        if workload.replicas == 0 {
            self.serving = None;
            return;
        }
        let digest = workload.revision();
        let current = self
            .serving
            .as_ref()
            .is_some_and(|serving| serving.digest == digest);
        match found {
            Ok(_) if current => {}
            Ok(function) => self.serving = Some(shared.revision(workload, function)),
            // What serves goes on serving.
            Err(failure) => self.failure = Some(failure),
        }
    }
}

#[async_trait]
impl Scheduler for Closures {
    fn capabilities(&self) -> SchedulerCapabilities {
        SchedulerCapabilities::new([ArtifactKind::Memory])
    }

    async fn apply(&self, workload: &Workload) -> Result<WorkloadStatus> {
        let found = self.0.function(workload)?;
        let id = &workload.function;
        if !lock(&self.0.namespaces).contains(&id.namespace) {
            let message = format!("namespace {} was never made", id.namespace);
            return Err(Error::not_found(message)
                .with_reason(reason::NAMESPACE_MISSING)
                .on(id));
        }
        let mut entries = lock(&self.0.entries);
        let entry = entries.entry(id.clone()).or_insert_with(|| Entry {
            applied: workload.clone(),
            serving: None,
            failure: None,
            log: Log::new(self.0.limits.log_lines),
            calls: TaskTracker::new(),
        });
        if entry.applied.generation > workload.generation {
            let applied = entry.applied.generation;
            let message = format!("generation {applied} of it was applied already");
            return Err(Error::conflict(message).on(id).at(BACKEND));
        }
        let before = entry.status();
        entry.apply(&self.0, workload, found);
        let after = entry.status();
        if before != after {
            self.0.changes.notify(id.key());
        }
        Ok(after)
    }

    async fn status(&self, function: &FunctionId) -> Result<WorkloadStatus> {
        Ok(lock(&self.0.entries)
            .get(function)
            .map(Entry::status)
            .unwrap_or_default())
    }

    async fn remove(&self, function: &FunctionId) -> Result<Receipt> {
        let mut receipt = Receipt::default();
        let Some(entry) = lock(&self.0.entries).remove(function) else {
            return Ok(receipt);
        };
        receipt.add("function", function.to_string(), BACKEND);
        self.0.changes.notify(function.key());
        entry.calls.close();
        // Calls that take longer end when their callers leave.
        let _ = tokio::time::timeout(self.0.limits.drain, entry.calls.wait()).await;
        entry.log.close();
        Ok(receipt)
    }

    async fn invoker(&self, function: &FunctionId) -> Result<Arc<dyn Invoke>> {
        if !lock(&self.0.entries).contains_key(function) {
            return Err(gone(function));
        }
        Ok(Arc::new(Invoker {
            shared: Arc::downgrade(&self.0),
            function: function.clone(),
        }))
    }

    async fn run_job(&self, run: &JobRun) -> Result<RunStatus> {
        jobs::run(&self.0, run)
    }

    async fn remove_job(&self, job: &JobId) -> Result<Receipt> {
        jobs::remove(&self.0, job).await
    }

    async fn logs(&self, of: &LogTarget, options: &LogOptions) -> Result<LogStream> {
        let log = match of {
            LogTarget::Function(id) => lock(&self.0.entries).get(id).map(|it| it.log.clone()),
            LogTarget::Job(id) => lock(&self.0.jobs).get(id).map(|it| it.log.clone()),
        };
        let log = log.ok_or_else(|| Error::not_found("there is no such log").at(BACKEND))?;
        Ok(log.read(*options))
    }

    fn held(&self) -> HeldStream {
        let entries = lock(&self.0.entries);
        let functions = entries
            .keys()
            .map(|id| Held::new("function", id.to_string(), BACKEND).of(id.key(), id.uid.clone()));
        let jobs = lock(&self.0.jobs);
        let jobs = jobs
            .keys()
            .map(|id| Held::new("job", id.to_string(), BACKEND).of(id.key(), id.uid.clone()));
        Held::all(functions.chain(jobs))
    }

    fn changes(&self) -> ChangeStream {
        self.0.changes.subscribe()
    }

    async fn ensure_namespace(&self, namespace: &Namespace) -> Result<Ensured> {
        let made = lock(&self.0.namespaces).insert(namespace.clone());
        Ok(if made {
            Ensured::Created
        } else {
            Ensured::Exists
        })
    }
}

pub(crate) fn gone(function: &FunctionId) -> Error {
    Error::not_found(format!("function {function} is not there"))
        .on(function)
        .at(BACKEND)
}
