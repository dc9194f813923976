//! [`KubeScheduler`]: functions as Deployments, runs of jobs as Jobs.
//!
//! Every object carries the labels of its owner, so that one watch of each kind over all namespaces maps it
//! back. What the watches tell is kept in a [`Cache`](cache::Cache), and a [`status`] is read out of it.

mod annotation;
mod apply;
mod cache;
mod config;
mod cron;
pub(crate) mod failure;
mod held;
mod invoke;
mod jobs;
mod keda;
mod logs;
mod manifest;
mod namespace;
mod same;
mod scale;
mod sleep;
mod status;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use k8s_openapi::NamespaceResourceScope;
use kube::Api;
use sless_core::{
    ArtifactKind, ChangeStream, CronScheduler, Ensured, Error, ErrorKind, FunctionId, HeldStream,
    Invoke, JobId, JobRun, LogOptions, LogStream, LogTarget, Namespace, Receipt, Result, RunStatus,
    Scheduler, SchedulerCapabilities, Workload, WorkloadStatus,
};
use tokio::sync::{Mutex, watch};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

pub use self::config::{
    CronJobConfig, IngressConfig, KedaConfig, NetworkConfig, PodConfig, SchedulerConfig,
    ServiceKind,
};
pub(crate) use self::manifest::egress;
use self::{
    cache::{Cache, Watched, watch_all},
    invoke::{Endpoint, KubeInvoker},
};
use crate::{Cluster, error::BACKEND};

/// Runs functions and jobs on Kubernetes.
///
/// What runs goes on when this process ends, and so does a run of a job. Dropping it ends its watches and
/// the calls that wait; [`shutdown`](KubeScheduler::shutdown) waits for that.
#[derive(Debug)]
pub struct KubeScheduler {
    inner: Arc<Inner>,
    _stop: DropGuard,
}

#[derive(Debug)]
pub(crate) struct Inner {
    cluster: Cluster,
    config: Arc<SchedulerConfig>,
    cache: Arc<Cache>,
    /// KEDA's, where it scales functions.
    interceptor: Option<Arc<Endpoint>>,
    /// Held by whoever writes a policy.
    policing: Mutex<()>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl KubeScheduler {
    /// Begins to watch the cluster, and answers once all that is there was seen.
    ///
    /// # Errors
    /// `Timeout`, if that is not so within [`K8sConfig::request_timeout_ms`](crate::K8sConfig).
    pub async fn connect(cluster: Cluster) -> Result<Self> {
        let config = Arc::new(cluster.config().scheduler.clone());
        let wait = Duration::from_millis(cluster.config().request_timeout_ms);
        let (ready, mut seen) = watch::channel(0);
        let interceptor = match &config.keda {
            Some(keda) if keda::is_there(&cluster).await? => {
                Some(Arc::new(Endpoint::named(&keda.interceptor)))
            }
            Some(_) => {
                tracing::warn!(
                    "KEDA's HTTPScaledObject is not in this cluster: sless scales functions"
                );
                None
            }
            None => None,
        };
        let watched = Watched {
            crons: config.cron_jobs.is_some(),
            scaled: interceptor.is_some(),
        };
        let services = config.services(interceptor.is_some());
        let inner = Arc::new(Inner {
            interceptor,
            policing: Mutex::default(),
            cache: Arc::new(Cache::new(services)),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            config,
            cluster,
        });
        let _stop = inner.stop.clone().drop_guard();
        let resync = Duration::from_secs(inner.config.resync_seconds.max(1));
        let (client, cache) = (inner.cluster.client(), inner.cache.clone());
        let watching = watch_all(client, cache, resync, watched, ready);
        let stop = inner.stop.clone();
        inner
            .tasks
            .spawn(async move { stop.run_until_cancelled(watching).await });
        if inner.config.idle_check_ms > 0 {
            let every = Duration::from_millis(inner.config.idle_check_ms);
            let sleeping = sleep::put_idle_to_sleep(Arc::downgrade(&inner), every);
            let stop = inner.stop.clone();
            inner
                .tasks
                .spawn(async move { stop.run_until_cancelled(sleeping).await });
        }
        if inner.config.scale_check_ms > 0 {
            let every = Duration::from_millis(inner.config.scale_check_ms);
            let scaling = scale::keep_scale(Arc::downgrade(&inner), every);
            let stop = inner.stop.clone();
            inner
                .tasks
                .spawn(async move { stop.run_until_cancelled(scaling).await });
        }
        let all = seen.wait_for(|seen| *seen == watched.count());
        match tokio::time::timeout(wait, all).await {
            Ok(Ok(_)) => {}
            _ => {
                let message = "Kubernetes did not show all that is there within request_timeout_ms";
                return Err(Error::new(ErrorKind::Timeout, message)
                    .with_reason("limit_request_timeout_ms")
                    .at(BACKEND));
            }
        }
        Ok(Self { inner, _stop })
    }

    /// What fires cron triggers, where the settings ask for CronJobs
    /// ([`SchedulerConfig::cron_jobs`]); else the engine does.
    pub fn cron(self: &Arc<Self>) -> Option<Arc<dyn CronScheduler>> {
        let asked = self.inner.config.cron_jobs.is_some();
        asked.then(|| self.clone() as Arc<dyn CronScheduler>)
    }

    /// Ends the watches. What runs in the cluster runs on.
    pub async fn shutdown(&self) {
        self.inner.stop.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }
}

impl Inner {
    /// The objects of one kind that belong to a namespace's workloads.
    fn api<K>(&self, namespace: &Namespace) -> Api<K>
    where
        K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.cluster.client(), namespace.workloads().as_str())
    }
}

