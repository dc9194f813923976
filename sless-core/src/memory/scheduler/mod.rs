//! [`MemoryScheduler`].

mod call;
mod config;
mod gate;
mod handler;
mod job;
mod workload;

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    sync::{Arc, Mutex, RwLock},
};

use async_trait::async_trait;
use http::Request;
use tokio::sync::Semaphore;

use self::{
    call::MemoryInvoker,
    handler::Handlers,
    job::Job,
    workload::{Entry, Step},
};
pub use self::{
    config::MemorySchedulerConfig,
    handler::{HandlerContext, HandlerError, HandlerResult},
};
use super::{BACKEND, lock, log::LogRing, tasks::Tasks};
use crate::{
    ArtifactKind, Body, ChangeStream, Changes, Clock, Ensured, Error, ErrorKind, Held, HeldStream,
    Invoke, JobRun, LogOptions, LogStream, LogTarget, Namespace, Receipt, Result, RunStatus,
    Scheduler, SchedulerCapabilities, SystemClock, Workload, WorkloadStatus,
    resource::{FunctionId, JobId},
};

/// A [`Scheduler`] whose functions are closures of this program.
///
/// A function is run by the handler that was given for its name, else by the one for its
/// entrypoint; where there is neither, its revision fails with reason `handler_missing`. A new
/// revision takes over at once, or after [`MemorySchedulerConfig::start_delay`]; calls that began on
/// the old one end there.
///
/// Calls run in the futures of their callers, so that dropping one drops the handler. Runs of jobs,
/// starts that take time and drains are tasks of the scheduler. A run's status is kept until its job
/// is removed, since the same run id must never run again.
///
/// ```
/// use std::sync::Arc;
/// use sless_core::{SystemClock, memory::MemoryScheduler};
///
/// let scheduler = MemoryScheduler::new(Arc::new(SystemClock))
///     .with_handler("handler.handle", |request, context| async move {
///         context.log(format!("{} {}", request.method(), request.uri()));
///         Ok(http::Response::new("hello".into()))
///     });
/// ```
#[derive(Debug)]
pub struct MemoryScheduler {
    shared: Arc<Shared>,
    tasks: Tasks,
}

/// What calls and tasks share.
#[derive(Debug)]
struct Shared {
    clock: Arc<dyn Clock>,
    config: MemorySchedulerConfig,
    handlers: RwLock<Handlers>,
    functions: Mutex<BTreeMap<FunctionId, Entry>>,
    jobs: Mutex<BTreeMap<JobId, Job>>,
    job_slots: Semaphore,
    namespaces: Mutex<BTreeSet<Namespace>>,
    changes: Changes,
}

