//! KEDA's HTTP add-on in the place of sless's own sleep, where it is installed and asked for.
//!
//! The add-on itself is not here: its custom resource is, as far as it is written, and something that
//! answers in the place of its interceptor.

use std::{sync::Arc, time::Duration};

use http::header::HOST;
use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::Namespace as KubeNamespace},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DynamicObject, ListParams, Patch, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};
use sless_core::{
    Artifact, ArtifactKind, Body, CallContext, Digest, Entrypoint, FunctionId, Name, Runtime,
    Scheduler as _, Uid, Workload, WorkloadPhase,
};
use sless_k8s::{Cluster, KedaConfig, KubeScheduler};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::{
    operator::{client, eventually, namespace},
    plane::Plane,
};

/// The fields of KEDA's definition that are written here, closed to all others.
fn definition() -> CustomResourceDefinition {
    let integer = json!({"type": "integer", "format": "int32"});
    let text = json!({"type": "string"});
    let spec = json!({
        "type": "object",
        "required": ["scaleTargetRef"],
        "properties": {
            "hosts": {"type": "array", "items": text},
            "pathPrefixes": {"type": "array", "items": text},
            "replicas": {"type": "object", "properties": {"min": integer, "max": integer}},
            "scaleTargetRef": {
                "type": "object",
                "required": ["service", "port"],
                "properties": {"apiVersion": text, "kind": text, "name": text, "service": text, "port": integer},
            },
            "scaledownPeriod": integer,
            "scalingMetric": {
                "type": "object",
                "properties": {"concurrency": {"type": "object", "properties": {"targetValue": {"type": "integer"}}}},
            },
        },
    });
    serde_json::from_value(json!({
        "metadata": {"name": "httpscaledobjects.http.keda.sh"},
        "spec": {
            "group": "http.keda.sh",
            "scope": "Namespaced",
            "names": {
                "kind": "HTTPScaledObject", "listKind": "HTTPScaledObjectList",
                "plural": "httpscaledobjects", "singular": "httpscaledobject",
            },
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    }))
    .expect("a definition")
}

pub(crate) fn workload() -> Workload {
    let function = FunctionId {
        namespace: namespace("keda"),
        name: Name::new("scaled").expect("a label"),
        uid: Uid::random(),
    };
    let digest = Digest::of("x");
    Workload {
        function,
        generation: 1,
        artifact: Artifact {
            kind: ArtifactKind::Image,
            reference: format!("registry.invalid/x@{digest}"),
            digest,
        },
        runtime: Runtime::Python311,
        entrypoint: Entrypoint::default(),
        env: Default::default(),
        replicas: 1,
        max_replicas: 5,
        timeout: Duration::from_secs(30),
        memory: None,
        cpu: None,
        concurrency: 4,
        idle: Some(Duration::from_secs(90)),
        built_at: jiff::Timestamp::UNIX_EPOCH,
    }
}

/// Answers every request with its own head, as text.
async fn interceptor() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    if stream.read_exact(&mut byte).await.is_err() {
                        return;
                    }
                    head.push(byte[0]);
                }
                let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", head.len());
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.write_all(&head).await;
            });
        }
    });
    address
}

async fn scheduler(plane: &Plane, interceptor: &str) -> Arc<KubeScheduler> {
    let mut config = plane.config();
    config.scheduler.keda = Some(KedaConfig {
        interceptor: interceptor.to_owned(),
        ..KedaConfig::default()
    });
    let cluster = Cluster::connect(config).await.expect("settings");
    Arc::new(KubeScheduler::connect(cluster).await.expect("a scheduler"))
}

