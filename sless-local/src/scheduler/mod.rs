//! [`LocalScheduler`]: functions as supervised processes of this machine.
//!
//! A function is a [`Runner`]. It serves one revision by a [`Crew`] of workers, none of which is
//! started before a call needs it, save the first of a new revision: that one proves that the handler
//! can be imported, before the revision takes over. A crew without calls goes to sleep. The workers of
//! Python functions are forked from a zygote, and as many as [`SchedulerConfig::zygotes`] says are kept
//! for functions that sleep.

mod crew;
mod held;
mod homes;
mod invoker;
mod jobs;
mod runner;
mod sink;
mod state;
mod sweep;
mod zygotes;

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use sless_core::{
    ArtifactKind, ChangeStream, Changes, Clock, Ensured, Error, ErrorKind, FunctionId, HeldStream,
    Invoke, JobId, JobRun, LogOptions, LogStream, LogTarget, Namespace, Receipt, Result, RunStatus,
    Scheduler, SchedulerCapabilities, Uid, Workload, WorkloadPhase, WorkloadStatus,
};
use sless_runtime::{HostConfig, Language};
use tokio::sync::{Semaphore, broadcast};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use self::{invoker::LocalInvoker, jobs::Jobs, runner::Runner, zygotes::Zygotes};
use crate::{
    artifacts::{Artifacts, remove_folder},
    error::{BACKEND, Fault},
    logs::Logs,
    points,
    process::Tools,
    records::{RecordKind, Records},
    sandbox::SandboxConfig,
};

/// Settings of [`LocalScheduler`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SchedulerConfig {
    /// How long a function is without calls until its workers end, in milliseconds, where the
    /// function does not say.
    pub idle_ms: u64,
    /// How long a worker may take until its handler is imported, in milliseconds.
    pub start_ms: u64,
    /// How long a worker that is replaced, asleep or removed has for the calls it is at, in
    /// milliseconds, where the function's timeout is not shorter.
    pub drain_ms: u64,
    /// How long [`Scheduler::apply`] waits for a new revision before it answers that it starts, in
    /// milliseconds.
    pub settle_ms: u64,
    /// The first pause after a new revision could not be started for a reason that may pass, in
    /// milliseconds; it doubles from there.
    pub start_backoff_min_ms: u64,
    /// The longest such pause, in milliseconds.
    pub start_backoff_max_ms: u64,
    /// Workers that are started at once; more wait.
    pub starts_at_once: usize,
    /// Jobs that run at once; more wait.
    pub jobs_at_once: usize,
    /// Calls that wait for a worker of one function; more are refused.
    pub queue_length: usize,
    /// The longest body of a request, in bytes.
    pub request_bytes: u64,
    /// Python functions that keep a process to fork their workers from, awake or asleep: the ones that
    /// were used last. None is kept where it is 0. See [`sless_runtime::Zygote`] for when a function
    /// has none.
    pub zygotes: usize,
    /// Where workers keep their own program; a folder below the data folder where absent.
    pub runtime_dir: Option<PathBuf>,
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        Self {
            idle_ms: 300_000,
            start_ms: 30_000,
            start_backoff_min_ms: 1_000,
            start_backoff_max_ms: 60_000,
            drain_ms: 30_000,
            settle_ms: 250,
            starts_at_once: 4,
            jobs_at_once: 4,
            queue_length: 100,
            request_bytes: 1 << 30,
            zygotes: 32,
            runtime_dir: None,
        }
    }
}

impl SchedulerConfig {
    /// The pause after so many failed starts.
    fn pause(&self, times: u32) -> Duration {
        let doubled = 1_u64
            .checked_shl(times.saturating_sub(1))
            .unwrap_or(u64::MAX);
        let pause = self.start_backoff_min_ms.saturating_mul(doubled);
        Duration::from_millis(pause.min(self.start_backoff_max_ms))
    }
}

/// Runs functions and jobs as processes of this machine, one user for all, without a container, and
/// confined as far as the machine can enforce it ([`SandboxConfig`]).
///
/// What is applied is remembered in the data folder, so that after a restart calls are answered
/// before the engine has looked at anything. `cpu` is not enforced; `memory` is, as far as the
/// language's runtime lets us.
/// Dropping it without a shutdown ends every worker at once, as a crash would.
#[derive(Debug)]
pub struct LocalScheduler {
    inner: Arc<Inner>,
    _stop: DropGuard,
}