fn not_found(function: &FunctionId) -> Error {
    Error::not_found("the function is not there")
        .at(BACKEND)
        .on(function)
}

#[async_trait]
impl Scheduler for KubeScheduler {
    fn capabilities(&self) -> SchedulerCapabilities {
        SchedulerCapabilities::new([ArtifactKind::Image])
            .with_sleeps()
            .with_replicas()
            .with_scaling()
    }

    async fn apply(&self, workload: &Workload) -> Result<WorkloadStatus> {
        runnable(workload)?;
        self.inner.apply(workload).await
    }

    async fn status(&self, function: &FunctionId) -> Result<WorkloadStatus> {
        let entry = self.inner.cache.function(&function.uid);
        Ok(entry
            .map(|entry| status::of(&entry.view()))
            .unwrap_or_default())
    }

    async fn remove(&self, function: &FunctionId) -> Result<Receipt> {
        self.inner.remove(function).await
    }

    async fn invoker(&self, function: &FunctionId) -> Result<Arc<dyn Invoke>> {
        let entry = self.inner.cache.function(&function.uid);
        let view = entry.map(|entry| entry.view());
        match view {
            Some(view) if view.deployment.is_some() || view.refused.is_some() => Ok(Arc::new(
                KubeInvoker::new(self.inner.clone(), function.clone()),
            )),
            _ => Err(not_found(function)),
        }
    }

    async fn run_job(&self, run: &JobRun) -> Result<RunStatus> {
        runnable(&run.workload)?;
        self.inner.run_job(run).await
    }

    async fn remove_job(&self, job: &JobId) -> Result<Receipt> {
        self.inner.remove_job(job).await
    }

    async fn logs(&self, of: &LogTarget, options: &LogOptions) -> Result<LogStream> {
        self.inner.clone().logs(of, options).await
    }

    fn held(&self) -> HeldStream {
        held::all(&self.inner)
    }

    fn changes(&self) -> ChangeStream {
        self.inner.cache.changes.subscribe()
    }

    async fn ensure_namespace(&self, namespace: &Namespace) -> Result<Ensured> {
        Ok(self.inner.ensure_namespace(namespace).await?)
    }
}

fn runnable(workload: &Workload) -> Result<()> {
    let kind = workload.artifact.kind;
    if kind == ArtifactKind::Image {
        return Ok(());
    }
    let message = format!("Kubernetes runs no artifacts of kind {kind:?}");
    Err(Error::new(ErrorKind::Unsupported, message).at(BACKEND))
}
