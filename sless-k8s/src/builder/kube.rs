//! [`KubeBuilder`]: without a Job where that is enough.

use std::sync::Arc;

use async_trait::async_trait;
use sless_core::{BuildId, BuildRequest, Clock, Digest, FunctionId, Receipt, Result};
use tokio::sync::Semaphore;

use super::{
    builds::{Broken, Builds, Maker, Progress, Site},
    job::JobMaker,
    layer::LayerMaker,
};
use crate::{Cluster, LayerBuilderConfig};

/// Builds without a Job, as [`LayerBuilder`](crate::LayerBuilder) does, where nothing is to be installed,
/// and else with the tool of the settings ([`BuildsConfig::tool`](crate::BuildsConfig)).
#[derive(Debug)]
pub struct KubeBuilder(Builds);

super::builder!(KubeBuilder);

impl KubeBuilder {
    /// A builder of images in this cluster; Jobs have the settings of
    /// [`K8sConfig::builds`](crate::K8sConfig). No request is made yet.
    ///
    /// # Errors
    /// `Invalid` where a name in the settings is missing or cannot be one.
    pub fn new(
        cluster: Cluster,
        images: LayerBuilderConfig,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let tool = cluster.config().builds.tool;
        let choice = Choice {
            layer: LayerMaker::new(&images),
            job: JobMaker::new(cluster, &images, tool)?,
        };
        let site = Site::new(images, clock)?;
        Ok(Self(Builds::new(site, Box::new(choice))))
    }
}

/// Takes the one that a source needs.
#[derive(Debug)]
struct Choice {
    layer: LayerMaker,
    job: JobMaker,
}

#[async_trait]
impl Maker for Choice {
    fn installs(&self) -> bool {
        true
    }

    fn places(&self, request: &BuildRequest) -> &Semaphore {
        if request.installs {
            return self.job.places(request);
        }
        self.layer.places(request)
    }

    async fn make(
        &self,
        site: &Site,
        request: &BuildRequest,
        progress: &Progress,
    ) -> Result<Digest, Broken> {
        if request.installs {
            return self.job.make(site, request, progress).await;
        }
        self.layer.make(site, request, progress).await
    }

    async fn abandon(&self, site: &Site, id: &BuildId) -> Result<()> {
        self.job.abandon(site, id).await
    }

    async fn clear(
        &self,
        site: &Site,
        function: &FunctionId,
        keep: &[BuildId],
        receipt: &mut Receipt,
    ) -> Result<()> {
        self.job.clear(site, function, keep, receipt).await
    }
}
