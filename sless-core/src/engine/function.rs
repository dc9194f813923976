//! The reconciler of functions: build, run, tell; or take apart.

use std::{sync::Arc, time::Duration};

use super::{Engine, annotation, points};
use crate::{
    Artifact, BuildId, BuildRequest, BuildStatus, Builder, CatalogExt as _, ContextRef, Digest,
    Error, Failure, Function, FunctionId, FunctionPhase, Metadata, Object, Receipt, Result,
    StorageKey, Workload, WorkloadPhase, WorkloadStatus, reason,
    resource::{Condition, FunctionStatus, ObjectKey, Resource as _},
    source::{Dependencies, context},
};

/// The conditions of a function.
const BUILT: &str = "Built";
const READY: &str = "Ready";

/// How soon to look again at what is on its way, should its hint be lost.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

/// How soon to look again at what is ending.
pub(super) const ENDING: Duration = Duration::from_secs(1);

/// The engine's finalizer.
pub(super) const FINALIZER: &str = "sless.io/engine";

impl Engine {
    /// One step of a function towards what is wanted of it. Answers when to look again.
    pub(super) async fn reconcile_function(&self, key: &ObjectKey) -> Result<Option<Duration>> {
        let found = self
            .backends
            .catalog
            .find(&key.namespace, &key.name)
            .await?;
        let Some(function) = found else {
            self.routes.forget(&key.namespace, &key.name);
            return Ok(None);
        };
        let function: Function = function;
        if function.metadata.is_deleting() {
            self.routes.forget(&key.namespace, &key.name);
            return self.take_apart(function).await;
        }
        let function = self.with_finalizer(function).await?;
        let mut status = function.status.clone();
        // What was found out is told, also where the next step failed.
        let next = self.bring_up(&function, &mut status).await;
        if next.is_ok() || status != function.status {
            status.observed_generation = function.metadata.generation;
        }
        if status != function.status {
            let changed = Function { status, ..function };
            points::FUNCTION_BEFORE.pass();
            self.backends.catalog.update_status(changed.into()).await?;
            points::FUNCTION_AFTER.pass();
            self.routes.forget(&key.namespace, &key.name);
        }
        next
    }

    /// Sees to it that deleting an object waits for the engine.
    pub(super) async fn with_finalizer<R: crate::Resource>(&self, resource: R) -> Result<R> {
        let mut object: Object = resource.into();
        if !object
            .metadata()
            .finalizers
            .iter()
            .any(|name| name == FINALIZER)
        {
            object.metadata_mut().finalizers.push(FINALIZER.to_owned());
            object = self.backends.catalog.update(object).await?;
        }
        R::try_from(object)
    }

    /// Lets a deleted object go, now that nothing of it is left.
    pub(super) async fn without_finalizer(&self, mut object: Object) -> Result<()> {
        object
            .metadata_mut()
            .finalizers
            .retain(|name| name != FINALIZER);
        points::RELEASE_BEFORE.pass();
        match self.backends.catalog.update(object).await {
            Err(error) if error.is_not_found() => Ok(()),
            other => other.map(|_| points::RELEASE_AFTER.pass()),
        }
    }

