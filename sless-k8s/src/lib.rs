//! The backends of sless for Kubernetes.
//!
//! [`Cluster`] is the connection and its settings; every backend is made from it. What is wanted is kept
//! in custom resources of `sless.io/v1alpha1` ([`KubeCatalog`]), and [`KubeLease`] says who may act.

mod builder;
mod client;
mod config;
mod error;
mod labels;
mod names;
mod registry;

pub use builder::{LayerBuilder, LayerBuilderConfig};
pub use client::Cluster;
pub use config::{CatalogConfig, K8sConfig, LeaseConfig, NamespacesConfig};
pub use registry::{Credentials, RegistryConfig};
