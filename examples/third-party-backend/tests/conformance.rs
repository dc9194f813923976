//! The suites of the two contracts: a test for each clause.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::FutureExt as _;
use sless_conformance::{
    Fixture, FixtureCall, Harness,
    scheduler::{Prepared, SchedulerHarness},
    storage::StorageHarness,
};
use sless_core::{Artifact, ArtifactKind, Digest, Entrypoint, Result, Runtime, Scheduler, Storage};
use third_party_backend::{
    Closures, FolderStorage,
    closures::{Call, Limits},
};

/// A storage over a folder that goes with the test.
#[derive(Debug)]
struct Folder {
    folder: tempfile::TempDir,
    storage: Mutex<Arc<FolderStorage>>,
}

impl Folder {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let storage = FolderStorage::open(folder.path()).await.expect("a storage");
        Self {
            folder,
            storage: Mutex::new(Arc::new(storage)),
        }
    }
}

impl Harness for Folder {}

#[async_trait]
impl StorageHarness for Folder {
    async fn storage(&self) -> Result<Arc<dyn Storage>> {
        Ok(self.storage.lock().expect("no panic").clone())
    }

    async fn reopen(&self) -> Result<bool> {
        let storage = FolderStorage::open(self.folder.path()).await?;
        *self.storage.lock().expect("no panic") = Arc::new(storage);
        Ok(true)
    }
}

mod folder {
    use super::Folder;
    sless_conformance::storage!(Folder::new().await);
}

const LIMITS: Limits = Limits {
    queued_calls: 4,
    drain: std::time::Duration::from_secs(10),
    log_lines: 100,
};

/// A scheduler of its own for each test.
#[derive(Debug)]
struct Functions(Arc<Closures>);

impl Functions {
    fn new() -> Self {
        Self(Arc::new(Closures::new(LIMITS)))
    }
}

impl Harness for Functions {}

#[async_trait]
impl SchedulerHarness for Functions {
    async fn scheduler(&self) -> Result<Arc<dyn Scheduler>> {
        Ok(self.0.clone())
    }

    async fn reopen(&self) -> Result<bool> {
        // Everything ends with the process.
        Ok(false)
    }

    async fn prepare(&self, fixture: Fixture) -> Result<Option<Prepared>> {
        let reference = fixture.as_str();
        match fixture.function() {
            Some(function) => {
                let function = Arc::new(function);
                let closure = move |call: Call| {
                    let function = function.clone();
                    let call = FixtureCall {
                        request: call.request,
                        request_id: call.request_id,
                        env: call.env,
                        clock: Arc::new(sless_core::SystemClock),
                        log: call.log,
                    };
                    async move {
                        let answer = function.call(call).await;
                        answer.map_err(|error| (error.kind, error.message))
                    }
                    .boxed()
                };
                self.0.register(reference, Arc::new(closure));
            }
            // What is not registered cannot be started.
            None if fixture == Fixture::BadImport => {}
            None => return Ok(None),
        }
        let artifact = Artifact {
            kind: ArtifactKind::Memory,
            reference: reference.to_owned(),
            digest: Digest::of(reference),
        };
        let (runtime, entrypoint) = (Runtime::Python311, Entrypoint::default());
        Ok(Some(Prepared {
            artifact,
            runtime,
            entrypoint,
        }))
    }

    fn overflow(&self) -> usize {
        // One runs, as many wait as may, and one is too many.
        LIMITS.queued_calls + 2
    }
}

mod closures {
    use super::Functions;
    sless_conformance::scheduler!(Functions::new());
}
