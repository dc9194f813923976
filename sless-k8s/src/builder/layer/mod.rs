//! [`LayerBuilder`]: the code as one layer on the runtime's image, through the registry's own API.
//!
//! No pod, no Job, nothing in the cluster: a build is a dozen requests to the registry, which also keeps
//! what is remembered of it. It installs nothing, so it is for sources without dependencies.

mod make;
mod tarball;

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use sless_core::{
    BuildId, BuildRequest, Clock, Digest, FunctionId, Receipt, Result, source::SourceLimits,
};
use tokio::sync::Semaphore;

use super::builds::{Broken, Builds, Maker, Progress, Site};
use crate::registry::RegistryConfig;

pub(super) use self::tarball::{Layer, write as write_layer};

/// Where images are, and how the registry is reached: settings of [`LayerBuilder`], and of every other
/// builder of images.
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
    /// Builds at once that need no Job; more wait.
    pub builds_at_once: usize,
    /// How long [`Builder::ensure`](sless_core::Builder::ensure) waits for a build to end before it
    /// answers that it is under way, in milliseconds.
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
pub struct LayerBuilder(Builds);

super::builder!(LayerBuilder);

impl LayerBuilder {
    /// A builder with these settings. No request is made yet.
    ///
    /// # Errors
    /// `Invalid` where a name in the settings cannot be one.
    pub fn new(config: LayerBuilderConfig, clock: Arc<dyn Clock>) -> Result<Self> {
        let maker = LayerMaker::new(&config);
        let site = Site::new(config, clock)?;
        Ok(Self(Builds::new(site, Box::new(maker))))
    }
}

/// Makes an image without help.
#[derive(Debug)]
pub(super) struct LayerMaker {
    places: Semaphore,
}

impl LayerMaker {
    pub(super) fn new(config: &LayerBuilderConfig) -> Self {
        Self {
            places: Semaphore::new(config.builds_at_once.max(1)),
        }
    }
}

#[async_trait]
impl Maker for LayerMaker {
    fn installs(&self) -> bool {
        false
    }

    fn places(&self, _: &BuildRequest) -> &Semaphore {
        &self.places
    }

    async fn make(
        &self,
        site: &Site,
        request: &BuildRequest,
        progress: &Progress,
    ) -> Result<Digest, Broken> {
        make::make(site, request, progress).await
    }

    async fn abandon(&self, _: &Site, _: &BuildId) -> Result<()> {
        Ok(())
    }

    async fn clear(&self, _: &Site, _: &FunctionId, _: &[BuildId], _: &mut Receipt) -> Result<()> {
        Ok(())
    }
}
