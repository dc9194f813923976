//! [`Builds`]: the builds of one process, and what the registry remembers of all.

mod log;
mod maker;
mod prune;
mod record;
mod site;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sless_core::{
    Artifact, ArtifactKind, BuildId, BuildRequest, BuildStatus, BuilderCapabilities, ChangeStream,
    Changes, Error, ErrorKind, Failure, LogOptions, LogStream, Receipt, Result, Uid, reason,
};
use tokio::sync::watch;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use self::{log::BuildLog, record::Record};
pub(super) use self::{
    maker::{Broken, Maker, Progress},
    record::{BUILT, image_tag},
    site::{Site, blocking, unreadable},
};
use crate::error::BACKEND;

/// The builds of one process. Dropping it ends the work on them here, as a crash would.
#[derive(Debug)]
pub(super) struct Builds {
    inner: Arc<Inner>,
    _stop: DropGuard,
}

#[derive(Debug)]
struct Inner {
    site: Site,
    maker: Box<dyn Maker>,
    changes: Changes,
    builds: Mutex<HashMap<Uid, HashMap<BuildId, Build>>>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

#[derive(Clone, Debug)]
enum Build {
    Running {
        state: watch::Receiver<BuildStatus>,
        cancel: CancellationToken,
        log: BuildLog,
    },
    Ended(Outcome),
}

/// How a build ended, with its log.
#[derive(Clone, Debug)]
struct Outcome {
    status: BuildStatus,
    log: BuildLog,
}

impl Builds {
    pub(super) fn new(site: Site, maker: Box<dyn Maker>) -> Self {
        let stop = CancellationToken::new();
        let _stop = stop.clone().drop_guard();
        let inner = Inner {
            site,
            maker,
            changes: Changes::default(),
            builds: Mutex::default(),
            tasks: TaskTracker::new(),
            stop,
        };
        Self {
            inner: Arc::new(inner),
            _stop,
        }
    }

    pub(super) async fn keeps(&self, artifact: &Artifact) -> Result<bool> {
        self.inner.site.keeps(artifact).await
    }

    pub(super) async fn shutdown(&self) {
        self.inner.stop.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }

    pub(super) fn capabilities(&self) -> BuilderCapabilities {
        let capabilities = BuilderCapabilities::new(ArtifactKind::Image);
        if self.inner.maker.installs() {
            return capabilities.with_installs();
        }
        capabilities
    }

    pub(super) async fn ensure(&self, request: &BuildRequest) -> Result<BuildStatus> {
        let inner = &self.inner;
        if inner.stop.is_cancelled() {
            return Err(Error::unavailable("the builder has shut down").at(BACKEND));
        }
        let state = match inner.begin(request) {
            Build::Ended(outcome) => return Ok(outcome.status),
            Build::Running { state, .. } => state,
        };
        let settle = Duration::from_millis(inner.site.config.settle_ms);
        let mut ended = state.clone();
        let ended = async { while ended.changed().await.is_ok() {} };
        // Not settled: the answer then says what is being done.
        let _ = sless_core::clock::timeout(&*inner.site.clock, settle, ended).await;
        Ok(match inner.find(&request.id) {
            Some(Build::Ended(outcome)) => outcome.status,
            Some(Build::Running { state, .. }) => state.borrow().clone(),
            None => BuildStatus::Queued,
        })
    }

    pub(super) async fn cancel(&self, id: &BuildId) -> Result<()> {
        self.inner.cancel(id).await
    }

    pub(super) async fn logs(&self, id: &BuildId, options: &LogOptions) -> Result<LogStream> {
        let found = match self.inner.find(id) {
            Some(Build::Running { log, .. }) => Some(log),
            Some(Build::Ended(outcome)) => Some(outcome.log),
            None => self.inner.site.recorded(id).await?.map(|found| found.log),
        };
        match found {
            Some(log) => Ok(log.read(options)),
            None => Err(Error::new(ErrorKind::NotFound, "no such build")
                .at(BACKEND)
                .on(id)),
        }
    }

    pub(super) async fn prune(
        &self,
        function: &sless_core::FunctionId,
        keep: &[BuildId],
    ) -> Result<Receipt> {
        self.inner.prune(function, keep).await
    }

