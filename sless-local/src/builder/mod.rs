//! [`LocalBuilder`]: unpacks the source into a folder and installs what it asks for.

mod make;

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sless_core::{
    Artifact, ArtifactKind, BuildId, BuildRequest, BuildStatus, Builder, BuilderCapabilities,
    ChangeStream, Changes, Clock, Digest, Failure, FunctionId, Held, HeldStream, LogOptions,
    LogStream, Receipt, Result, Uid,
};
use tokio::sync::{Semaphore, watch};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use crate::{
    artifacts::{Artifacts, remove_folder},
    error::BACKEND,
    logs::Logs,
    points,
    process::Tools,
    records::{RecordKind, Records},
    sandbox::SandboxConfig,
};

/// Settings of [`LocalBuilder`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BuilderConfig {
    /// Builds at once; more wait.
    pub builds_at_once: usize,
    /// How long [`Builder::ensure`] waits for a build to end before it answers that it is under way,
    /// in milliseconds: a build that only unpacks is over by then.
    pub settle_ms: u64,
    /// What a stored context may hold. It was held against the engine's limits when it was uploaded.
    pub limits: sless_core::source::SourceLimits,
}

impl Default for BuilderConfig {
    fn default() -> Self {
        Self {
            builds_at_once: 2,
            settle_ms: 250,
            limits: sless_core::source::SourceLimits::default(),
        }
    }
}

/// Builds by unpacking the source into a folder, and by `pip install` or `npm ci` where it asks for
/// that.
///
/// An artifact is a folder named by the digest of all that went into it; functions with the same
/// source share it. A build that was cut off leaves nothing, and is made anew by the next `ensure`.
/// Dropping it without a shutdown ends the builds under way, as a crash would.
#[derive(Debug)]
pub struct LocalBuilder {
    inner: Arc<Inner>,
    _stop: DropGuard,
}

#[derive(Debug)]
struct Inner {
    config: BuilderConfig,
    clock: Arc<dyn Clock>,
    tools: Arc<Tools>,
    sandbox: SandboxConfig,
    artifacts: Artifacts,
    /// Where builds under way are.
    work: PathBuf,
    /// Where pip and npm keep what they have fetched.
    cache: PathBuf,
    instance: String,
    records: Records,
    logs: Logs,
    changes: Changes,
    places: Semaphore,
    builds: Mutex<HashMap<Uid, HashMap<BuildId, Build>>>,
    /// One at a time for each artifact: of two functions with the same source, one builds it.
    making: Mutex<HashMap<Digest, Arc<tokio::sync::Mutex<()>>>>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

#[derive(Clone, Debug)]
enum Build {
    Running {
        state: watch::Receiver<BuildStatus>,
        cancel: CancellationToken,
    },
    Ended(Outcome),
}

/// How a build ended, as it is remembered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Outcome {
    Succeeded {
        artifact: Artifact,
        built_at: Timestamp,
    },
    Failed {
        failure: Failure,
        transient: bool,
    },
}

#[derive(Serialize, Deserialize)]
struct Record {
    id: BuildId,
    outcome: Outcome,
}

/// What a [`LocalBuilder`] shares with the other backends of its data folder.
pub(crate) struct Shared {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tools: Arc<Tools>,
    pub(crate) sandbox: SandboxConfig,
    pub(crate) artifacts: Artifacts,
    pub(crate) work: PathBuf,
    pub(crate) cache: PathBuf,
    pub(crate) instance: String,
    pub(crate) records: Records,
    pub(crate) logs: Logs,
}

impl LocalBuilder {
    /// Takes up the builds of a data folder, and removes what a crash left of them.
    pub(crate) async fn open(config: BuilderConfig, shared: Shared) -> Result<Self> {
        let Shared {
            clock,
            tools,
            sandbox,
            artifacts,
            work,
            cache,
            instance,
            records,
            logs,
        } = shared;
        let mut builds: HashMap<Uid, HashMap<BuildId, Build>> = HashMap::new();
        for (_, Record { id, outcome }) in records.all(RecordKind::Build).await? {
            if let Outcome::Succeeded { artifact, .. } = &outcome {
                artifacts.refer(artifact.digest);
            }
            builds
                .entry(id.function.uid.clone())
                .or_default()
                .insert(id, Build::Ended(outcome));
        }
        let known = builds.values().flat_map(HashMap::keys).map(log_name);
        let known: HashSet<String> = known.collect();
        logs.sweep(|log| log.starts_with(LOG) && !known.contains(log))
            .await?;
        let places = Semaphore::new(config.builds_at_once.max(1));
        let stop = CancellationToken::new();
        let _stop = stop.clone().drop_guard();
        let inner = Arc::new(Inner {
            config,
            clock,
            tools,
            sandbox,
            artifacts,
            work,
            cache,
            instance,
            records,
            logs,
            changes: Changes::default(),
            places,
            builds: Mutex::new(builds),
            making: Mutex::default(),
            tasks: TaskTracker::new(),
            stop,
        });
        Ok(Self { inner, _stop })
    }

