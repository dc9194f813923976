//! Settings, each with its default.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

/// Settings of everything here: which cluster, and how it is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct K8sConfig {
    /// A kubeconfig file. Absent in a pod: its service account, and the API server that the cluster's
    /// DNS calls `kubernetes.default.svc`.
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; its current one where absent.
    pub context: Option<String>,
    /// The name under which fields are owned (server-side apply) and changes are recorded.
    pub field_manager: String,
    /// How long a connection may take, in milliseconds.
    pub connect_timeout_ms: u64,
    /// How long the answer to one request may take, in milliseconds. Watches are not held to it.
    pub request_timeout_ms: u64,
    /// Of the catalog.
    pub catalog: CatalogConfig,
    /// Of the namespaces that `ensure_namespace` makes.
    pub namespaces: NamespacesConfig,
    /// Of the leases.
    pub lease: LeaseConfig,
    /// Of the scheduler.
    pub scheduler: crate::SchedulerConfig,
    /// Of builds that are Jobs.
    pub builds: crate::BuildsConfig,
}

impl Default for K8sConfig {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            context: None,
            field_manager: "sless".to_owned(),
            connect_timeout_ms: 5_000,
            request_timeout_ms: 30_000,
            catalog: CatalogConfig::default(),
            namespaces: NamespacesConfig::default(),
            lease: LeaseConfig::default(),
            scheduler: crate::SchedulerConfig::default(),
            builds: crate::BuildsConfig::default(),
        }
    }
}

impl K8sConfig {
    /// The defaults, with the cluster of this kubeconfig.
    pub fn with_kubeconfig(file: impl Into<PathBuf>) -> Self {
        Self {
            kubeconfig: Some(file.into()),
            ..Self::default()
        }
    }

    pub(crate) const fn request_timeout(&self) -> Duration {
        Duration::from_millis(self.request_timeout_ms)
    }
}

/// Settings of [`KubeCatalog`](crate::KubeCatalog).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CatalogConfig {
    /// What the names of all namespaces begin with that are looked after, so that several servers can
    /// share a cluster; all where empty. Objects elsewhere are not seen, and none is made there.
    pub namespace_prefix: String,
    /// The longest object, in bytes of JSON. etcd refuses requests above 1.5 MiB by default.
    pub object_bytes: usize,
    /// How long one connection of a watch may last, in seconds, until it is made anew.
    pub watch_seconds: u32,
    /// How long a watch waits for a sign of life beyond that, in seconds, until it takes its connection
    /// for dead.
    pub watch_idle_seconds: u32,
    /// The longest pause before a broken watch is taken up again, in milliseconds; the first is a
    /// sixteenth of it.
    pub watch_backoff_ms: u64,
    /// How often a deletion reads again because the object changed under it.
    pub delete_attempts: usize,
}

impl Default for CatalogConfig {
    fn default() -> Self {
        Self {
            namespace_prefix: String::new(),
            object_bytes: 1024 * 1024,
            watch_seconds: 290,
            watch_idle_seconds: 90,
            watch_backoff_ms: 2_000,
            delete_attempts: 16,
        }
    }
}

/// What a namespace gets when `ensure_namespace` makes it. Nothing here changes one that is there, and
/// nothing at all deletes one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NamespacesConfig {
    /// Further labels of both namespaces of a user: the one of resources and the one of workloads.
    pub labels: BTreeMap<String, String>,
    /// Further annotations of both.
    pub annotations: BTreeMap<String, String>,
    /// The level of Pod Security that is enforced in the namespace of workloads; empty for none.
    pub pod_security: String,
    /// The hard limits of a ResourceQuota in the namespace of workloads, such as `pods: "50"`; no
    /// quota where empty.
    pub quota: BTreeMap<String, String>,
    /// The hard limits of a ResourceQuota in the namespace of resources, such as
    /// `count/functions.sless.io: "100"`; no quota where empty.
    pub resource_quota: BTreeMap<String, String>,
    /// Whether the namespace of workloads gets a NetworkPolicy that denies everything which no other
    /// policy allows.
    pub default_deny: bool,
}

impl Default for NamespacesConfig {
    fn default() -> Self {
        Self {
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            pod_security: "restricted".to_owned(),
            quota: BTreeMap::new(),
            resource_quota: BTreeMap::new(),
            default_deny: true,
        }
    }
}

/// Settings of [`KubeLease`](crate::KubeLease).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LeaseConfig {
    /// The namespace that the Lease objects are in: the one that sless itself runs in. It has to be
    /// there.
    pub namespace: String,
}

impl Default for LeaseConfig {
    fn default() -> Self {
        Self {
            namespace: "sless-system".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_config_is_the_default() {
        let read: K8sConfig = serde_json::from_str("{}").expect("empty");
        assert_eq!(read, K8sConfig::default());
        let refused = serde_json::from_str::<K8sConfig>(r#"{"catalog":{"watch":1}}"#);
        assert!(refused.is_err(), "an unknown field is refused");
    }
}
