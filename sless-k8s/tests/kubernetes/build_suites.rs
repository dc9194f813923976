//! The suite of builders, for those that build in Jobs. Most of its sources install nothing, and are built
//! in Jobs all the same, save by the builder that chooses.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use sless_conformance::{Harness, builder::BuilderHarness};
use sless_core::{Artifact, Builder, Result, Runtime, Storage, SystemClock, memory::MemoryStorage};

use super::{
    build_place::{BuildPlace, PATIENCE, Which},
    world,
};

/// Builds in a namespace of its own for each clause.
#[derive(Debug)]
struct InJobs {
    which: Which,
    runtime: Runtime,
    place: BuildPlace,
    storage: Arc<MemoryStorage>,
    builder: Mutex<Arc<dyn Builder>>,
}

impl InJobs {
    async fn new(which: Which, runtime: Runtime) -> Self {
        let place = BuildPlace::new().await;
        Self {
            builder: Mutex::new(place.builder(which).await.expect("a builder")),
            storage: Arc::new(MemoryStorage::new(Arc::new(SystemClock))),
            place,
            which,
            runtime,
        }
    }
}

#[async_trait]
impl Harness for InJobs {
    fn patience(&self) -> std::time::Duration {
        PATIENCE
    }

    async fn clean_up(&self) -> Result<()> {
        self.place.end().await;
        Ok(())
    }
}

#[async_trait]
impl BuilderHarness for InJobs {
    async fn builder(&self) -> Result<Arc<dyn Builder>> {
        let builder = self.builder.lock();
        Ok(builder.unwrap_or_else(PoisonError::into_inner).clone())
    }

    async fn reopen(&self) -> Result<bool> {
        let opened = self.place.builder(self.which).await?;
        *self.builder.lock().unwrap_or_else(PoisonError::into_inner) = opened;
        Ok(true)
    }

    async fn storage(&self) -> Result<Arc<dyn Storage>> {
        Ok(self.storage.clone())
    }

    fn runtime(&self) -> Runtime {
        self.runtime
    }

    async fn keeps(&self, artifact: &Artifact) -> Result<bool> {
        world::builder(&self.place.path())?.keeps(artifact).await
    }

    fn installs_here(&self) -> bool {
        true
    }
}

mod buildkit {
    use super::*;

    sless_conformance::builder!(
        #[ignore = "needs Kubernetes: testing/kubernetes/up"]
        InJobs::new(Which::BuildKit, Runtime::Python311).await
    );
}

mod kaniko {
    use super::*;

    sless_conformance::builder!(
        #[ignore = "needs Kubernetes: testing/kubernetes/up"]
        InJobs::new(Which::Kaniko, Runtime::Python311).await
    );
}

mod chosen {
    use super::*;

    sless_conformance::builder!(
        #[ignore = "needs Kubernetes: testing/kubernetes/up"]
        InJobs::new(Which::Chosen, Runtime::NodeJs20).await
    );
}
