//! The suites of builder and scheduler, with real interpreters and installers.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use sless_conformance::{
    Fixture,
    builder::BuilderHarness,
    scheduler::{Prepared, SchedulerHarness},
};
use sless_core::{
    Artifact, BuildId, BuildRequest, BuildStatus, Builder, ContextRef, Entrypoint, Error,
    FunctionId, Name, Namespace, PutOptions, Result, Runtime, RuntimeVersions, Scheduler, Storage,
    StorageKey, Uid, bytes_stream, source::context,
};
use sless_local::SchedulerConfig;

use super::conformance::Folder;

#[async_trait]
impl BuilderHarness for Folder {
    async fn builder(&self) -> Result<Arc<dyn Builder>> {
        self.with(|local| local.builder().clone() as Arc<dyn Builder>)
    }

    async fn reopen(&self) -> Result<bool> {
        Self::reopen(self).await
    }

    async fn storage(&self) -> Result<Arc<dyn Storage>> {
        self.with(|local| local.storage().clone() as Arc<dyn Storage>)
    }

    async fn keeps(&self, artifact: &Artifact) -> Result<bool> {
        let folder = self.with(|local| local.dir().path().join("artifacts"))?;
        Ok(folder.join(&artifact.reference).is_dir())
    }

    fn installs_here(&self) -> bool {
        true
    }
}

/// The scheduler of a folder, for one of the languages.
#[derive(Debug)]
struct Processes {
    folder: Folder,
    runtime: Runtime,
}

impl Processes {
    async fn new(runtime: Runtime) -> Self {
        Self {
            folder: Folder::new().await,
            runtime,
        }
    }
}

impl sless_conformance::Harness for Processes {}

#[async_trait]
impl SchedulerHarness for Processes {
    async fn scheduler(&self) -> Result<Arc<dyn Scheduler>> {
        self.folder
            .with(|local| local.scheduler().clone() as Arc<dyn Scheduler>)
    }

    async fn reopen(&self) -> Result<bool> {
        self.folder.reopen().await
    }

    async fn prepare(&self, fixture: Fixture) -> Result<Option<Prepared>> {
        let (builder, storage) = self.folder.with(|local| {
            (
                local.builder().clone(),
                local.storage().clone() as Arc<dyn Storage>,
            )
        })?;
        let source = fixture.source(self.runtime)?;
        let info = RuntimeVersions::default().info(self.runtime, Entrypoint::default())?;
        let mut stored = Vec::new();
        context::write(&source, &info, &mut stored)?;
        let key = StorageKey::new(format!(
            "contexts/fixtures/{}.tar.gz",
            fixture.as_str().replace('_', "-")
        ))?;
        storage
            .put(&key, bytes_stream(stored), &PutOptions::default())
            .await?;
        let id = BuildId {
            function: FunctionId {
                namespace: Namespace::new("fixtures")?,
                name: Name::new(fixture.as_str().replace('_', "-"))?,
                uid: Uid::new(format!("fixture-{}", fixture.as_str())),
            },
            code: source.digest(),
            runtime_version: info.version.clone(),
            attempt: 0,
        };
        let request = BuildRequest::new(id, info, false, ContextRef { storage, key });
        let built = async {
            loop {
                match builder.ensure(&request).await? {
                    BuildStatus::Succeeded { artifact, .. } => return Ok(artifact),
                    BuildStatus::Failed { failure, .. } => {
                        return Err(Error::internal(failure.text()));
                    }
                    _ => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            }
        };
        let artifact = tokio::time::timeout(Duration::from_secs(30), built)
            .await
            .map_err(|_| Error::internal("a fixture was not built in time"))??;
        Ok(Some(Prepared {
            artifact,
            runtime: self.runtime,
            entrypoint: Entrypoint::default(),
        }))
    }

    fn overflow(&self) -> usize {
        // One runs, the rest of a full queue waits, and one more is too many.
        SchedulerConfig::default().queue_length + 2
    }
}

mod builder {
    sless_conformance::builder!(super::Folder::new().await);
}

mod python {
    sless_conformance::scheduler!(super::Processes::new(sless_core::Runtime::Python311).await);
}

mod node {
    sless_conformance::scheduler!(super::Processes::new(sless_core::Runtime::NodeJs20).await);
}
