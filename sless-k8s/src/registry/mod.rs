//! A small client of container registries (OCI distribution specification 1.1): what a builder needs to
//! read a base image, put a layer on it, and take the result away again.
//!
//! The crate `oci-client` was looked at first: it has no deletion, which pruning builds is made of.

mod auth;
mod client;
mod config;
mod error;
mod manifest;
mod reference;
mod transport;

pub(crate) use client::Blob;
pub use config::{Credentials, RegistryConfig};
pub(crate) use manifest::{Descriptor, ImageConfig, Index, Manifest, Parsed, media};
pub(crate) use reference::Reference;
pub(crate) use transport::Registry;
