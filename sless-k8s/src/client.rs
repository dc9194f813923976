//! [`Cluster`]: the connection that everything here shares.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use kube::config::{KubeConfigOptions, Kubeconfig};
use sless_core::Result;

use crate::{K8sConfig, error::Fault, namespaces};

/// A cluster that is used with these settings. Clones share one pool of connections.
#[derive(Clone)]
pub struct Cluster {
    client: kube::Client,
    config: Arc<K8sConfig>,
    url: Arc<str>,
}

impl Cluster {
    /// Reads the kubeconfig, or the service account of the pod. Opens no connection: that is done by
    /// the first request, and again whenever one is lost.
    ///
    /// # Errors
    /// `Invalid`, reason `kubernetes_settings`, if these do not lead to a cluster.
    pub async fn connect(config: K8sConfig) -> Result<Self> {
        let mut found = connection(&config).await?;
        found.connect_timeout = Some(Duration::from_millis(config.connect_timeout_ms));
        // Every request has a deadline of its own; a watch has none.
        found.read_timeout = None;
        // Repeating is the caller's decision, and bounded by its own settings.
        found.default_retry = false;
        let url = found.cluster_url.to_string().into();
        let client = kube::Client::try_from(found).map_err(Fault::from)?;
        Ok(Self {
            client,
            config: Arc::new(config),
            url,
        })
    }

    /// The settings.
    pub fn config(&self) -> &K8sConfig {
        &self.config
    }

    /// Asks the API server for its version, which everybody may who is known to it.
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` if it does not answer; `Unauthenticated`.
    pub async fn reach(&self) -> Result<()> {
        let asked = async { self.client.apiserver_version().await.map(drop) };
        Ok(self.call(asked).await?)
    }

    /// Whether the namespace of the leases is there.
    ///
    /// # Errors
    /// `PermissionDenied` if this process may not know.
    pub async fn has_lease_namespace(&self) -> Result<bool> {
        Ok(namespaces::is_there(self, &self.config.lease.namespace).await?)
    }

    /// The client, for `Api::namespaced` and the like.
    pub(crate) fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// Awaits the answer to one request, at most for [`K8sConfig::request_timeout_ms`].
    pub(crate) async fn call<T>(
        &self,
        request: impl Future<Output = kube::Result<T>> + Send,
    ) -> Result<T, Fault> {
        let wait = self.config.request_timeout();
        match tokio::time::timeout(wait, request).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Fault::Timeout {
                limit: "request_timeout_ms",
                wait,
            }),
        }
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

async fn connection(config: &K8sConfig) -> Result<kube::Config, Fault> {
    let Some(file) = &config.kubeconfig else {
        return kube::Config::incluster_dns().map_err(|source| Fault::Settings {
            what: "the service account of this pod".to_owned(),
            source: source.into(),
        });
    };
    let unusable = |source| Fault::Settings {
        what: format!("the kubeconfig {}", file.display()),
        source: Box::new(source),
    };
    let read = Kubeconfig::read_from(file).map_err(unusable)?;
    let options = KubeConfigOptions {
        context: config.context.clone(),
        ..KubeConfigOptions::default()
    };
    kube::Config::from_custom_kubeconfig(read, &options)
        .await
        .map_err(unusable)
}
