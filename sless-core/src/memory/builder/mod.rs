//! [`MemoryBuilder`].

mod work;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

pub(super) use self::work::code_of;
use super::{BACKEND, lock, log::LogRing, tasks::Tasks};
use crate::{
    Artifact, ArtifactKind, BuildId, BuildRequest, BuildStatus, Builder, BuilderCapabilities,
    ChangeStream, Changes, Clock, Error, ErrorKind, Failure, Held, HeldStream, LogOptions,
    LogStream, Receipt, Result, SystemClock, resource::FunctionId, source::SourceLimits,
};

/// The limits of a [`MemoryBuilder`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MemoryBuilderConfig {
    /// Builds at once; more of them wait.
    pub builds_at_once: usize,
    /// The most builds that wait; one more is `Overloaded`.
    pub builds_waiting: usize,
    /// Bytes of a stored context.
    pub context_bytes: usize,
    /// What the source in a context may hold.
    pub source: SourceLimits,
    /// Lines of one log; the oldest go where newer ones come.
    pub log_lines: usize,
    /// Bytes of one line; a longer one is cut and marked.
    pub log_line_bytes: usize,
    /// Says that it installs dependencies, so that an engine gives it such builds. It installs
    /// nothing: what closures need is in the program. For simulations; off by default.
    pub installs: bool,
}

impl Default for MemoryBuilderConfig {
    /// Four builds at once, 100,000 waiting, contexts of 300 MiB.
    fn default() -> Self {
        Self {
            builds_at_once: 4,
            builds_waiting: 100_000,
            context_bytes: 300 << 20,
            source: SourceLimits::default(),
            log_lines: 10_000,
            log_line_bytes: 16 << 10,
            installs: false,
        }
    }
}

/// How a build goes, where a simulation wants it otherwise than at once and well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BuildPlan {
    /// How long it takes, on the builder's clock.
    pub takes: Duration,
    /// Why it fails, and whether the next `ensure` tries again.
    pub failure: Option<(Failure, bool)>,
}

impl BuildPlan {
    /// It takes this long.
    #[must_use]
    pub const fn taking(mut self, takes: Duration) -> Self {
        self.takes = takes;
        self
    }

    /// It fails for good.
    #[must_use]
    pub fn failing(mut self, failure: Failure) -> Self {
        self.failure = Some((failure, false));
        self
    }

    /// It fails for a passing reason: the next `ensure` tries again.
    #[must_use]
    pub fn failing_for_now(mut self, failure: Failure) -> Self {
        self.failure = Some((failure, true));
        self
    }
}

type Planner = dyn Fn(&BuildRequest) -> BuildPlan + Send + Sync;

/// A [`Builder`] in memory.
///
/// It reads the build context, so that a missing or broken one fails with reason
/// `context_unreadable`, and makes an artifact that is a name: its digest follows from the source's
/// digest, the runtime and its version. Functions with the same code share one.
///
/// A context is unpacked on a thread for blocking work, save on a current-thread runtime, where that
/// would let a [`VirtualClock`](crate::VirtualClock) run ahead: there it is unpacked in the task.
#[derive(Debug)]
pub struct MemoryBuilder {
    shared: Arc<Shared>,
    tasks: Tasks,
}

struct Shared {
    clock: Arc<dyn Clock>,
    config: MemoryBuilderConfig,
    planner: Box<Planner>,
    state: Mutex<State>,
    slots: Semaphore,
    changes: Changes,
    begun: AtomicU64,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let builds = lock(&self.state).builds.len();
        f.debug_struct("Shared")
            .field("config", &self.config)
            .field("builds", &builds)
            .finish()
    }
}

#[derive(Clone, Debug, Default)]
struct State {
    builds: BTreeMap<BuildId, Build>,
    artifacts: BTreeSet<Artifact>,
}

#[derive(Clone, Debug)]
struct Build {
    status: BuildStatus,
    log: Arc<LogRing>,
    work: Work,
}

/// How the task of a build is stopped, and seen to have stopped.
#[derive(Clone, Debug)]
struct Work {
    stop: CancellationToken,
    /// Closed when the task has ended.
    ended: watch::Receiver<()>,
}

impl Work {
    async fn stopped(mut self) {
        self.stop.cancel();
        while self.ended.changed().await.is_ok() {}
    }
}

impl Build {
    const fn is_done(&self) -> bool {
        matches!(
            self.status,
            BuildStatus::Succeeded { .. } | BuildStatus::Failed { .. }
        )
    }
}

impl MemoryBuilder {
    /// A builder with the default limits, whose builds go well and take no time.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_config(clock, MemoryBuilderConfig::default(), |_| {
            BuildPlan::default()
        })
    }

    /// A builder whose builds go as `planner` says.
    pub fn with_config(
        clock: Arc<dyn Clock>,
        config: MemoryBuilderConfig,
        planner: impl Fn(&BuildRequest) -> BuildPlan + Send + Sync + 'static,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                clock,
                slots: Semaphore::new(config.builds_at_once.max(1)),
                config,
                planner: Box::new(planner),
                state: Mutex::default(),
                changes: Changes::default(),
                begun: AtomicU64::new(0),
            }),
            tasks: Tasks::default(),
        }
    }

    /// How many builds were begun so far.
    pub fn builds_begun(&self) -> u64 {
        self.shared.begun.load(Ordering::Relaxed)
    }

    /// The builds that something is kept for.
    pub fn builds(&self) -> Vec<BuildId> {
        lock(&self.shared.state).builds.keys().cloned().collect()
    }

    /// Where a build is, without beginning it; `None` where there is none.
    pub fn status(&self, id: &BuildId) -> Option<BuildStatus> {
        lock(&self.shared.state)
            .builds
            .get(id)
            .map(|build| build.status.clone())
    }

    /// Whether this artifact is there: it was made, and a build refers to it.
    pub fn keeps(&self, artifact: &Artifact) -> bool {
        lock(&self.shared.state).artifacts.contains(artifact)
    }

    /// What is left after a crash of the whole process: the builds that were done, and nothing of
    /// those under way, which end here. The new builder goes by `planner`.
    pub async fn restarted(
        &self,
        planner: impl Fn(&BuildRequest) -> BuildPlan + Send + Sync + 'static,
    ) -> Self {
        self.tasks.end().await;
        let mut state = lock(&self.shared.state).clone();
        state.builds.retain(|_, build| build.is_done());
        let (clock, config) = (Arc::clone(&self.shared.clock), self.shared.config.clone());
        let restarted = Self::with_config(clock, config, planner);
        *lock(&restarted.shared.state) = state;
        restarted
    }
}

