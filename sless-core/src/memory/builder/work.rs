//! One build.

use super::{
    super::{lock, log::LogRing},
    Shared,
};
use crate::{
    Artifact, ArtifactKind, BuildId, BuildRequest, BuildStatus, Digest, Error, ErrorKind, Failure,
    LogSource, Result, Retry,
    clock::timeout,
    collect_bytes, reason,
    source::{Context, context},
};

/// A failed build: why, and whether the next `ensure` tries again.
pub(super) type Failed = (Failure, bool);

impl Shared {
    fn step(&self, id: &BuildId, log: &LogRing, step: &str) {
        log.write(self.clock.now(), LogSource::Build, None, step);
        if let Some(build) = lock(&self.state).builds.get_mut(id) {
            build.status = BuildStatus::Running {
                step: step.to_owned(),
            };
        }
        self.changes.notify(id.function.key());
    }

    pub(super) async fn build(
        &self,
        request: &BuildRequest,
        log: &LogRing,
    ) -> Result<Artifact, Failed> {
        // The semaphore is never closed; without a permit the build would only be one too many.
        let _slot = self.slots.acquire().await;
        let plan = (self.planner)(request);
        let work = async {
            self.step(&request.id, log, "read the build context");
            let context = self.read(request).await?;
            let count = context.tree.files().len();
            log.write(
                self.clock.now(),
                LogSource::Build,
                None,
                &format!("{count} files"),
            );
            if !self.config.installs && request.installs {
                let message = "the memory builder installs no dependencies";
                return Err((Failure::new(reason::BUILD_UNSUPPORTED, message), false));
            }
            if !plan.takes.is_zero() {
                self.step(&request.id, log, "build");
                self.clock.sleep(plan.takes).await;
            }
            plan.failure.map_or_else(|| Ok(artifact_of(request)), Err)
        };
        timeout(&*self.clock, request.timeout, work)
            .await
            .unwrap_or_else(|_| {
                let limit = request.timeout.as_millis();
                let message = format!("the build took longer than {limit} ms");
                Err((Failure::new(reason::BUILD_TIMEOUT, message), false))
            })
    }

    async fn read(&self, request: &BuildRequest) -> Result<Context, Failed> {
        let read = async {
            let stream = request.context.open().await?;
            let bytes = collect_bytes(stream, "context_bytes", self.config.context_bytes).await?;
            let limits = self.config.source.clone();
            let context = off_thread(move || context::read(&bytes[..], &limits)).await?;
            let found = context.tree.digest();
            if found == request.id.code {
                return Ok(context);
            }
            let wanted = request.id.code;
            let message = format!("the context holds source {found}, and {wanted} is to be built");
            Err(Error::new(ErrorKind::Corrupt, message))
        };
        read.await.map_err(|error: Error| {
            let transient = error.retry() != Retry::Never;
            let word = if transient {
                reason::BACKEND_UNAVAILABLE
            } else {
                reason::CONTEXT_UNREADABLE
            };
            let message = format!("the build context cannot be read: {}", error.message());
            (Failure::new(word, message), transient)
        })
    }

    /// Keeps the outcome; a build that was stopped is forgotten.
    pub(super) fn finish(
        &self,
        id: &BuildId,
        log: &LogRing,
        outcome: Option<Result<Artifact, Failed>>,
    ) {
        let now = self.clock.now();
        if let Some(Err((failure, _))) = &outcome {
            log.write(now, LogSource::Build, None, &failure.message);
        }
        {
            let mut state = lock(&self.state);
            let status = match outcome {
                None => None,
                Some(Ok(artifact)) => {
                    state.artifacts.insert(artifact.clone());
                    Some(BuildStatus::Succeeded {
                        artifact,
                        built_at: now,
                    })
                }
                Some(Err((failure, transient))) => {
                    let failure = failure.with_log(&log.text());
                    Some(BuildStatus::Failed { failure, transient })
                }
            };
            match (status, state.builds.get_mut(id)) {
                (Some(status), Some(build)) => build.status = status,
                _ => drop(state.builds.remove(id)),
            }
        }
        log.close();
        self.changes.notify(id.function.key());
    }
}

fn artifact_of(request: &BuildRequest) -> Artifact {
    let BuildId {
        code,
        runtime_version,
        ..
    } = &request.id;
    let runtime = request.runtime.runtime;
    Artifact {
        kind: ArtifactKind::Memory,
        reference: format!("{}/{runtime}/{runtime_version}", code.hex()),
        digest: Digest::of(format!(
            "sless-memory-artifact-v1\n{code}\n{runtime}\n{runtime_version}"
        )),
    }
}

/// The digest of the source that an artifact was made of, where a [`MemoryBuilder`] made it.
pub(in crate::memory) fn code_of(artifact: &Artifact) -> Option<Digest> {
    let (hex, _) = artifact.reference.split_once('/')?;
    format!("sha256:{hex}").parse().ok()
}

async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    use tokio::runtime::{Handle, RuntimeFlavor};
    if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
        return work();
    }
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|panic| {
            Err(Error::internal("reading the build context panicked").with_source(panic))
        })
}
