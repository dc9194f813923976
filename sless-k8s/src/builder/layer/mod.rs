//! [`LayerBuilder`]: the code as one layer on the runtime's image, through the registry's own API.
//!
//! No pod, no Job, nothing in the cluster: a build is a dozen requests to the registry, which also keeps
//! what is remembered of it ([`record`]). It installs nothing, so it is for sources without dependencies.

mod log;
mod make;
mod record;
mod tarball;

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use sless_core::{
    Artifact, ArtifactKind, BuildId, BuildRequest, BuildStatus, Builder, BuilderCapabilities,
    ChangeStream, Changes, Clock, Digest, Error, ErrorKind, FunctionId, Left, LogOptions,
    LogStream, Receipt, Result, Uid, source::SourceLimits,
};
use tokio::sync::{Semaphore, watch};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use self::{log::BuildLog, make::image_tag, record::Record};
use crate::{
    error::BACKEND,
    registry::{Reference, Registry, RegistryConfig},
};

/// Settings of [`LayerBuilder`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LayerBuilderConfig {
    /// Where the images of functions go: a registry's host and a path in it, such as
    /// `registry.example.com/sless`. Each function has a repository below it.
    pub repository: String,
    /// What nodes call the same place, where it has another name for them.
    pub pull_repository: Option<String>,
    /// The registry of base images whose name has none.
    pub base_registry: Option<String>,
    /// Builds at once; more wait.
    pub builds_at_once: usize,
    /// How long [`Builder::ensure`] waits for a build to end before it answers that it is under way, in
    /// milliseconds.
    pub settle_ms: u64,
    /// What a stored context may hold. It was held against the engine's limits when it was uploaded.
    pub limits: SourceLimits,
    /// The connection to registries.
    pub registry: RegistryConfig,
}

impl Default for LayerBuilderConfig {
    fn default() -> Self {
        Self {
            repository: String::new(),
            pull_repository: None,
            base_registry: None,
            builds_at_once: 8,
            settle_ms: 1_000,
            limits: SourceLimits::default(),
            registry: RegistryConfig::default(),
        }
    }
}

/// Builds by appending the code as one layer to the runtime's image.
///
/// An image of the same code on the same base is the same to the byte. A build that was cut off leaves
/// only blobs that nothing names. Dropping it ends the builds under way, as a crash would.
#[derive(Debug)]
pub struct LayerBuilder {
    inner: Arc<Inner>,
    _stop: DropGuard,
}

#[derive(Debug)]
struct Inner {
    config: LayerBuilderConfig,
    repository: Reference,
    pull_repository: Reference,
    registry: Registry,
    clock: Arc<dyn Clock>,
    changes: Changes,
    places: Semaphore,
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

impl LayerBuilder {
    /// A builder with these settings. No request is made yet.
    ///
    /// # Errors
    /// `Invalid` where a name in the settings cannot be one.
    pub fn new(config: LayerBuilderConfig, clock: Arc<dyn Clock>) -> Result<Self> {
        let repository: Reference = config.repository.parse()?;
        let pulled = config.pull_repository.as_deref();
        let pull_repository = pulled.map_or_else(|| Ok(repository.clone()), str::parse)?;
        let stop = CancellationToken::new();
        let _stop = stop.clone().drop_guard();
        let inner = Inner {
            registry: Registry::new(config.registry.clone())?,
            repository,
            pull_repository,
            places: Semaphore::new(config.builds_at_once.max(1)),
            config,
            clock,
            changes: Changes::default(),
            builds: Mutex::default(),
            tasks: TaskTracker::new(),
            stop,
        };
        Ok(Self {
            inner: Arc::new(inner),
            _stop,
        })
    }

    /// Whether an image that was built here is still in the registry.
    ///
    /// # Errors
    /// If the registry does not say.
    pub async fn keeps(&self, artifact: &Artifact) -> Result<bool> {
        let inner = &self.inner;
        let pulled: Reference = artifact.reference.parse()?;
        let below = pulled
            .repository
            .strip_prefix(&inner.pull_repository.repository);
        let Some(below) = below.filter(|_| pulled.host == inner.pull_repository.host) else {
            return Ok(false);
        };
        let here = Reference {
            repository: format!("{}{below}", inner.repository.repository),
            ..inner.repository.clone()
        };
        Ok(inner
            .registry
            .has_manifest(&here.at(artifact.digest))
            .await?)
    }

