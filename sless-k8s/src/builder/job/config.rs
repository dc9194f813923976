//! Settings of builds that are Jobs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sless_core::Quantity;

use crate::NetworkConfig;

/// Settings of builds that are Jobs in the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BuildsConfig {
    /// What builds where something is to be installed.
    pub tool: BuildTool,
    /// The namespace of all builds. It has to be there: nothing here makes it, and its Pod Security level
    /// has to allow what the tool needs (see [`BuildKitMode`]).
    pub namespace: String,
    /// Of BuildKit.
    pub buildkit: BuildKitConfig,
    /// Of kaniko.
    pub kaniko: KanikoConfig,
    /// Where layers are kept between the builds of a function.
    pub cache: BuildCache,
    /// What pods of builds call the registry of images, with its port, where that is neither what nodes
    /// call it nor what this process does.
    pub registry: Option<String>,
    /// A Secret of type `kubernetes.io/dockerconfigjson` in the namespace of builds, with which Jobs pull
    /// and push. Where absent, each Job gets the credentials that this process has for the registries that
    /// it needs, in a Secret of its own that goes with it.
    pub registry_secret: Option<String>,
    /// Variables for `pip` and `npm`, such as `PIP_INDEX_URL` or `NPM_CONFIG_REGISTRY`.
    pub env: BTreeMap<String, String>,
    /// The same, whose value is in a Secret of the namespace of builds: variable to name of the Secret,
    /// whose key is the variable. With BuildKit they leave no trace in the image; kaniko writes them into
    /// its history.
    pub secret_env: BTreeMap<String, String>,
    /// Builds at once; more wait.
    pub at_once: usize,
    /// The most memory of a build.
    pub memory: Quantity,
    /// How much of it is reserved.
    pub memory_request: Quantity,
    /// The most processor share of a build.
    pub cpu: Quantity,
    /// How much of it is reserved.
    pub cpu_request: Quantity,
    /// The most room on the node's disk that a build takes.
    pub disk: Quantity,
    /// How long a build waits for the image of its tool where that cannot be pulled, in milliseconds.
    pub image_patience_ms: u64,
    /// How long a build waits for its pod until it is asked why there is none, in milliseconds.
    pub pod_patience_ms: u64,
    /// How long the end of a log is waited for once its pod has ended, in milliseconds.
    pub log_patience_ms: u64,
    /// How long it may take until an ended Job and its pod are gone, in milliseconds.
    pub remove_ms: u64,
    /// When the cluster removes a Job that has ended and that nobody looked after, in seconds.
    pub kept_seconds: u32,
    /// The service account. No token of it is mounted.
    pub service_account: String,
    /// Secrets with which nodes pull the image of the tool.
    pub image_pull_secrets: Vec<String>,
    /// Labels that a node must have.
    pub node_selector: BTreeMap<String, String>,
    /// Taints that are tolerated, as in a pod's `tolerations`.
    pub tolerations: Vec<serde_json::Value>,
    /// The class of the container runtime.
    pub runtime_class: Option<String>,
    /// The priority class.
    pub priority_class: Option<String>,
    /// Where builds may connect to. Who may call is not read: nobody calls a build.
    pub network: NetworkConfig,
}

impl Default for BuildsConfig {
    fn default() -> Self {
        Self {
            tool: BuildTool::default(),
            namespace: "sless-builds".to_owned(),
            buildkit: BuildKitConfig::default(),
            kaniko: KanikoConfig::default(),
            cache: BuildCache::default(),
            registry: None,
            registry_secret: None,
            env: BTreeMap::new(),
            secret_env: BTreeMap::new(),
            at_once: 4,
            memory: quantity("2Gi"),
            memory_request: quantity("256Mi"),
            cpu: quantity("2"),
            cpu_request: quantity("100m"),
            disk: quantity("10Gi"),
            image_patience_ms: 10_000,
            pod_patience_ms: 1_000,
            log_patience_ms: 5_000,
            remove_ms: 30_000,
            kept_seconds: 600,
            service_account: "default".to_owned(),
            image_pull_secrets: Vec::new(),
            node_selector: BTreeMap::new(),
            tolerations: Vec::new(),
            runtime_class: None,
            priority_class: None,
            network: NetworkConfig::default(),
        }
    }
}

/// A quantity that is written here.
#[allow(clippy::expect_used, reason = "the texts are constants of this file")]
fn quantity(text: &'static str) -> Quantity {
    text.parse().expect("a constant quantity is well formed")
}

/// What builds images in a Job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum BuildTool {
    /// BuildKit.
    #[default]
    BuildKit,
    /// kaniko, or what takes the same arguments.
    Kaniko,
}

/// Settings of BuildKit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BuildKitConfig {
    /// The image: one with `buildkitd`, `buildctl` and `/bin/sh`, and with RootlessKit where the mode is
    /// [`BuildKitMode::Rootless`].
    pub image: String,
    /// What a build may do on its node.
    pub mode: BuildKitMode,
}

impl Default for BuildKitConfig {
    fn default() -> Self {
        Self {
            image: "moby/buildkit:v0.34.2-rootless".to_owned(),
            mode: BuildKitMode::default(),
        }
    }
}

/// What a build by BuildKit may do on its node. It makes containers in its container, for which the
/// *restricted* and *baseline* levels of the Pod Security Standards leave no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum BuildKitMode {
    /// As user 1000, without seccomp and AppArmor profiles. What is installed can see the processes of
    /// its own build, and no more.
    #[default]
    Rootless,
    /// As the root of a user namespace of its own (`hostUsers: false`), which is nobody on the node. What
    /// is installed is held apart from BuildKit, too. Needs nodes with user namespaces.
    UserNamespace,
    /// As the node's root. For nodes where neither of the others works.
    Privileged,
}

/// Settings of kaniko.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KanikoConfig {
    /// The image. There is no default: upstream is archived, and which of its successors to trust is the
    /// operator's choice.
    pub image: String,
}

/// Where layers are kept between builds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum BuildCache {
    /// In the registry, for each function apart, so that no user can slip another one a layer.
    #[default]
    Registry,
    /// Nowhere.
    None,
}
