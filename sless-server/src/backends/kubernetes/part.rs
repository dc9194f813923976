//! What `/readyz` tells of the cluster.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use async_trait::async_trait;
use sless_core::Error;
use sless_k8s::{Cluster, KubeBuilder, KubeScheduler};
use tokio::task::AbortHandle;

use super::super::Part;

/// How often the API server is asked whether it is there.
const EVERY: Duration = Duration::from_secs(5);

/// How often CronJobs are looked for that should not be: one of the operators that led before may make
/// them again as long as it has not ended.
const RETIRE_EVERY: Duration = Duration::from_secs(30);

/// Removes the CronJobs of triggers, which the engine fires.
pub(super) async fn retire_cron_jobs(scheduler: &KubeScheduler) -> Result<(), Error> {
    let removed = scheduler.remove_cron_jobs().await?;
    if removed > 0 {
        tracing::info!(
            removed,
            "CronJobs of triggers were removed: the engine fires them"
        );
    }
    Ok(())
}

/// The cluster, and what is to be ended with it.
#[derive(Debug)]
pub(super) struct KubernetesPart {
    scheduler: Arc<KubeScheduler>,
    builder: Arc<KubeBuilder>,
    trouble: Arc<RwLock<Option<String>>>,
    looking: AbortHandle,
    retiring: Option<AbortHandle>,
}

impl KubernetesPart {
    pub(super) fn new(
        cluster: Cluster,
        scheduler: Arc<KubeScheduler>,
        builder: Arc<KubeBuilder>,
    ) -> Self {
        let trouble = Arc::<RwLock<Option<String>>>::default();
        let seen = trouble.clone();
        let looking = tokio::spawn(async move {
            loop {
                tokio::time::sleep(EVERY).await;
                let now = cluster.reach().await.err();
                let now = now.map(|error| error.message().to_owned());
                let mut last = seen.write().unwrap_or_else(PoisonError::into_inner);
                if *last != now {
                    match &now {
                        Some(trouble) => tracing::warn!(trouble, "Kubernetes does not answer"),
                        None => tracing::info!("Kubernetes answers again"),
                    }
                    *last = now;
                }
            }
        });
        Self {
            scheduler,
            builder,
            trouble,
            looking: looking.abort_handle(),
            retiring: None,
        }
    }

    /// Goes on removing CronJobs of triggers.
    pub(super) fn retiring(mut self) -> Self {
        let scheduler = self.scheduler.clone();
        let retiring = tokio::spawn(async move {
            loop {
                tokio::time::sleep(RETIRE_EVERY).await;
                if let Err(error) = retire_cron_jobs(&scheduler).await {
                    tracing::warn!(error = %error.chain(), "CronJobs could not be looked for");
                }
            }
        });
        self.retiring = Some(retiring.abort_handle());
        self
    }

    fn abort(&self) {
        self.looking.abort();
        if let Some(retiring) = &self.retiring {
            retiring.abort();
        }
    }
}

impl Drop for KubernetesPart {
    fn drop(&mut self) {
        self.abort();
    }
}

#[async_trait]
impl Part for KubernetesPart {
    fn name(&self) -> &'static str {
        "kubernetes"
    }

    fn state(&self) -> Result<(), String> {
        let seen = self.trouble.read().unwrap_or_else(PoisonError::into_inner);
        seen.clone().map_or(Ok(()), Err)
    }

    /// Functions that run are called without the API server.
    fn is_vital(&self) -> bool {
        false
    }

    async fn shutdown(&self) {
        self.abort();
        self.builder.shutdown().await;
        self.scheduler.shutdown().await;
    }
}
