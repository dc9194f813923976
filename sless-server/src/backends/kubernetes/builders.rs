//! What makes images: without a Job where nothing is to be installed, else with one.

use std::{collections::BTreeSet, sync::Arc};

use sless_core::{Clock, Error, source::SourceLimits};
use sless_k8s::{Cluster, Credentials, KubeBuilder, LayerBuilderConfig, RegistryConfig};

use crate::{
    StartError,
    settings::{KubernetesSettings, RegistrySettings},
};

/// Where the images of functions are, below the registry.
const FOLDER: &str = "functions";

/// The builder of images. What its Jobs are like is in the configuration of the cluster.
pub(super) fn open(
    given: &KubernetesSettings,
    cluster: &Cluster,
    limits: SourceLimits,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<KubeBuilder>, StartError> {
    let registry = &given.registry;
    let images = LayerBuilderConfig {
        repository: format!("{}/{FOLDER}", registry.host),
        pull_repository: registry
            .pull_host
            .as_ref()
            .map(|host| format!("{host}/{FOLDER}")),
        limits,
        registry: connection(registry),
        ..LayerBuilderConfig::default()
    };
    let builder = KubeBuilder::new(cluster.clone(), images, clock.clone()).map_err(named)?;
    Ok(Arc::new(builder))
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
    let message = format!(
        "REGISTRY_HOST or SLESS_KUBERNETES_FILE: {}",
        error.message()
    );
    Error::new(error.kind(), message)
        .with_reason(error.reason().to_owned())
        .with_source(error)
        .into()
}