    async fn bring_up(
        &self,
        function: &Function,
        status: &mut FunctionStatus,
    ) -> Result<Option<Duration>> {
        let now = self.backends.clock.now();
        // A catalog refuses such a spec; one that others write to, too, may not have been able to.
        if let Err(error) = function.spec.validate() {
            let (word, message) = (error.reason(), error.message());
            settle(status, FunctionPhase::Failed, word, message);
            let set = &mut status.conditions;
            Condition::set(set, READY, Some(false), word, message, now);
            return Ok(None);
        }
        let (Some(code), Some(context)) = (function.spec.code_sha256, &function.spec.s3_key) else {
            let message = "no code was uploaded yet";
            settle(status, FunctionPhase::Pending, reason::NO_CODE, message);
            Condition::set(
                &mut status.conditions,
                READY,
                Some(false),
                reason::NO_CODE,
                message,
                now,
            );
            return Ok(None);
        };
        let id = self.build_id(function, code);
        let built = match own_context(function, context) {
            Ok(context) => self.build(function, id.clone(), context).await?,
            Err(failure) => BuildStatus::Failed {
                failure,
                transient: false,
            },
        };
        let artifact = match built {
            BuildStatus::Succeeded { artifact, built_at } => {
                status.last_built_at = Some(built_at);
                status.artifact = Some(artifact.clone());
                Condition::set(&mut status.conditions, BUILT, Some(true), "", "", now);
                artifact
            }
            BuildStatus::Queued => {
                let next = building(status, "waits for its turn", now);
                self.look_at_what_serves(&id.function, status).await?;
                return Ok(next);
            }
            BuildStatus::Running { step } => {
                let next = building(status, &step, now);
                self.look_at_what_serves(&id.function, status).await?;
                return Ok(next);
            }
            BuildStatus::Failed { failure, transient } => {
                let text = failure.text();
                settle(status, FunctionPhase::Failed, &failure.reason, &text);
                for kind in [BUILT, READY] {
                    let set = &mut status.conditions;
                    Condition::set(
                        set,
                        kind,
                        Some(false),
                        &failure.reason,
                        &failure.message,
                        now,
                    );
                }
                self.look_at_what_serves(&id.function, status).await?;
                if transient {
                    return Err(Error::unavailable(failure.message).with_reason(failure.reason));
                }
                return Ok(None);
            }
        };
        let stop = self.why_stopped(function);
        if let Some(failure) = self.cannot_scale(function) {
            let (word, message) = (&*failure.reason, &*failure.message);
            settle(status, FunctionPhase::Failed, word, message);
            let set = &mut status.conditions;
            Condition::set(set, READY, Some(false), word, message, now);
            self.look_at_what_serves(&id.function, status).await?;
            return Ok(None);
        }
        let mut workload = workload(function, artifact, status)?;
        if stop.is_some() {
            (workload.replicas, workload.max_replicas) = (0, 0);
        }
        let seen = match self.backends.scheduler.apply(&workload).await {
            Ok(seen) => seen,
            Err(error) => {
                // What does not pass by itself is told; it is tried again all the same.
                if error.retry() == crate::Retry::Never && !error.is_conflict() {
                    let (word, message) = (error.reason(), error.message());
                    settle(status, FunctionPhase::Failed, word, message);
                    (status.ready_replicas, status.serving) = (0, None);
                    let set = &mut status.conditions;
                    Condition::set(set, READY, Some(false), word, message, now);
                }
                return Err(error);
            }
        };
        let next = observe(status, &seen, stop, now);
        let serves =
            seen.phase == WorkloadPhase::Ready && seen.serving == Some(workload.revision());
        // Before the status is written, so that it is done again after a crash in between. Also where
        // the version before serves again: what was begun of another one meanwhile goes.
        let before = &function.status;
        let comes_up = before.serving != seen.serving
            || before.phase != FunctionPhase::Ready
            || before.observed_generation != function.metadata.generation;
        if serves
            && (comes_up || self.untidy.contains(&id.function))
            && !self.tidy(function, &id).await
        {
            return Ok(Some(LOOK_AGAIN));
        }
        Ok(next)
    }

    /// Writes down what serves while the wanted version cannot: an earlier one, as far as the scheduler
    /// still has it.
    async fn look_at_what_serves(
        &self,
        function: &FunctionId,
        status: &mut FunctionStatus,
    ) -> Result<()> {
        // Where nothing was ever built, nothing was applied.
        if status.artifact.is_none() {
            return Ok(());
        }
        let seen = self.backends.scheduler.status(function).await?;
        (status.ready_replicas, status.serving) = (seen.ready_replicas, seen.serving);
        Ok(())
    }

    /// What names the build of this code for this function.
    pub(super) fn build_id(&self, function: &Function, code: Digest) -> BuildId {
        let attempt = function.metadata.annotations.get(annotation::BUILD_ATTEMPT);
        BuildId {
            function: FunctionId::of(&function.metadata),
            code,
            runtime_version: self
                .options
                .runtimes
                .version(function.spec.runtime)
                .to_owned(),
            attempt: attempt
                .and_then(|attempt| attempt.parse().ok())
                .unwrap_or(0),
        }
    }

    async fn build(
        &self,
        function: &Function,
        id: BuildId,
        context: StorageKey,
    ) -> Result<BuildStatus> {
        let context = ContextRef {
            storage: self.backends.storage.clone(),
            key: context,
        };
        let installs = match self.installs(function, &context).await {
            Ok(installs) => installs,
            Err((failure, transient)) => return Ok(BuildStatus::Failed { failure, transient }),
        };
        let Some(builder) = self.builder_for(installs) else {
            let message = "the source asks for dependencies, and no builder here installs any";
            let failure = Failure::new(reason::BUILD_UNSUPPORTED, message);
            return Ok(BuildStatus::Failed {
                failure,
                transient: false,
            });
        };
        let spec = &function.spec;
        let runtime = self
            .options
            .runtimes
            .info(spec.runtime, spec.entrypoint.clone())?;
        let request = BuildRequest::new(id, runtime, installs, context)
            .with_timeout(self.options.build_timeout);
        builder.ensure(&request).await
    }