impl Default for MemoryBuilder {
    /// A builder on the system's clock, whose builds go well and take no time.
    fn default() -> Self {
        Self::new(Arc::new(SystemClock))
    }
}

impl Drop for MemoryBuilder {
    fn drop(&mut self) {
        for build in lock(&self.shared.state).builds.values() {
            if !build.is_done() {
                build.log.close();
            }
        }
    }
}

#[async_trait]
impl Builder for MemoryBuilder {
    fn capabilities(&self) -> BuilderCapabilities {
        let capabilities = BuilderCapabilities::new(ArtifactKind::Memory);
        if self.shared.config.installs {
            capabilities.with_installs()
        } else {
            capabilities
        }
    }

    async fn ensure(&self, request: &BuildRequest) -> Result<BuildStatus> {
        let config = &self.shared.config;
        let mut state = lock(&self.shared.state);
        if let Some(build) = state.builds.get(&request.id)
            && !matches!(
                build.status,
                BuildStatus::Failed {
                    transient: true,
                    ..
                }
            )
        {
            return Ok(build.status.clone());
        }
        let under_way = state
            .builds
            .values()
            .filter(|build| !build.is_done())
            .count();
        if under_way >= config.builds_at_once + config.builds_waiting {
            return Err(Error::new(
                ErrorKind::Overloaded,
                format!(
                    "limit builds_waiting of {} builds reached",
                    config.builds_waiting
                ),
            )
            .with_reason("limit_builds_waiting")
            .during("builder.ensure")
            .on(&request.id)
            .at(BACKEND));
        }
        let (alive, ended) = watch::channel(());
        let work = Work {
            stop: CancellationToken::new(),
            ended,
        };
        let build = Build {
            status: BuildStatus::Queued,
            log: LogRing::new(config.log_lines, config.log_line_bytes),
            work: work.clone(),
        };
        let log = Arc::clone(&build.log);
        state.builds.insert(request.id.clone(), build);
        drop(state);
        self.shared.begun.fetch_add(1, Ordering::Relaxed);

        let (shared, request) = (Arc::clone(&self.shared), request.clone());
        self.tasks.spawn(async move {
            let outcome = work
                .stop
                .run_until_cancelled(shared.build(&request, &log))
                .await;
            shared.finish(&request.id, &log, outcome);
            drop(alive);
        });
        Ok(BuildStatus::Queued)
    }

    async fn cancel(&self, id: &BuildId) -> Result<()> {
        let work = match lock(&self.shared.state).builds.get(id) {
            Some(build) if !build.is_done() => build.work.clone(),
            _ => return Ok(()),
        };
        work.stopped().await;
        Ok(())
    }

    async fn logs(&self, id: &BuildId, options: &LogOptions) -> Result<LogStream> {
        let state = lock(&self.shared.state);
        let build = state.builds.get(id).ok_or_else(|| {
            Error::not_found(format!("no build {id}"))
                .during("builder.logs")
                .on(id)
                .at(BACKEND)
        })?;
        Ok(build.log.read(options))
    }

    async fn prune(&self, function: &FunctionId, keep: &[BuildId]) -> Result<Receipt> {
        let meant = |id: &BuildId| id.function == *function && !keep.contains(id);
        let (mut gone, mut stopping) = (BTreeSet::new(), Vec::new());
        for (id, build) in &lock(&self.shared.state).builds {
            if meant(id) {
                gone.insert(id.clone());
                if !build.is_done() {
                    stopping.push(build.work.clone());
                }
            }
        }
        for work in stopping {
            work.stopped().await;
        }
        let mut state = lock(&self.shared.state);
        // Not those that were begun since: somebody wants them.
        state
            .builds
            .retain(|id, build| !(gone.contains(id) && build.is_done()));
        gone.retain(|id| !state.builds.contains_key(id));
        let used: BTreeSet<_> = state
            .builds
            .values()
            .filter_map(artifact)
            .cloned()
            .collect();
        let unused: Vec<_> = state.artifacts.difference(&used).cloned().collect();
        state.artifacts = used;
        let mut receipt = Receipt::default();
        for id in gone {
            receipt.add("build", id.short(), BACKEND);
        }
        for artifact in unused {
            receipt.add("artifact", artifact.reference, BACKEND);
        }
        Ok(receipt)
    }

    fn held(&self) -> HeldStream {
        let state = lock(&self.shared.state);
        Held::all(state.builds.keys().map(|id| {
            let function = &id.function;
            Held::new("build", id.short(), BACKEND).of(function.key(), function.uid.clone())
        }))
    }

    fn changes(&self) -> ChangeStream {
        self.shared.changes.subscribe()
    }
}

const fn artifact(build: &Build) -> Option<&Artifact> {
    match &build.status {
        BuildStatus::Succeeded { artifact, .. } => Some(artifact),
        _ => None,
    }
}
