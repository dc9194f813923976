//! The backends of sless for Kubernetes.
//!
//! [`Cluster`] is the connection and its settings; every backend is made from it. What is wanted is kept
//! in custom resources of `sless.io/v1alpha1` ([`KubeCatalog`]), and [`KubeLease`] says who may act.

mod builder;
mod catalog;
mod client;
mod config;
mod crd;
mod error;
mod labels;
mod lease;
mod names;
mod namespaces;
mod pod_log;
mod registry;
mod scheduler;

pub use builder::{
    BuildCache, BuildKitBuilder, BuildKitConfig, BuildKitMode, BuildTool, BuildsConfig,
    KanikoBuilder, KanikoConfig, KubeBuilder, LayerBuilder, LayerBuilderConfig,
};
pub use catalog::KubeCatalog;
pub use client::Cluster;
pub use config::{CatalogConfig, K8sConfig, LeaseConfig, NamespacesConfig};
pub use crd::crd_manifests;
pub use lease::KubeLease;
pub use registry::{Credentials, RegistryConfig};
pub use scheduler::{
    CronJobConfig, IngressConfig, KedaConfig, KubeScheduler, NetworkConfig, PodConfig,
    SchedulerConfig, ServiceKind,
};