/// What all runners share.
#[derive(Debug)]
pub(crate) struct Inner {
    config: SchedulerConfig,
    clock: Arc<dyn Clock>,
    tools: Arc<Tools>,
    sandbox: SandboxConfig,
    /// Which functions' folders held too much and were emptied.
    emptied: broadcast::Sender<Uid>,
    artifacts: Artifacts,
    /// One folder for each function: its `HOME` and `TMPDIR`.
    homes: PathBuf,
    runtime_dir: PathBuf,
    instance: String,
    records: Records,
    logs: Logs,
    changes: Changes,
    starts: Semaphore,
    zygotes: Zygotes,
    runners: Mutex<HashMap<Uid, Arc<Runner>>>,
    /// Processes need no place of their own by namespace; this only remembers which were asked for.
    namespaces: Mutex<HashSet<Namespace>>,
    jobs: Jobs,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// What a [`LocalScheduler`] shares with the other backends of its data folder.
pub(crate) struct Shared {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tools: Arc<Tools>,
    pub(crate) sandbox: SandboxConfig,
    pub(crate) artifacts: Artifacts,
    pub(crate) homes: PathBuf,
    pub(crate) runtime_dir: PathBuf,
    pub(crate) instance: String,
    pub(crate) records: Records,
    pub(crate) logs: Logs,
}

impl LocalScheduler {
    /// Takes up the workloads and runs of a data folder.
    pub(crate) async fn open(config: SchedulerConfig, shared: Shared) -> Result<Self> {
        let Shared {
            clock,
            tools,
            sandbox,
            artifacts,
            homes,
            runtime_dir,
            instance,
            records,
            logs,
        } = shared;
        let mut runners = HashMap::new();
        for (_, record) in records.all::<state::Record>(RecordKind::Workload).await? {
            let runner = Runner::recalled(record);
            runners.insert(runner.function.uid.clone(), Arc::new(runner));
        }
        let jobs = Jobs::recall(&records, &*clock, config.jobs_at_once).await?;
        let inner = Arc::new(Inner {
            starts: Semaphore::new(config.starts_at_once.max(1)),
            zygotes: Zygotes::new(config.zygotes),
            runtime_dir: config.runtime_dir.clone().unwrap_or(runtime_dir),
            config,
            clock,
            tools,
            sandbox,
            emptied: broadcast::channel(homes::EMPTIED).0,
            artifacts,
            homes,
            instance,
            records,
            logs,
            changes: Changes::default(),
            runners: Mutex::new(runners),
            namespaces: Mutex::default(),
            jobs,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        });
        inner.sweep().await?;
        let (janitor, stop) = (Arc::downgrade(&inner), inner.stop.clone());
        let clock = inner.clock.clone();
        inner
            .tasks
            .spawn(async move { stop.run_until_cancelled(put_to_sleep(janitor, clock)).await });
        let (watcher, stop) = (Arc::downgrade(&inner), inner.stop.clone());
        inner
            .tasks
            .spawn(async move { stop.run_until_cancelled(homes::watch(watcher)).await });
        #[cfg(target_os = "linux")]
        {
            let (clock, stop) = (inner.clock.clone(), inner.stop.clone());
            inner
                .tasks
                .spawn(async move { stop.run_until_cancelled(keep_fair(clock)).await });
        }
        let _stop = inner.stop.clone().drop_guard();
        Ok(Self { inner, _stop })
    }

    /// Ends every worker and job, with what it is at finished within the drain time. Nothing may be
    /// applied or run any more.
    pub(crate) async fn shutdown(&self) {
        let inner = &self.inner;
        let patience = Duration::from_millis(inner.config.drain_ms);
        inner.jobs.tasks.close();
        if tokio::time::timeout(patience, inner.jobs.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!(?patience, "jobs were cut off: the drain took too long");
        }
        inner.stop.cancel();
        let runners: Vec<_> = inner.runners().values().cloned().collect();
        let ended = runners.iter().map(|runner| runner.end(inner));
        futures::future::join_all(ended).await;
        inner.tasks.close();
        inner.tasks.wait().await;
    }
}

impl Inner {
    fn runners(&self) -> MutexGuard<'_, HashMap<Uid, Arc<Runner>>> {
        self.runners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn runner(&self, function: &FunctionId) -> Option<Arc<Runner>> {
        self.runners().get(&function.uid).cloned()
    }

