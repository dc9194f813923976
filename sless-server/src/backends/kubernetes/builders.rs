//! What makes images. Of several builders the engine takes the first that can.

use std::{collections::BTreeSet, sync::Arc};

use sless_core::{Builder, Clock, Error, source::SourceLimits};
use sless_k8s::{Cluster, Credentials, LayerBuilder, LayerBuilderConfig, RegistryConfig};

use crate::{
    StartError,
    settings::{KubernetesSettings, RegistrySettings},
};

/// Where the images of functions are, below the registry.
const FOLDER: &str = "functions";

/// The builders, in the order in which they are asked.
#[derive(Debug)]
pub(super) struct Builders {
    layer: Arc<LayerBuilder>,
}

impl Builders {
    pub(super) fn all(&self) -> Vec<Arc<dyn Builder>> {
        vec![self.layer.clone()]
    }

    pub(super) async fn shutdown(&self) {
        self.layer.shutdown().await;
    }
}

pub(super) fn open(
    given: &KubernetesSettings,
    _cluster: &Cluster,
    limits: SourceLimits,
    clock: &Arc<dyn Clock>,
) -> Result<Builders, StartError> {
    let registry = &given.registry;
    let config = LayerBuilderConfig {
        repository: format!("{}/{FOLDER}", registry.host),
        pull_repository: registry
            .pull_host
            .as_ref()
            .map(|host| format!("{host}/{FOLDER}")),
        limits,
        registry: connection(registry),
        ..LayerBuilderConfig::default()
    };
    let layer = LayerBuilder::new(config, clock.clone()).map_err(named)?;
    Ok(Builders {
        layer: Arc::new(layer),
    })
}

/// How to speak with the registry.
fn connection(registry: &RegistrySettings) -> RegistryConfig {
    let host = registry.host.split('/').next().unwrap_or_default();
    let mut config = RegistryConfig::default();
    if registry.plain_http {
        config.plain_http = BTreeSet::from([host.to_owned()]);
    }
    if let Some((username, password)) = &registry.login {
        let credentials = Credentials {
            username: username.clone(),
            password: password.expose().to_owned(),
        };
        config.credentials.insert(host.to_owned(), credentials);
    }
    config
}

fn named(error: Error) -> StartError {
    let message = format!("REGISTRY_HOST: {}", error.message());
    Error::new(error.kind(), message)
        .with_reason(error.reason().to_owned())
        .with_source(error)
        .into()
}