    /// The first builder that can build a source.
    fn builder_for(&self, installs: bool) -> Option<&Arc<dyn Builder>> {
        let mut builders = self.backends.builders.iter();
        builders.find(|builder| !installs || builder.capabilities().installs)
    }

    /// Whether the source asks for dependencies: as noted at its upload, or as the context says. A
    /// failure comes with whether it may pass.
    async fn installs(
        &self,
        function: &Function,
        context: &ContextRef,
    ) -> Result<bool, (Failure, bool)> {
        let runtime = function.spec.runtime;
        let noted = function.metadata.annotations.get(annotation::INSTALLS);
        if let Some(noted) = noted.and_then(|noted| annotation::read_installs(noted, runtime)) {
            return Ok(noted);
        }
        let unreadable = |error: Error| {
            let message = format!(
                "the stored build context cannot be read: {}",
                error.message()
            );
            let transient = error.retry() != crate::Retry::Never;
            let word = if transient {
                reason::BACKEND_UNAVAILABLE
            } else {
                reason::CONTEXT_UNREADABLE
            };
            (Failure::new(word, message), transient)
        };
        let limits = self.options.source_limits.clone();
        let threads = self.threads();
        let stored = context.open().await.map_err(unreadable)?;
        let file = super::upload::spool(threads, stored, u64::MAX)
            .await
            .map_err(unreadable)?;
        let found = super::blocking(threads, move || {
            let context = context::read(file, &limits)?;
            Ok(!Dependencies::detect(runtime, &context.tree)?.is_none())
        });
        found.await.map_err(unreadable)
    }

    /// What is said where more copies are asked for than this scheduler makes by itself.
    fn cannot_scale(&self, function: &Function) -> Option<Failure> {
        let (least, most) = (function.spec.replicas(), function.spec.max_replicas());
        let asked = most > least && !self.backends.scheduler.capabilities().scales;
        asked.then(|| {
            let message = format!(
                "max_replicas is {most} and replicas {least}, and the scheduler here adds no copies by itself"
            );
            Failure::new("scaling_unsupported", message)
        })
    }

    /// Why a function is to be off, if it is.
    fn why_stopped(&self, function: &Function) -> Option<(&'static str, &'static str)> {
        let Function { metadata, spec, .. } = function;
        if spec.replicas() == 0 {
            return Some((
                reason::SCALED_TO_ZERO,
                "the function is stopped: replicas is 0",
            ));
        }
        self.index
            .is_stopped(&metadata.namespace, &metadata.name)
            .then_some((
                reason::TRIGGER_DISABLED,
                "the function is stopped: its trigger is disabled",
            ))
    }

    /// Drops builds and stored sources that a new version has made needless. Answers whether it could
    /// be done; if not, it is tried again and hinders nobody.
    async fn tidy(&self, function: &Function, current: &BuildId) -> bool {
        let FunctionId {
            namespace, name, ..
        } = &current.function;
        if self.index.has_runs(namespace, name) {
            // The build that a run is of may still have to be fetched.
            self.untidy.set(&current.function, true);
            return false;
        }
        let tidied = async {
            points::TIDY_BEFORE.pass();
            for builder in &self.backends.builders {
                builder
                    .prune(&current.function, std::slice::from_ref(current))
                    .await?;
            }
            let kept = self.options.sources_kept.max(1);
            let (namespace, name) = (&function.metadata.namespace, &function.metadata.name);
            self.drop_sources(namespace, name, kept, function.spec.s3_key.as_deref())
                .await
        };
        let tidied = tidied.await;
        points::TIDY_AFTER.pass();
        if let Err(error) = &tidied {
            let function = &current.function;
            tracing::warn!(%function, error = %error.chain(), "old versions were not dropped yet");
        }
        self.untidy.set(&current.function, tidied.is_err());
        tidied.is_ok()
    }