    /// Ends the builds under way; they begin anew with the next `ensure`.
    pub(crate) async fn shutdown(&self) {
        self.inner.stop.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }
}

impl Build {
    fn status(&self) -> BuildStatus {
        match self {
            Self::Running { state, .. } => state.borrow().clone(),
            Self::Ended(outcome) => outcome.status(),
        }
    }
}

impl Outcome {
    pub(super) fn status(&self) -> BuildStatus {
        match self.clone() {
            Self::Succeeded { artifact, built_at } => BuildStatus::Succeeded { artifact, built_at },
            Self::Failed { failure, transient } => BuildStatus::Failed { failure, transient },
        }
    }
}

impl Inner {
    /// The build if it is under way or done, else a new one that has begun.
    fn begin(self: &Arc<Self>, request: &BuildRequest) -> Build {
        let mut builds = self.builds();
        let of_function = builds.entry(request.id.function.uid.clone()).or_default();
        let found = of_function.get(&request.id);
        match found {
            Some(Build::Ended(Outcome::Failed {
                transient: true, ..
            }))
            | None => {}
            Some(Build::Ended(Outcome::Succeeded { artifact, .. }))
                if !self.artifacts.is_there(&artifact.digest) =>
            {
                self.artifacts.release(artifact.digest);
            }
            Some(build) => return build.clone(),
        }
        let (progress, state) = watch::channel(BuildStatus::Queued);
        let cancel = self.stop.child_token();
        let build = Build::Running {
            state,
            cancel: cancel.clone(),
        };
        of_function.insert(request.id.clone(), build.clone());
        let (inner, request) = (self.clone(), request.clone());
        self.tasks.spawn(async move {
            let made = tokio::select! {
                made = inner.make(&request, &progress) => Some(made),
                () = cancel.cancelled() => None,
            };
            inner.tidy(&request.id).await;
            inner.end(&request.id, made).await;
        });
        build
    }

    /// Where an installer keeps what it needs while it runs.
    fn temporary(&self, id: &BuildId) -> PathBuf {
        self.work.join(format!("{}.tmp", id.short()))
    }

    /// Removes what a build that failed or was cut off has left; one that succeeded left nothing.
    async fn tidy(&self, id: &BuildId) {
        const TRIES: u32 = 5;
        let temporary = self.temporary(id);
        // What is left of it goes with the next start.
        let _ = crate::blocking(move || remove_folder(&temporary)).await;
        let folder = self.work.join(id.short());
        for tried in 1..=TRIES {
            let folder = folder.clone();
            match crate::blocking(move || remove_folder(&folder)).await {
                Ok(()) => return,
                // An installer that was just killed may have written a last file.
                Err(_) if tried < TRIES => self.clock.sleep(Duration::from_millis(20)).await,
                // The next start removes it.
                Err(error) => {
                    tracing::warn!(build = %id, error = %error.chain(), "a build left its folder");
                }
            }
        }
    }

    /// Remembers how a build ended; one that was cut off is forgotten.
    async fn end(&self, id: &BuildId, outcome: Option<Outcome>) {
        let log = log_name(id);
        if let Some(outcome) = outcome {
            let record = Record {
                id: id.clone(),
                outcome: outcome.clone(),
            };
            let written = self
                .records
                .put(RecordKind::Build, &id.short(), &record)
                .await;
            if let Err(error) = written {
                // It is right in this process; after a restart it is built again.
                tracing::warn!(build = %id, error = %error.chain(), "a build was not remembered");
            }
            if let Outcome::Succeeded { artifact, .. } = &outcome {
                self.artifacts.refer(artifact.digest);
            }
            let mut builds = self.builds();
            let of_function = builds.entry(id.function.uid.clone()).or_default();
            of_function.insert(id.clone(), Build::Ended(outcome));
        } else {
            self.forget_running(id);
        }
        self.logs.close(&log).await;
        self.changes.notify(id.function.key());
    }

    fn forget_running(&self, id: &BuildId) {
        let mut builds = self.builds();
        if let Some(of_function) = builds.get_mut(&id.function.uid) {
            of_function.remove(id);
            if of_function.is_empty() {
                builds.remove(&id.function.uid);
            }
        }
    }

