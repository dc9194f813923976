//! Where images go to, and what the registry remembers of builds.

use std::{
    fs::File,
    io::{Seek as _, Write as _},
    sync::Arc,
};

use futures::StreamExt as _;
use sless_core::{
    Artifact, ArtifactKind, BuildId, BuildRequest, BuildStatus, Clock, Digest, Error, ErrorKind,
    Failure, FunctionId, Left, Receipt, Result, reason,
    source::{SourceTree, context},
};

use super::{
    Outcome,
    log::BuildLog,
    maker::Broken,
    record::{self, Record},
};
use crate::{
    LayerBuilderConfig,
    error::BACKEND,
    registry::{Reference, Registry},
};

/// The registry, and where in it the images of functions are.
#[derive(Debug)]
pub(in crate::builder) struct Site {
    pub(in crate::builder) config: LayerBuilderConfig,
    pub(in crate::builder) repository: Reference,
    pub(in crate::builder) pull_repository: Reference,
    pub(in crate::builder) registry: Registry,
    pub(in crate::builder) clock: Arc<dyn Clock>,
}

impl Site {
    pub(in crate::builder) fn new(
        config: LayerBuilderConfig,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let repository: Reference = config.repository.parse()?;
        let pulled = config.pull_repository.as_deref();
        let pull_repository = pulled.map_or_else(|| Ok(repository.clone()), str::parse)?;
        Ok(Self {
            registry: Registry::new(config.registry.clone())?,
            repository,
            pull_repository,
            config,
            clock,
        })
    }

    /// The repository of a function, without a version.
    pub(in crate::builder) fn of(&self, function: &FunctionId) -> Reference {
        record::repository(&self.repository, function)
    }

    /// The base image; one without a registry is in the one of the settings.
    pub(in crate::builder) fn base(&self, image: &str) -> Result<Reference> {
        let has_registry = image
            .split_once('/')
            .is_some_and(|(host, _)| host.contains(['.', ':']));
        match &self.config.base_registry {
            Some(registry) if !has_registry => format!("{registry}/{image}").parse(),
            _ => image.parse(),
        }
    }

    /// Reads the files of a context, and makes sure that they are the ones to build.
    pub(in crate::builder) async fn source(
        &self,
        request: &BuildRequest,
    ) -> Result<SourceTree, Broken> {
        let read = async {
            let mut stream = request.context.open().await?;
            let mut file = blocking(|| tempfile::tempfile().map_err(spool)).await?;
            while let Some(chunk) = stream.next().await {
                let chunk = chunk?;
                file =
                    blocking(move || file.write_all(&chunk).map(|()| file).map_err(spool)).await?;
            }
            let (limits, code) = (self.config.limits.clone(), request.id.code);
            blocking(move || {
                let mut file: File = file;
                file.rewind().map_err(spool)?;
                let context = context::read(file, &limits)?;
                if context.tree.digest() != code {
                    let message = "the stored context is not of the source that is to be built";
                    return Err(Error::new(ErrorKind::Corrupt, message));
                }
                Ok(context.tree)
            })
            .await
        };
        read.await.map_err(unreadable)
    }

    /// The artifact of an image in the function's repository.
    pub(super) fn artifact(&self, function: &FunctionId, image: Digest) -> Artifact {
        let pulled = record::repository(&self.pull_repository, function).at(image);
        Artifact {
            kind: ArtifactKind::Image,
            reference: pulled.to_string(),
            digest: image,
        }
    }

    /// Whether an image is still there.
    pub(super) async fn keeps(&self, artifact: &Artifact) -> Result<bool> {
        let pulled: Reference = artifact.reference.parse()?;
        let below = pulled
            .repository
            .strip_prefix(&self.pull_repository.repository);
        let Some(below) = below.filter(|_| pulled.host == self.pull_repository.host) else {
            return Ok(false);
        };
        let here = Reference {
            repository: format!("{}{below}", self.repository.repository),
            ..self.repository.clone()
        };
        Ok(self
            .registry
            .has_manifest(&here.at(artifact.digest))
            .await?)
    }

    /// A build that the registry remembers. One whose image is gone is built again.
    pub(super) async fn recorded(&self, id: &BuildId) -> Result<Option<Outcome>> {
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

    /// Writes down how a build ended. Where that fails, it is right in this process, and built again by
    /// the next one.
    pub(super) async fn remember(&self, id: &BuildId, record: &Record, log: &BuildLog) {
        let at = self.record_of(id);
        if let Err(error) = record::write(&self.registry, &at, record, &log.all()).await {
            tracing::warn!(build = %id, error = %error.chain(), "a build was not remembered");
        }
    }

    fn record_of(&self, id: &BuildId) -> Reference {
        Reference {
            version: record::tag(id),
            ..self.of(&id.function)
        }
    }

    /// Deletes a manifest, where the registry does that at all.
    pub(in crate::builder) async fn delete(
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

/// What a context that cannot be read means for a build.
pub(in crate::builder) fn unreadable(error: Error) -> Broken {
    match error.kind() {
        ErrorKind::NotFound
        | ErrorKind::Corrupt
        | ErrorKind::Invalid
        | ErrorKind::LimitExceeded => {
            let said = error.message();
            let message = format!("the stored build context cannot be read: {said}");
            Broken::Failed(Failure::new(reason::CONTEXT_UNREADABLE, message))
        }
        _ => Broken::Passing(error),
    }
}

fn spool(source: std::io::Error) -> Error {
    Error::internal("a build context cannot be kept on this machine").with_source(source)
}

/// Does work that blocks elsewhere.
pub(in crate::builder) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(source) => Err(Error::internal("a task of a build ended early").with_source(source)),
    }
}
