//! The suite of builders, for the one that appends a layer.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use sless_conformance::{Harness, builder::BuilderHarness};
use sless_core::{Artifact, Builder, Result, Runtime, Storage, SystemClock, memory::MemoryStorage};
use sless_k8s::LayerBuilder;

use super::world;

/// A builder of its own for each clause, on the registry of all.
#[derive(Debug)]
struct OnRegistry {
    path: String,
    runtime: Runtime,
    storage: Arc<MemoryStorage>,
    builder: Mutex<Arc<LayerBuilder>>,
}

impl OnRegistry {
    fn new(runtime: Runtime) -> Self {
        let path = format!("suite-{}", world::mark());
        Self {
            builder: Mutex::new(Arc::new(world::builder(&path).expect("a builder"))),
            storage: Arc::new(MemoryStorage::new(Arc::new(SystemClock))),
            path,
            runtime,
        }
    }

    fn known(&self) -> Arc<LayerBuilder> {
        self.builder
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Harness for OnRegistry {}

#[async_trait]
impl BuilderHarness for OnRegistry {
    async fn builder(&self) -> Result<Arc<dyn Builder>> {
        Ok(self.known())
    }

    async fn reopen(&self) -> Result<bool> {
        let opened = Arc::new(world::builder(&self.path)?);
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
        self.known().keeps(artifact).await
    }

    fn installs_here(&self) -> bool {
        false
    }
}

mod python {
    use super::*;

    sless_conformance::builder!(
        #[ignore = "needs Kubernetes: testing/kubernetes/up"]
        OnRegistry::new(Runtime::Python311)
    );
}

mod node {
    use super::*;

    sless_conformance::builder!(
        #[ignore = "needs Kubernetes: testing/kubernetes/up"]
        OnRegistry::new(Runtime::NodeJs20)
    );
}