    pub(super) fn changes(&self) -> ChangeStream {
        self.inner.changes.subscribe()
    }
}

impl Inner {
    /// The build if it is under way or done, else a new one that has begun.
    fn begin(self: &Arc<Self>, request: &BuildRequest) -> Build {
        let mut builds = self.builds();
        let of_function = builds.entry(request.id.function.uid.clone()).or_default();
        match of_function.get(&request.id) {
            Some(Build::Ended(Outcome {
                status:
                    BuildStatus::Failed {
                        transient: true, ..
                    },
                ..
            }))
            | None => {}
            Some(build) => return build.clone(),
        }
        let (state, seen) = watch::channel(BuildStatus::Queued);
        let (cancel, log) = (self.stop.child_token(), BuildLog::default());
        let build = Build::Running {
            state: seen,
            cancel: cancel.clone(),
            log: log.clone(),
        };
        of_function.insert(request.id.clone(), build.clone());
        let (inner, request) = (self.clone(), request.clone());
        self.tasks.spawn(async move {
            let progress = Progress {
                log,
                state,
                clock: inner.site.clock.clone(),
                changes: inner.changes.clone(),
                key: request.id.function.key(),
            };
            let made = inner.make(&request, &progress);
            let made = cancel.run_until_cancelled(made).await;
            inner.end(&request.id, made);
            progress.log.close();
        });
        build
    }

    /// Makes the image, or finds that it was made.
    async fn make(&self, request: &BuildRequest, progress: &Progress) -> Outcome {
        // The semaphore is never closed, so there is always a permit in the end.
        let _place = self.maker.places(request).acquire().await;
        let (limit, id) = (request.timeout, &request.id);
        let making = self.made(request, progress);
        let made = sless_core::clock::timeout(&*self.site.clock, limit, making).await;
        let broken = match made {
            Ok(Ok(outcome)) => return outcome,
            Ok(Err(broken)) => broken,
            Err(_) => {
                if let Err(error) = self.maker.abandon(&self.site, id).await {
                    tracing::warn!(build = %id, error = %error.chain(), "a build was not ended");
                }
                Broken::timeout(limit)
            }
        };
        let (failure, transient) = broken.told(id);
        progress.line(format!("failed: {}", failure.message));
        if !transient {
            let record = Record::Failed {
                failure: failure.clone(),
            };
            self.site.remember(id, &record, &progress.log).await;
        }
        Outcome {
            status: BuildStatus::Failed { failure, transient },
            log: progress.log.clone(),
        }
    }

    async fn made(&self, request: &BuildRequest, progress: &Progress) -> Result<Outcome, Broken> {
        if let Some(found) = self.site.recorded(&request.id).await? {
            return Ok(found);
        }
        if request.installs && !self.maker.installs() {
            let message = "the source asks for dependencies, and this builder installs none";
            let failure = Failure::new(reason::BUILD_UNSUPPORTED, message);
            return Err(Broken::Failed(failure));
        }
        let image = self.maker.make(&self.site, request, progress).await?;
        let artifact = self.site.artifact(&request.id.function, image);
        progress.line(format!("made {}", artifact.reference));
        let built_at = self.site.clock.now();
        let record = Record::Succeeded {
            artifact: artifact.clone(),
            built_at,
        };
        // Before it is told: after a crash it is found, with the same time.
        self.site
            .remember(&request.id, &record, &progress.log)
            .await;
        Ok(Outcome {
            status: BuildStatus::Succeeded { artifact, built_at },
            log: progress.log.clone(),
        })
    }

    /// Takes note of how a build ended; one that was cut off is forgotten.
    fn end(&self, id: &BuildId, outcome: Option<Outcome>) {
        match outcome {
            Some(outcome) => {
                outcome.log.close();
                let mut builds = self.builds();
                let of_function = builds.entry(id.function.uid.clone()).or_default();
                of_function.insert(id.clone(), Build::Ended(outcome));
            }
            None => self.forget(id),
        }
        self.changes.notify(id.function.key());
    }

    fn forget(&self, id: &BuildId) {
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

    /// Ends a build that is under way, here or in the cluster, and waits for its end.
    async fn cancel(&self, id: &BuildId) -> Result<()> {
        match self.find(id) {
            Some(Build::Ended(_)) => return Ok(()),
            Some(Build::Running {
                mut state, cancel, ..
            }) => {
                cancel.cancel();
                // The sender goes when the task has ended.
                while state.changed().await.is_ok() {}
                while matches!(self.find(id), Some(Build::Running { .. })) {
                    tokio::task::yield_now().await;
                }
            }
            None => {}
        }
        self.maker.abandon(&self.site, id).await
    }
}
