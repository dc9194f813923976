//! What the cluster keeps for nobody.

use std::sync::Arc;

use k8s_openapi::api::{
    apps::v1::Deployment,
    batch::v1::Job,
    core::v1::{ConfigMap, Service},
};
use kube::api::PostParams;
use serde_json::{Value, json};
use sless_core::{
    Artifact, ArtifactKind, Backends, Catalog as _, CatalogExt as _, Digest, Function, FunctionId,
    FunctionSpec, Held, Metadata, Name, Runtime, Scheduler as _, Workload,
};
use sless_k8s::{Cluster, KubeCatalog};

use super::{
    place::Place,
    world::{self, eventually},
};

const GHOST: &str = "6f9619ff-8b86-4d01-b42d-00c04fc964ff";

/// An object as it would have been made for a function or a job that is not there.
fn of_nobody(place: &Place, kind: &str, rest: Value) -> Value {
    let labels = json!({
        "app.kubernetes.io/managed-by": "sless",
        "sless.io/kind": kind,
        "sless.io/namespace": place.namespace.as_str(),
        "sless.io/name": "ghost",
        "sless.io/uid": GHOST,
    });
    let mut object = json!({"metadata": {"name": "ghost", "labels": labels}});
    object
        .as_object_mut()
        .expect("an object")
        .extend(rest.as_object().expect("an object").clone());
    object
}

async fn make<K>(place: &Place, object: Value)
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + serde::Serialize
        + serde::de::DeserializeOwned
        + std::fmt::Debug,
{
    let object: K = serde_json::from_value(object).expect("an object");
    let made = place.api().create(&PostParams::default(), &object).await;
    made.expect("made");
}

fn workload(function: &Function) -> Workload {
    let digest = Digest::of("nothing");
    Workload {
        function: FunctionId::of(&function.metadata),
        generation: 1,
        artifact: Artifact {
            kind: ArtifactKind::Image,
            reference: format!("registry.invalid/x@{digest}"),
            digest,
        },
        runtime: Runtime::Python311,
        entrypoint: Default::default(),
        env: Default::default(),
        replicas: 0,
        max_replicas: 0,
        timeout: std::time::Duration::from_secs(5),
        memory: None,
        cpu: None,
        concurrency: 1,
        idle: None,
        built_at: jiff::Timestamp::UNIX_EPOCH,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/up"]
async fn what_was_made_for_nobody_is_listed_and_what_is_wanted_is_not() {
    let mark = world::mark();
    let config = world::config(&mark);
    let place = Place::of(mark, config.clone()).await;
    let catalog = KubeCatalog::new(Cluster::connect(config).await.expect("settings"));
    catalog
        .ensure_namespace(&place.namespace)
        .await
        .expect("a namespace");
    let name = Name::new("live").expect("a label");
    let live = Function::new(
        Metadata::new(place.namespace.clone(), name),
        FunctionSpec::new(Runtime::Python311),
    );
    let live = catalog.add(live).await.expect("a function");
    place
        .scheduler
        .apply(&workload(&live))
        .await
        .expect("applied");
    let selector = json!({"matchLabels": {"app": "ghost"}});
    let pod = json!({
        "metadata": {"labels": {"app": "ghost"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "x", "image": "registry.invalid/x"}]},
    });
    let mut long = pod.clone();
    long["spec"]["restartPolicy"] = json!("Always");
    let spec = json!({"spec": {"replicas": 0, "selector": selector, "template": long}});
    make::<Deployment>(&place, of_nobody(&place, "Function", spec)).await;
    let spec = json!({"spec": {"clusterIP": "None", "selector": {"app": "ghost"}}});
    make::<Service>(&place, of_nobody(&place, "Function", spec)).await;
    let spec = json!({"spec": {"suspend": true, "template": pod}});
    make::<Job>(&place, of_nobody(&place, "FunctionJob", spec)).await;
    let data = json!({"data": {"event": "{}"}});
    make::<ConfigMap>(&place, of_nobody(&place, "FunctionJob", data)).await;

    let kinds = |items: &[Held]| {
        let kinds = items.iter().map(|held| held.kind.clone());
        kinds.collect::<Vec<_>>()
    };
    let backends = Backends {
        catalog: Arc::new(catalog),
        scheduler: Arc::new(place.scheduler),
        ..Backends::in_memory()
    };
    let prefix = place.namespace.as_str();
    let found = backends.orphans(prefix).await.expect("looked");
    assert_eq!(
        kinds(&found.items),
        ["config_map", "deployment", "job", "service"],
        "{found:?}"
    );
    let ghost = format!("{}/ghost", place.namespace.workloads());
    for held in &found.items {
        let uid = held.uid.as_ref().map(|uid| uid.as_str());
        assert_eq!((&*held.name, uid), (&*ghost, Some(GHOST)), "{held:?}");
        assert!(held.since.is_some(), "{held:?}");
    }
    // What belongs to others is nobody's business here.
    let others = backends.orphans("no-such-prefix").await.expect("looked");
    assert!(others.items.is_empty(), "{others:?}");

    // A function that is gone by other hands leaves what was made for it.
    let key = sless_core::Resource::key(&live);
    let gone = backends.catalog.delete(&key, &Default::default()).await;
    gone.expect("deleted");
    eventually("the Deployment of a lost function is listed", async || {
        let found = backends.orphans(prefix).await.expect("looked");
        let of_live = found
            .items
            .iter()
            .filter(|held| held.uid.as_ref() == Some(&live.metadata.uid));
        match of_live.count() {
            0 => Err(format!("{found:?}")),
            _ => Ok(()),
        }
    })
    .await;
    world::remove_namespaces(&place.mark).await;
}