    /// How long calls under way may go on in workers that are to end.
    fn drain(&self, workload: &Workload) -> Duration {
        Duration::from_millis(self.config.drain_ms).min(workload.timeout)
    }

    /// What a worker is started with.
    async fn host_config(&self, workload: &Workload) -> Result<HostConfig, sless_core::Failure> {
        let missing =
            |message: &str| sless_core::Failure::new("interpreter_missing", message.to_owned());
        let interpreter = self
            .tools
            .interpreter(workload.runtime)
            .await
            .map_err(missing)?;
        let language = match workload.runtime.language() {
            sless_core::Language::Python => Language::Python,
            _ => Language::Node,
        };
        let artifact = self.artifacts.path(&workload.artifact.digest);
        let home = self.homes.join(workload.function.uid.as_str());
        let made = home.clone();
        let made = crate::blocking(move || {
            Ok(std::fs::create_dir_all(&made).map_err(Fault::io("making", &made))?)
        });
        made.await.map_err(|error| {
            let message = format!("no folder for its files: {}", error.message());
            sless_core::Failure::new(sless_core::reason::BACKEND_UNAVAILABLE, message)
        })?;
        let mut host = HostConfig::new(language, artifact.join("code"));
        host.interpreter = Some(interpreter.to_owned());
        host.entrypoint = workload.entrypoint.to_string();
        host.env.clone_from(&workload.env);
        host.path.clone_from(&self.tools.config.path);
        host.temp_dir = home;
        host.sandbox = self.sandbox.of_worker();
        if language == Language::Python {
            host.dependency_dirs = vec![artifact.join("packages")];
        }
        host.runtime_dir = Some(self.runtime_dir.clone());
        host.namespace = workload.function.namespace.to_string();
        host.name = workload.function.name.to_string();
        host.uid = workload.function.uid.to_string();
        host.instance.clone_from(&self.instance);
        host.concurrency = usize::try_from(workload.concurrency).unwrap_or(usize::MAX);
        host.timeout = workload.timeout;
        host.start_timeout = Duration::from_millis(self.config.start_ms);
        host.memory_limit = workload.memory.as_ref().map(sless_core::Quantity::value);
        host.limits.queue_length = self.config.queue_length;
        host.limits.max_request_body_bytes = self.config.request_bytes;
        host.limits.max_result_bytes = RunStatus::RESULT_BYTES_MAX;
        Ok(host)
    }
}

#[async_trait]
impl Scheduler for LocalScheduler {
    fn capabilities(&self) -> SchedulerCapabilities {
        SchedulerCapabilities::new([ArtifactKind::Folder])
            .with_sleeps()
            .with_replicas()
    }

    async fn apply(&self, workload: &Workload) -> Result<WorkloadStatus> {
        if self.inner.stop.is_cancelled() {
            return Err(Error::unavailable("the scheduler has shut down").at(BACKEND));
        }
        let kind = workload.artifact.kind;
        if kind != ArtifactKind::Folder {
            let message = format!("the local scheduler runs no artifacts of kind {kind:?}");
            return Err(Error::new(ErrorKind::Unsupported, message).at(BACKEND));
        }
        let runner = {
            let mut runners = self.inner.runners();
            let uid = workload.function.uid.clone();
            let make = || Arc::new(Runner::new(workload.function.clone()));
            runners.entry(uid).or_insert_with(make).clone()
        };
        runner.apply(&self.inner, workload).await
    }

    async fn status(&self, function: &FunctionId) -> Result<WorkloadStatus> {
        let runner = self.inner.runner(function);
        Ok(runner.map_or_else(
            || WorkloadStatus::new(WorkloadPhase::Absent, None),
            |runner| runner.status(),
        ))
    }