    /// Ends the builds under way; they begin anew with the next `ensure`.
    pub async fn shutdown(&self) {
        self.inner.stop.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
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
        let (progress, state) = watch::channel(BuildStatus::Queued);
        let (cancel, log) = (self.stop.child_token(), BuildLog::default());
        let build = Build::Running {
            state,
            cancel: cancel.clone(),
            log: log.clone(),
        };
        of_function.insert(request.id.clone(), build.clone());
        let (inner, request) = (self.clone(), request.clone());
        self.tasks.spawn(async move {
            let made = inner.make(&request, &progress, &log);
            let made = cancel.run_until_cancelled(made).await;
            inner.end(&request.id, made);
            log.close();
        });
        build
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

    /// Ends a build that is under way, and waits for its end.
    async fn cancel(&self, id: &BuildId) {
        let Some(Build::Running {
            mut state, cancel, ..
        }) = self.find(id)
        else {
            return;
        };
        cancel.cancel();
        // The sender goes when the task has ended.
        while state.changed().await.is_ok() {}
        while matches!(self.find(id), Some(Build::Running { .. })) {
            tokio::task::yield_now().await;
        }
    }

    /// Where a build is remembered.
    fn record_of(&self, id: &BuildId) -> Reference {
        let version = record::tag(id);
        Reference {
            version,
            ..record::repository(&self.repository, &id.function)
        }
    }

    /// A build that the registry remembers. One whose image is gone is built again.
    async fn recorded(&self, id: &BuildId) -> Result<Option<Outcome>> {
        let at = self.record_of(id);
        let Some((_, record, log)) = record::read(&self.registry, &at).await? else {
            return Ok(None);
        };
        if let Some(image) = record.image()
            && !self.registry.has_manifest(&at.at(image)).await?
        {
            return Ok(None);
        }
        let log = BuildLog::ended(record::read_log(&self.registry, &at, &log).await?);
        let status = match record {
            Record::Succeeded { artifact, built_at } => {
                BuildStatus::Succeeded { artifact, built_at }
            }
            Record::Failed { failure } => BuildStatus::Failed {
                failure,
                transient: false,
            },
        };
        Ok(Some(Outcome { status, log }))
    }

    /// The base image; one without a registry is in the one of the settings.
    fn base(&self, image: &str) -> Result<Reference> {
        let has_registry = image
            .split_once('/')
            .is_some_and(|(host, _)| host.contains(['.', ':']));
        match &self.config.base_registry {
            Some(registry) if !has_registry => format!("{registry}/{image}").parse(),
            _ => image.parse(),
        }
    }

    /// What nodes call an image of a function.
    fn pulled(&self, function: &FunctionId, image: Digest) -> String {
        record::repository(&self.pull_repository, function)
            .at(image)
            .to_string()
    }

    /// Deletes a manifest, where the registry does that at all.
    async fn delete(
        &self,
        kind: &str,
        name: &str,
        at: &Reference,
        receipt: &mut Receipt,
    ) -> Result<()> {
        match self.registry.delete_manifest(at).await {
            Ok(true) => receipt.add(kind, name, BACKEND),
            Ok(false) => {}
            Err(fault) if fault.is_unsupported() => receipt.left.push(Left {
                kind: kind.to_owned(),
                name: name.to_owned(),
                backend: BACKEND.to_owned(),
                why: "the registry deletes nothing".to_owned(),
                again: false,
            }),
            Err(fault) => return Err(fault.into()),
        }
        Ok(())
    }
}

#[async_trait]
impl Builder for LayerBuilder {
    fn capabilities(&self) -> BuilderCapabilities {
        BuilderCapabilities::new(ArtifactKind::Image)
    }

    async fn ensure(&self, request: &BuildRequest) -> Result<BuildStatus> {
        if self.inner.stop.is_cancelled() {
            return Err(Error::unavailable("the builder has shut down").at(BACKEND));
        }
        let state = match self.inner.begin(request) {
            Build::Ended(outcome) => return Ok(outcome.status),
            Build::Running { state, .. } => state,
        };
        let settle = Duration::from_millis(self.inner.config.settle_ms);
        let mut ended = state.clone();
        let ended = async { while ended.changed().await.is_ok() {} };
        // Not settled: the answer then says what is being done.
        let _ = sless_core::clock::timeout(&*self.inner.clock, settle, ended).await;
        Ok(match self.inner.find(&request.id) {
            Some(Build::Ended(outcome)) => outcome.status,
            Some(Build::Running { state, .. }) => state.borrow().clone(),
            None => BuildStatus::Queued,
        })
    }

    async fn cancel(&self, id: &BuildId) -> Result<()> {
        self.inner.cancel(id).await;
        Ok(())
    }

    async fn logs(&self, id: &BuildId, options: &LogOptions) -> Result<LogStream> {
        let found = match self.inner.find(id) {
            Some(Build::Running { log, .. }) => Some(log),
            Some(Build::Ended(outcome)) => Some(outcome.log),
            None => self.inner.recorded(id).await?.map(|outcome| outcome.log),
        };
        match found {
            Some(log) => Ok(log.read(options)),
            None => Err(Error::new(ErrorKind::NotFound, "no such build")
                .at(BACKEND)
                .on(id)),
        }
    }

    async fn prune(&self, function: &FunctionId, keep: &[BuildId]) -> Result<Receipt> {
        let inner = &self.inner;
        let mut receipt = Receipt::default();
        let known: Vec<BuildId> = {
            let builds = inner.builds();
            let of_function = builds.get(&function.uid).into_iter().flatten();
            of_function
                .map(|(id, _)| id.clone())
                .filter(|id| !keep.contains(id))
                .collect()
        };
        for id in known {
            inner.cancel(&id).await;
            inner.forget(&id);
        }
        let at = record::repository(&inner.repository, function);
        let (prefix, kept): (_, BTreeSet<String>) = (
            record::prefix(&function.uid),
            keep.iter().map(record::tag).collect(),
        );
        let (mut dropped, mut used) = (Vec::new(), BTreeSet::new());
        for tag in inner.registry.tags(&at).await? {
            if !record::is_record(&tag) {
                continue;
            }
            let named = Reference {
                version: tag.clone(),
                ..at.clone()
            };
            let Some((manifest, record, _)) = record::read(&inner.registry, &named).await? else {
                continue;
            };
            if tag.starts_with(&prefix) && !kept.contains(&tag) {
                dropped.push((tag, manifest, record.image()));
            } else {
                used.extend(record.image());
            }
        }
        // Images first: after a crash in between, their records lead to what is left.
        let images: BTreeSet<Digest> = dropped.iter().filter_map(|(_, _, image)| *image).collect();
        for image in images.difference(&used) {
            inner
                .delete("image", &image_tag(*image), &at.at(*image), &mut receipt)
                .await?;
        }
        for (tag, manifest, _) in &dropped {
            inner
                .delete("build", tag, &at.at(*manifest), &mut receipt)
                .await?;
        }
        Ok(receipt)
    }

    fn changes(&self) -> ChangeStream {
        self.inner.changes.subscribe()
    }
}