async fn scaled(client: &Client) -> Vec<DynamicObject> {
    let kind = GroupVersionKind::gvk("http.keda.sh", "v1alpha1", "HTTPScaledObject");
    let kind = ApiResource::from_gvk_with_plural(&kind, "httpscaledobjects");
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "sless-fn-keda", &kind);
    api.list(&ListParams::default())
        .await
        .expect("listed")
        .items
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/control-plane"]
async fn keda_scales_where_it_is_installed_and_asked_for() {
    let plane = Plane::start("keda");
    let client = client(&plane.kubeconfig).await;
    let place = json!({"metadata": {"name": "sless-fn-keda"}});
    let place: KubeNamespace = serde_json::from_value(place).expect("a namespace");
    let namespaces: Api<KubeNamespace> = Api::all(client.clone());
    let params = PostParams::default();
    namespaces.create(&params, &place).await.expect("created");
    let address = interceptor().await;
    let mut workload = workload();

    // Asked for, and not there: sless scales by itself.
    let alone = scheduler(&plane, &address).await;
    alone.apply(&workload).await.expect("applied");
    alone.remove(&workload.function).await.expect("removed");
    alone.shutdown().await;

    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions
        .create(&params, &definition())
        .await
        .expect("created");
    eventually("the definition is served", async || {
        let found = client
            .list_api_group_resources("http.keda.sh/v1alpha1")
            .await;
        let served = found.is_ok_and(|found| !found.resources.is_empty());
        if served {
            Ok(())
        } else {
            Err("not yet".to_owned())
        }
    })
    .await;
    let scheduler = scheduler(&plane, &address).await;
    workload.function.uid = Uid::random();
    scheduler.apply(&workload).await.expect("applied");
    let found = scaled(&client).await;
    assert_eq!(found.len(), 1, "{found:?}");
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "sless-fn-keda");
    let deployment = deployments.list(&Default::default()).await.expect("listed");
    let name = deployment.items[0].name_any();
    let host = format!("{name}.sless-fn-keda.functions.sless.internal");
    let spec: &Value = &found[0].data["spec"];
    assert_eq!(spec["hosts"], json!([host]));
    assert_eq!(spec["replicas"], json!({"min": 0, "max": 5}));
    assert_eq!(spec["scaledownPeriod"], 90);
    assert_eq!(spec["scalingMetric"]["concurrency"]["targetValue"], 4);
    let target = &spec["scaleTargetRef"];
    assert_eq!(
        (&target["name"], &target["service"], &target["port"]),
        (&json!(name), &json!(name), &json!(80))
    );

    // How many copies there are is KEDA's to say; an apply changes neither that nor anything else.
    let three = json!({"spec": {"replicas": 3}});
    let patched = deployments
        .patch(&name, &Default::default(), &Patch::Merge(&three))
        .await;
    let version = patched.expect("scaled").resource_version();
    for _ in 0..3 {
        scheduler.apply(&workload).await.expect("applied");
    }
    let after = deployments.get(&name).await.expect("there");
    assert_eq!(
        (
            after.spec.and_then(|spec| spec.replicas),
            &after.metadata.resource_version
        ),
        (Some(3), &version)
    );
    let versions = |all: &[DynamicObject]| {
        all.iter()
            .map(|object| object.resource_version())
            .collect::<Vec<_>>()
    };
    assert_eq!(versions(&scaled(&client).await), versions(&found));

    // Calls go through the interceptor, which tells functions apart by the host.
    let invoker = scheduler
        .invoker(&workload.function)
        .await
        .expect("an invoker");
    let mut request = http::Request::new(Body::empty());
    *request.uri_mut() = "/a?b".parse().expect("a target");
    request
        .headers_mut()
        .insert(HOST, http::HeaderValue::from_static("outside.example"));
    let context = CallContext::new("id", Duration::from_secs(10));
    let answer = invoker.invoke(request, &context).await.expect("an answer");
    let head = answer.into_body().bytes(1 << 16).await.expect("a body");
    let head = String::from_utf8_lossy(&head).to_lowercase();
    assert!(head.starts_with("get /a?b http/1.1"), "{head}");
    assert!(head.contains(&format!("host: {host}\r\n")), "{head}");
    assert!(
        head.contains("x-forwarded-host: outside.example\r\n"),
        "{head}"
    );

    // One that neither sleeps nor scales is none of KEDA's; and nothing is left of one that is removed.
    let (idle, most) = (workload.idle, workload.max_replicas);
    (workload.idle, workload.max_replicas) = (Some(Duration::ZERO), 1);
    workload.generation += 1;
    scheduler.apply(&workload).await.expect("applied");
    eventually("KEDA lets go", async || {
        scheduler.apply(&workload).await.expect("applied");
        let left = scaled(&client).await.len();
        if left == 0 {
            Ok(())
        } else {
            Err(format!("{left} left"))
        }
    })
    .await;
    (workload.idle, workload.max_replicas) = (idle, most);
    workload.generation += 1;
    scheduler.apply(&workload).await.expect("applied");
    assert_eq!(scaled(&client).await.len(), 1);
    let receipt = scheduler.remove(&workload.function).await.expect("removed");
    let kinds: Vec<_> = receipt
        .removed
        .iter()
        .map(|removed| &*removed.kind)
        .collect();
    assert!(kinds.contains(&"http_scaled_object"), "{receipt:?}");
    assert!(scaled(&client).await.is_empty());
    let status = scheduler
        .status(&workload.function)
        .await
        .expect("a status");
    assert_eq!(status.phase, WorkloadPhase::Absent);
    scheduler.shutdown().await;
    plane.down();
}