impl MemoryScheduler {
    /// A scheduler with the default limits and no handler.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_config(clock, MemorySchedulerConfig::default())
    }

    /// A scheduler with no handler.
    pub fn with_config(clock: Arc<dyn Clock>, config: MemorySchedulerConfig) -> Self {
        Self {
            shared: Arc::new(Shared {
                clock,
                job_slots: Semaphore::new(config.jobs_at_once.max(1)),
                config,
                handlers: RwLock::default(),
                functions: Mutex::default(),
                jobs: Mutex::default(),
                namespaces: Mutex::default(),
                changes: Changes::default(),
            }),
            tasks: Tasks::default(),
        }
    }

    /// Runs functions with this entrypoint by this handler. Its future is dropped when the caller
    /// leaves or time is over.
    #[must_use]
    pub fn with_handler<F, Fut>(self, entrypoint: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Request<Body>, HandlerContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = HandlerResult> + Send + 'static,
    {
        self.register(entrypoint, handler);
        self
    }

    /// Runs functions of this name by this handler, whatever their entrypoint.
    #[must_use]
    pub fn with_function<F, Fut>(self, name: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Request<Body>, HandlerContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = HandlerResult> + Send + 'static,
    {
        self.register_function(name, handler);
        self
    }

    /// As [`with_handler`](Self::with_handler), later. What runs is not touched; a revision that
    /// failed without a handler finds it at the next `apply`.
    pub fn register<F, Fut>(&self, entrypoint: impl Into<String>, handler: F)
    where
        F: Fn(Request<Body>, HandlerContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = HandlerResult> + Send + 'static,
    {
        self.shared
            .handlers_mut()
            .by_entrypoint
            .insert(entrypoint.into(), Arc::new(handler));
    }

    /// As [`with_function`](Self::with_function), later.
    pub fn register_function<F, Fut>(&self, name: impl Into<String>, handler: F)
    where
        F: Fn(Request<Body>, HandlerContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = HandlerResult> + Send + 'static,
    {
        self.shared
            .handlers_mut()
            .by_function
            .insert(name.into(), Arc::new(handler));
    }

    /// The functions that something is kept for.
    pub fn functions(&self) -> Vec<FunctionId> {
        lock(&self.shared.functions).keys().cloned().collect()
    }

    /// The jobs that something is kept for: whatever of them has run, or waits.
    pub fn jobs(&self) -> Vec<JobId> {
        lock(&self.shared.jobs).keys().cloned().collect()
    }

    /// What is left after a crash of the whole process: the handlers, the namespaces, and what is
    /// known of runs of jobs, of which those that were under way have failed with reason
    /// `interrupted`. Everything that runs is cut off here; no workload is applied.
    pub async fn restarted(&self) -> Self {
        self.tasks.end().await;
        self.shared.cut_off();
        let shared = &self.shared;
        let restarted = Self::with_config(Arc::clone(&shared.clock), shared.config.clone());
        *restarted.shared.handlers_mut() = shared.handlers().clone();
        lock(&restarted.shared.namespaces).clone_from(&lock(&shared.namespaces));
        let mut jobs = std::mem::take(&mut *lock(&shared.jobs));
        for job in jobs.values_mut() {
            job.interrupt(shared.clock.now());
        }
        *lock(&restarted.shared.jobs) = jobs;
        restarted
    }
}

impl Default for MemoryScheduler {
    /// A scheduler with no handler, on the system's clock.
    fn default() -> Self {
        Self::new(Arc::new(SystemClock))
    }
}

impl Drop for MemoryScheduler {
    fn drop(&mut self) {
        self.shared.cut_off();
        for job in lock(&self.shared.jobs).values() {
            job.log.close();
        }
    }
}

impl Shared {
    fn new_log(&self) -> Arc<LogRing> {
        LogRing::new(self.config.log_lines, self.config.log_line_bytes)
    }

    /// Ends every workload and every call, as the end of the process would.
    fn cut_off(&self) {
        for entry in lock(&self.functions).values() {
            entry.cut_off();
        }
    }
}

#[async_trait]
impl Scheduler for MemoryScheduler {
    fn capabilities(&self) -> SchedulerCapabilities {
        SchedulerCapabilities::new([ArtifactKind::Memory])
            .with_sleeps()
            .with_replicas()
    }

    async fn apply(&self, workload: &Workload) -> Result<WorkloadStatus> {
        runs(workload).map_err(|error| error.during("scheduler.apply").on(&workload.function))?;
        let key = &workload.function;
        let (status, step) = {
            let mut functions = lock(&self.shared.functions);
            let entry = functions
                .entry(key.clone())
                .or_insert_with(|| Entry::new(self.shared.new_log()));
            if entry.generation() > workload.generation {
                return Err(overtaken(workload, entry.generation()));
            }
            let step = entry.apply(&self.shared, workload);
            (entry.status(&self.shared), step)
        };
        match step {
            Step::None => {}
            Step::Changed => self.shared.changes.notify(key.key()),
            Step::Start(token) => {
                self.shared.changes.notify(key.key());
                let (shared, key) = (Arc::clone(&self.shared), key.clone());
                self.tasks.spawn(async move {
                    let delay = shared.clock.sleep(shared.config.start_delay);
                    if token.run_until_cancelled(delay).await.is_some() {
                        shared.started(&key, &token);
                    }
                });
            }
        }
        Ok(status)
    }

    async fn status(&self, function: &FunctionId) -> Result<WorkloadStatus> {
        let functions = lock(&self.shared.functions);
        Ok(functions
            .get(function)
            .map(|entry| entry.status(&self.shared))
            .unwrap_or_default())
    }

    async fn remove(&self, function: &FunctionId) -> Result<Receipt> {
        let mut receipt = Receipt::default();
        let Some(entry) = lock(&self.shared.functions).remove(function) else {
            return Ok(receipt);
        };
        receipt.add("workload", function.to_string(), BACKEND);
        let drained = entry.remove();
        let (shared, key) = (Arc::clone(&self.shared), function.key());
        let (done, ended) = tokio::sync::oneshot::channel::<()>();
        // A task, so that the drain ends in time also where the caller leaves.
        self.tasks.spawn(async move {
            let drain = shared.config.drain;
            if crate::clock::timeout(&*shared.clock, drain, drained)
                .await
                .is_err()
            {
                entry.cut_off();
            }
            shared.changes.notify(key);
            drop(done);
        });
        // Its end is the answer, whichever way it comes.
        let _ = ended.await;
        Ok(receipt)
    }

    async fn invoker(&self, function: &FunctionId) -> Result<Arc<dyn Invoke>> {
        if !lock(&self.shared.functions).contains_key(function) {
            return Err(call::removed(function).during("scheduler.invoker"));
        }
        let shared = Arc::downgrade(&self.shared);
        Ok(Arc::new(MemoryInvoker {
            shared,
            function: function.clone(),
        }))
    }

    async fn run_job(&self, run: &JobRun) -> Result<RunStatus> {
        runs(&run.workload).map_err(|error| error.during("scheduler.run_job").on(&run.job))?;
        let (status, work) = self.shared.begin_run(run)?;
        if let Some(work) = work {
            self.shared.changes.notify(run.job.key());
            let (shared, run) = (Arc::clone(&self.shared), run.clone());
            self.tasks
                .spawn(async move { shared.run(&run, work).await });
        }
        Ok(status)
    }

    async fn remove_job(&self, job: &JobId) -> Result<Receipt> {
        let mut receipt = Receipt::default();
        let Some(removed) = lock(&self.shared.jobs).remove(job) else {
            return Ok(receipt);
        };
        for run in removed.run_ids() {
            receipt.add("run", format!("{job} {run}"), BACKEND);
        }
        removed.stopped().await;
        Ok(receipt)
    }

    async fn logs(&self, of: &LogTarget, options: &LogOptions) -> Result<LogStream> {
        let (log, name) = match of {
            LogTarget::Function(id) => {
                let functions = lock(&self.shared.functions);
                (
                    functions.get(id).map(|entry| Arc::clone(&entry.log)),
                    id.to_string(),
                )
            }
            LogTarget::Job(id) => {
                let jobs = lock(&self.shared.jobs);
                (jobs.get(id).map(|job| Arc::clone(&job.log)), id.to_string())
            }
        };
        let log = log.ok_or_else(|| {
            Error::not_found(format!("no log of {name}"))
                .during("scheduler.logs")
                .on(&name)
                .at(BACKEND)
        })?;
        Ok(log.read(options))
    }

    fn held(&self) -> HeldStream {
        let functions = lock(&self.shared.functions);
        let workloads = functions
            .keys()
            .map(|id| Held::new("workload", id.to_string(), BACKEND).of(id.key(), id.uid.clone()));
        let jobs = lock(&self.shared.jobs);
        let runs = jobs.iter().flat_map(|(id, job)| {
            job.run_ids().map(move |run| {
                Held::new("run", format!("{id} {run}"), BACKEND).of(id.key(), id.uid.clone())
            })
        });
        Held::all(workloads.chain(runs))
    }

    fn changes(&self) -> ChangeStream {
        self.shared.changes.subscribe()
    }

    async fn ensure_namespace(&self, namespace: &Namespace) -> Result<Ensured> {
        let made = lock(&self.shared.namespaces).insert(namespace.clone());
        Ok(if made {
            Ensured::Created
        } else {
            Ensured::Exists
        })
    }
}

/// The error for a writer that a later one has overtaken.
fn overtaken(workload: &Workload, applied: i64) -> Error {
    let generation = workload.generation;
    Error::conflict(format!(
        "generation {generation} was overtaken by generation {applied}"
    ))
    .during("scheduler.apply")
    .on(&workload.function)
    .at(BACKEND)
}

/// Refuses an artifact that this scheduler cannot run.
fn runs(workload: &Workload) -> Result<()> {
    if workload.artifact.kind == ArtifactKind::Memory {
        return Ok(());
    }
    let kind = workload.artifact.kind;
    let message = format!("the memory scheduler runs no artifacts of kind {kind:?}");
    Err(Error::new(ErrorKind::Unsupported, message).at(BACKEND))
}