    async fn remove(&self, function: &FunctionId) -> Result<Receipt> {
        let mut receipt = Receipt::default();
        let (uid, name) = (&function.uid, function.to_string());
        if let Some(runner) = self.inner.runner(function) {
            let ended = runner.end(&self.inner).await;
            for pid in ended {
                receipt.add("process", pid.to_string(), BACKEND);
            }
            self.inner
                .records
                .remove(RecordKind::Workload, uid.as_str())
                .await?;
            self.inner.runners().remove(uid);
            receipt.add("workload", name.clone(), BACKEND);
        }
        points::WORKLOAD_FORGOTTEN.pass();
        if self
            .inner
            .logs
            .remove(&sink::function_log(function))
            .await?
        {
            receipt.add("log", name.clone(), BACKEND);
        }
        let home = self.inner.homes.join(uid.as_str());
        if home.is_dir() {
            crate::blocking(move || remove_folder(&home)).await?;
            receipt.add("temporary_files", name, BACKEND);
        }
        self.inner.changes.notify(function.key());
        Ok(receipt)
    }

    async fn invoker(&self, function: &FunctionId) -> Result<Arc<dyn Invoke>> {
        let runner = self
            .inner
            .runner(function)
            .filter(|runner| runner.is_applied());
        let runner = runner.ok_or_else(|| not_found(function))?;
        Ok(Arc::new(LocalInvoker::new(self.inner.clone(), runner)))
    }

    async fn run_job(&self, run: &JobRun) -> Result<RunStatus> {
        if self.inner.stop.is_cancelled() {
            return Err(Error::unavailable("the scheduler has shut down").at(BACKEND));
        }
        self.inner.run_job(run).await
    }

    async fn remove_job(&self, job: &JobId) -> Result<Receipt> {
        self.inner.remove_job(job).await
    }

    async fn logs(&self, of: &LogTarget, options: &LogOptions) -> Result<LogStream> {
        let (log, known) = match of {
            LogTarget::Function(function) => (
                sink::function_log(function),
                self.inner.runner(function).is_some(),
            ),
            LogTarget::Job(job) => (sink::job_log(job), self.inner.jobs.knows(job)),
        };
        if !known {
            return Err(Error::not_found("nothing was run yet").at(BACKEND));
        }
        match self.inner.logs.read(&log, options).await {
            // It runs, and has written nothing.
            Err(error) if error.is_not_found() => Ok(Box::pin(futures::stream::empty())),
            other => other,
        }
    }

    fn held(&self) -> HeldStream {
        held::all(self.inner.clone())
    }

    fn changes(&self) -> ChangeStream {
        self.inner.changes.subscribe()
    }

    async fn ensure_namespace(&self, namespace: &Namespace) -> Result<Ensured> {
        let namespaces = &self.inner.namespaces;
        let mut namespaces = namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(if namespaces.insert(namespace.clone()) {
            Ensured::Created
        } else {
            Ensured::Exists
        })
    }
}

/// Ends the workers of functions that had no call for their idle time, as long as there is a
/// scheduler.
async fn put_to_sleep(scheduler: Weak<Inner>, clock: Arc<dyn Clock>) {
    /// How often functions are looked at; a function sleeps at most this much late.
    const EVERY: Duration = Duration::from_millis(500);
    loop {
        clock.sleep(EVERY).await;
        let Some(inner) = scheduler.upgrade() else {
            return;
        };
        let runners: Vec<_> = inner.runners().values().cloned().collect();
        for runner in runners {
            runner.sleep_if_idle(&inner);
        }
    }
}

/// Sees to it that what uses up the machine gives way to the rest.
#[cfg(target_os = "linux")]
async fn keep_fair(clock: Arc<dyn Clock>) {
    use crate::process::fair::{EVERY, Fair};

    let mut fair = Fair::default();
    loop {
        clock.sleep(EVERY).await;
        let looked = crate::blocking(move || {
            fair.look();
            Ok(fair)
        });
        // It breaks off only where the runtime ends.
        let Ok(looked) = looked.await else { return };
        fair = looked;
    }
}

fn not_found(function: &FunctionId) -> Error {
    Error::not_found(format!("function {function} does not run here")).at(BACKEND)
}