    fn find(&self, id: &BuildId) -> Option<Build> {
        self.builds().get(&id.function.uid)?.get(id).cloned()
    }

    fn builds(&self) -> MutexGuard<'_, HashMap<Uid, HashMap<BuildId, Build>>> {
        self.builds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The builds that are known, with their logs, and logs of others.
    async fn kept(&self) -> Result<Vec<Held>> {
        let mut logs = self.logs.names().await?;
        logs.retain(|log| log.starts_with(LOG));
        let mut kept = Vec::new();
        for id in self.builds().values().flat_map(HashMap::keys) {
            let function = &id.function;
            let of = |kind: &str, name: String| {
                Held::new(kind, name, BACKEND).of(function.key(), function.uid.clone())
            };
            kept.push(of("build", id.short()));
            let log = log_name(id);
            if let Some(at) = logs.iter().position(|name| *name == log) {
                kept.push(of("log", logs.swap_remove(at)));
            }
        }
        kept.extend(logs.into_iter().map(|log| Held::new("log", log, BACKEND)));
        Ok(kept)
    }

    /// Ends a build that is under way, and waits for its end.
    async fn cancel(&self, id: &BuildId) {
        let Some(Build::Running { mut state, cancel }) = self.find(id) else {
            return;
        };
        cancel.cancel();
        // The sender goes when the task has ended.
        while state.changed().await.is_ok() {}
        while matches!(self.find(id), Some(Build::Running { .. })) {
            tokio::task::yield_now().await;
        }
    }
}

#[async_trait]
impl Builder for LocalBuilder {
    fn capabilities(&self) -> BuilderCapabilities {
        BuilderCapabilities::new(ArtifactKind::Folder).with_installs()
    }

    async fn ensure(&self, request: &BuildRequest) -> Result<BuildStatus> {
        let build = self.inner.begin(request);
        if let Build::Running { mut state, .. } = build {
            let settle = Duration::from_millis(self.inner.config.settle_ms);
            let ended = async { while state.changed().await.is_ok() {} };
            // Not settled: the answer then says what is being done.
            let _ = sless_core::clock::timeout(&*self.inner.clock, settle, ended).await;
        }
        let build = self.inner.find(&request.id);
        Ok(build.map_or(BuildStatus::Queued, |build| build.status()))
    }

    async fn cancel(&self, id: &BuildId) -> Result<()> {
        self.inner.cancel(id).await;
        Ok(())
    }

    async fn logs(&self, id: &BuildId, options: &LogOptions) -> Result<LogStream> {
        let mut options = *options;
        match self.inner.find(id) {
            None => {
                return Err(sless_core::Error::not_found("no such build")
                    .at(BACKEND)
                    .on(id));
            }
            Some(Build::Ended(_)) => options.follow = false,
            Some(Build::Running { .. }) => {}
        }
        self.inner.logs.read(&log_name(id), &options).await
    }

    async fn prune(&self, function: &FunctionId, keep: &[BuildId]) -> Result<Receipt> {
        let dropped: Vec<BuildId> = {
            let builds = self.inner.builds();
            let of_function = builds.get(&function.uid).into_iter().flatten();
            of_function
                .map(|(id, _)| id)
                .filter(|id| !keep.contains(id))
                .cloned()
                .collect()
        };
        let mut receipt = Receipt::default();
        for id in dropped {
            self.inner.cancel(&id).await;
            self.inner
                .records
                .remove(RecordKind::Build, &id.short())
                .await?;
            points::BUILD_FORGOTTEN.pass();
            self.inner.logs.remove(&log_name(&id)).await?;
            let ended = self.inner.find(&id);
            self.inner.forget_running(&id);
            if let Some(Build::Ended(Outcome::Succeeded { artifact, .. })) = ended {
                self.inner.artifacts.release(artifact.digest);
            }
            receipt.add("build", id.short(), BACKEND);
        }
        let artifacts = self.inner.artifacts.clone();
        for digest in crate::blocking(move || artifacts.sweep()).await? {
            receipt.add("artifact", digest.hex(), BACKEND);
        }
        Ok(receipt)
    }

    fn held(&self) -> HeldStream {
        let inner = self.inner.clone();
        let listed = stream::once(async move { inner.kept().await });
        let each = listed.map_ok(|items| stream::iter(items.into_iter().map(Ok)));
        each.try_flatten().boxed()
    }

    fn changes(&self) -> ChangeStream {
        self.inner.changes.subscribe()
    }
}

/// How the names of the logs of builds begin.
const LOG: &str = "build-";

fn log_name(id: &BuildId) -> String {
    format!("{LOG}{}", id.short())
}