    /// Removes everything that was made for a function, and then the function.
    async fn take_apart(&self, function: Function) -> Result<Option<Duration>> {
        let id = FunctionId::of(&function.metadata);
        let mut receipt = Receipt::default();
        let mut failed = None;
        receipt.merge_or_keep(self.backends.scheduler.remove(&id).await, &mut failed);
        for builder in &self.backends.builders {
            receipt.merge_or_keep(builder.prune(&id, &[]).await, &mut failed);
        }
        let dropped = self.drop_sources(&id.namespace, &id.name, 0, None).await;
        receipt.merge_or_keep(dropped, &mut failed);
        let unfinished = receipt.is_unfinished();
        self.receipts.add(&id.uid, receipt);
        if let Some(error) = failed {
            return Err(error);
        }
        if unfinished {
            return Ok(Some(ENDING));
        }
        let key = function.key();
        self.without_finalizer(function.into()).await?;
        self.untidy.set(&id, false);
        self.receipts.close(&id.uid);
        self.wake_dependents(&key);
        Ok(None)
    }
}

/// The key of a function's build context. A spec can be written by hand, and must not name another
/// function's.
fn own_context(function: &Function, key: &str) -> Result<StorageKey, Failure> {
    let Metadata {
        namespace, name, ..
    } = &function.metadata;
    let folder = format!("contexts/{namespace}/{name}/");
    match StorageKey::new(key) {
        Ok(key) if key.as_str().starts_with(&folder) => Ok(key),
        _ => {
            let message = format!("s3Key is no build context of this function: expected {folder}…");
            Err(Failure::new(reason::CONTEXT_UNREADABLE, message))
        }
    }
}

/// What is to run, for a function whose code was built into this artifact.
pub(super) fn workload(
    function: &Function,
    artifact: Artifact,
    status: &FunctionStatus,
) -> Result<Workload> {
    let Function { metadata, spec, .. } = function;
    let built_at = status
        .last_built_at
        .ok_or_else(|| Error::internal("a built function without the time of its build"))?;
    Ok(Workload {
        function: FunctionId::of(metadata),
        generation: metadata.generation,
        artifact,
        runtime: spec.runtime,
        entrypoint: spec.entrypoint.clone(),
        env: spec.env.clone(),
        replicas: spec.replicas(),
        max_replicas: spec.max_replicas(),
        timeout: Duration::from_secs(spec.timeout_seconds.into()),
        memory: spec.memory.clone(),
        cpu: spec.cpu.clone(),
        concurrency: spec.concurrency,
        idle: spec
            .idle_seconds
            .map(|seconds| Duration::from_secs(seconds.into())),
        built_at,
    })
}

fn settle(status: &mut FunctionStatus, phase: FunctionPhase, reason: &str, message: &str) {
    status.phase = phase;
    reason.clone_into(&mut status.reason);
    message.clone_into(&mut status.message);
}

fn building(status: &mut FunctionStatus, step: &str, now: jiff::Timestamp) -> Option<Duration> {
    settle(status, FunctionPhase::Building, "", step);
    Condition::set(&mut status.conditions, BUILT, None, "building", step, now);
    Some(LOOK_AGAIN)
}

/// Writes down what the scheduler says.
fn observe(
    status: &mut FunctionStatus,
    seen: &WorkloadStatus,
    stop: Option<(&'static str, &'static str)>,
    now: jiff::Timestamp,
) -> Option<Duration> {
    status.ready_replicas = seen.ready_replicas;
    status.serving = seen.serving;
    let failure = seen.failure.as_ref();
    let (word, text) = failure.map_or(("", String::new()), |f| (&*f.reason, f.text()));
    let (phase, word, text) = match (seen.phase, stop) {
        (WorkloadPhase::Failed, None) => (FunctionPhase::Failed, word, text),
        (WorkloadPhase::Ready, None) => (FunctionPhase::Ready, "", String::new()),
        (WorkloadPhase::Stopped, Some((word, message))) => {
            (FunctionPhase::Stopped, word, message.to_owned())
        }
        (_, Some((word, _))) => (FunctionPhase::Stopped, word, "stops".to_owned()),
        (_, None) if failure.is_some() => (FunctionPhase::Building, word, text),
        (_, None) => (FunctionPhase::Building, "starting", "starts".to_owned()),
    };
    settle(status, phase, word, &text);
    let ready = match phase {
        FunctionPhase::Ready => Some(true),
        FunctionPhase::Building => None,
        _ => Some(false),
    };
    let first_line = text.lines().next().unwrap_or_default();
    Condition::set(&mut status.conditions, READY, ready, word, first_line, now);
    let moving = matches!(seen.phase, WorkloadPhase::Starting | WorkloadPhase::Absent)
        || (stop.is_some() && seen.phase != WorkloadPhase::Stopped);
    moving.then_some(LOOK_AGAIN)
}
