//! Settings of the connection to registries.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use serde::{Deserialize, Serialize};

/// Settings of the connection to registries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RegistryConfig {
    /// Who to be at which registry; the key is its host, with the port where it has one.
    pub credentials: BTreeMap<String, Credentials>,
    /// Registries that speak plain HTTP, by host and port.
    pub plain_http: BTreeSet<String>,
    /// Other addresses of registries, by the host in an image's name: for a registry that nodes call by
    /// another name than this process does.
    pub addresses: BTreeMap<String, String>,
    /// How long a connection may take, in milliseconds.
    pub connect_timeout_ms: u64,
    /// How long one request may take, its body included, in milliseconds.
    pub request_timeout_ms: u64,
    /// The longest manifest, or configuration of an image, in bytes.
    pub manifest_bytes: usize,
    /// The longest layer of a base image that is copied from another registry, in bytes.
    pub layer_bytes: u64,
}

impl Default for RegistryConfig {
    fn default() -> Self {
        Self {
            credentials: BTreeMap::new(),
            plain_http: BTreeSet::new(),
            addresses: BTreeMap::new(),
            connect_timeout_ms: 5_000,
            request_timeout_ms: 120_000,
            manifest_bytes: 4 << 20,
            layer_bytes: 4 << 30,
        }
    }
}

impl RegistryConfig {
    pub(super) const fn connect_timeout(&self) -> Duration {
        Duration::from_millis(self.connect_timeout_ms)
    }

    pub(super) const fn request_timeout(&self) -> Duration {
        Duration::from_millis(self.request_timeout_ms)
    }
}

/// A name and a password, or a token in its place.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credentials {
    /// The name.
    pub username: String,
    /// The password.
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_hides_passwords() {
        let mut config = RegistryConfig::default();
        let credentials = Credentials {
            username: "ada".to_owned(),
            password: "hunter2".to_owned(),
        };
        config
            .credentials
            .insert("registry.example".to_owned(), credentials);
        let shown = format!("{config:?}");
        assert!(
            shown.contains("ada") && !shown.contains("hunter2"),
            "{shown}"
        );
    }
}
