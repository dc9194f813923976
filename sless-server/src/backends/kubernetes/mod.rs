//! A Kubernetes cluster: custom resources, Deployments and Jobs, images in a registry.
//!
//! What the cluster has no part for comes from services: sources from S3, queues from RabbitMQ, the log of
//! calls from PostgreSQL. Each that is missing is told at the start.

mod builders;
mod config;
mod files;
mod no_broker;
mod part;

use std::sync::Arc;

use sless_core::{Backends, Catalog as _, Clock, Error, ErrorKind, Kind, ListQuery, SystemClock};
use sless_k8s::{Cluster, KubeCatalog, KubeLease, KubeScheduler};

use super::Assembled;
use crate::{
    StartError,
    settings::{KubernetesSettings, Role, Settings},
};

/// Opens everything that a cluster has.
///
/// The definitions of the custom resources are looked for and not made: whoever installs them needs rights
/// over the whole cluster, which a server that runs for months should not have.
pub(super) async fn open(settings: &Settings) -> Result<Assembled, StartError> {
    let Some(given) = &settings.kubernetes else {
        let message = "SLESS_BACKEND is kubernetes, and its settings were not read";
        return Err(Error::internal(message).into());
    };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let config = config::of(settings, given)?;
    let system_namespace = config.lease.namespace.clone();
    let cluster = Cluster::connect(config).await;
    let cluster = cluster.map_err(|error| named(given, error))?;
    let catalog = KubeCatalog::new(cluster.clone());
    definitions_are_there(&catalog)
        .await
        .map_err(|error| named(given, error))?;
    if settings.has_role(Role::Operator) || settings.has_role(Role::Dispatcher) {
        leases_have_a_place(&cluster).await?;
    }
    let limits = crate::app::source_limits(&settings.limits);
    let builder = builders::open(given, &cluster, limits, &clock)?;
    let scheduler = KubeScheduler::connect(cluster.clone()).await;
    let scheduler = Arc::new(scheduler.map_err(|error| named(given, error))?);
    let backends = Backends {
        catalog: Arc::new(catalog),
        builders: vec![builder.clone()],
        scheduler: scheduler.clone(),
        cron: scheduler.cron(),
        dispatcher: Arc::new(no_broker::NoBroker),
        publisher: None,
        invocations: None,
        lease: Some(Arc::new(KubeLease::new(cluster.clone(), clock.clone()))),
        // The storage is put in below, or by S3.
        ..Backends::in_memory_on(clock)
    };
    tracing::info!(
        ?cluster,
        system_namespace,
        registry = given.registry.host,
        ingress = given.ingress.as_ref().map(|ingress| &*ingress.host),
        namespace_prefix = given.namespace_prefix,
        "functions run in Kubernetes"
    );
    // What was handed to the cluster before would fire beside the engine.
    let retires = scheduler.cron().is_none() && settings.has_role(Role::Operator);
    if retires {
        part::retire_cron_jobs(&scheduler)
            .await
            .map_err(|error| named(given, error))?;
    }
    let mut assembled = Assembled::new(backends);
    assembled
        .namespace_prefix
        .clone_from(&cluster.config().catalog.namespace_prefix);
    if settings.services.s3.is_none() {
        files::put_in(settings, &mut assembled).await?;
    }
    if settings.services.amqp_url.is_none() {
        tracing::warn!("RABBITMQ_URL is not set: event triggers have no queues");
    }
    let part = part::KubernetesPart::new(cluster, scheduler, builder);
    assembled.add(if retires { part.retiring() } else { part });
    Ok(assembled)
}

/// Asks for one object of each kind, which is what everything else here will do.
async fn definitions_are_there(catalog: &KubeCatalog) -> Result<(), Error> {
    for kind in Kind::ALL {
        catalog.list(&ListQuery::all(kind).with_limit(1)).await?;
    }
    Ok(())
}

/// Leases are made in a namespace that has to be there. Where this process may not look, the first lease
/// tells.
async fn leases_have_a_place(cluster: &Cluster) -> Result<(), Error> {
    match cluster.has_lease_namespace().await {
        Ok(true) => Ok(()),
        Ok(false) => {
            let name = &cluster.config().lease.namespace;
            Err(Error::invalid(format!(
                "SLESS_SYSTEM_NAMESPACE is {name}, which is not there: expected a namespace for leases"
            )))
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
        Err(error) => Err(error),
    }
}

/// Names what has to be looked at.
fn named(given: &KubernetesSettings, error: Error) -> StartError {
    let from = || match &given.kubeconfig {
        Some(file) => format!("KUBECONFIG is {}", file.display()),
        None => "KUBECONFIG is not set, so that this is taken for a pod".to_owned(),
    };
    let said = error.message();
    let message = match (error.reason(), error.kind()) {
        ("crds_missing", _) => format!(
            "SLESS_BACKEND is kubernetes: {said}: expected what `kubectl apply -f deploy/crds` installs"
        ),
        (_, ErrorKind::PermissionDenied) => format!(
            "SLESS_BACKEND is kubernetes: {said}: expected the rights that the manifests of deploy/ give"
        ),
        _ => format!("{}: {said}", from()),
    };
    Error::new(error.kind(), message)
        .with_reason(error.reason().to_owned())
        .with_source(error)
        .into()
}
