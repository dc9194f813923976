//! As much of a cluster as a proxy needs: an API server that tells of one function, its Deployment and
//! its pod, and takes no write. So `sless-server` runs as it does in a cluster, and what it forwards to is
//! the server that stands behind all proxies here.
//!
//! Another process leads, it says, so that nobody here reconciles.

use std::{convert::Infallible, net::Ipv4Addr, net::SocketAddr, path::Path};

use anyhow::Result;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::{
    body::{Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

const UID: &str = "0f3ad4a4-6ac5-4c92-9d4a-9d9e7a2d5f10";
const REVISION: &str = "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";
const CREATED: &str = "2026-01-01T00:00:00Z";

/// Begins to serve, and writes the kubeconfig that leads here.
pub(crate) async fn start(pod: SocketAddr, kubeconfig: &Path) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let server = format!("http://{}", listener.local_addr()?);
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "peers",
        "clusters": [{"name": "peers", "cluster": {"server": server}}],
        "users": [{"name": "peers", "user": {}}],
        "contexts": [{"name": "peers", "context": {"cluster": "peers", "user": "peers"}}],
    });
    // JSON is YAML.
    std::fs::write(kubeconfig, config.to_string())?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service_fn(move |request: Request<Incoming>| async move {
                Ok::<_, Infallible>(answer(&request, pod))
            });
            // A client that breaks off is nothing to tell.
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    Ok(())
}

fn answer<B>(request: &Request<B>, pod: SocketAddr) -> Response<BoxBody<Bytes, Infallible>> {
    let path = request.uri().path();
    let query = request.uri().query().unwrap_or_default();
    if request.method() != Method::GET {
        return told(StatusCode::CONFLICT, &status(StatusCode::CONFLICT, path));
    }
    if query
        .split('&')
        .any(|part| part == "watch=true" || part == "watch=1")
    {
        // Nothing ever changes.
        let never = futures::stream::pending::<Result<Frame<Bytes>, Infallible>>();
        return Response::new(BodyExt::boxed(StreamBody::new(never)));
    }
    match found(path, pod) {
        Some(value) => told(StatusCode::OK, &value),
        None => told(StatusCode::NOT_FOUND, &status(StatusCode::NOT_FOUND, path)),
    }
}

/// The object or the list at a path.
fn found(path: &str, pod: SocketAddr) -> Option<Value> {
    let list = |items: Value| {
        json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "9"},
            "items": items})
    };
    let mut ends = path.rsplit('/');
    match (ends.next()?, ends.next()?) {
        ("version", "") => Some(json!({"major": "1", "minor": "36", "gitVersion": "v1.36.0",
            "gitCommit": "", "gitTreeState": "", "buildDate": CREATED, "goVersion": "",
            "compiler": "", "platform": ""})),
        ("echo", "functions") => Some(function()),
        (name, "namespaces") => Some(json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "uid": name, "resourceVersion": "1"}})),
        (name, "leases") => Some(lease(name)),
        ("functions", _) => Some(list(json!([function()]))),
        ("deployments", _) => Some(list(json!([deployment()]))),
        ("pods", _) => Some(list(json!([running(pod)]))),
        (
            "triggers" | "functionjobs" | "jobs" | "cronjobs" | "services" | "ingresses"
            | "networkpolicies",
            _,
        ) => Some(list(json!([]))),
        _ => None,
    }
}

fn metadata(name: &str) -> Value {
    json!({
        "name": name,
        "namespace": "peers",
        "uid": UID,
        "resourceVersion": "5",
        "generation": 1,
        "creationTimestamp": CREATED,
        "labels": {
            "app.kubernetes.io/managed-by": "sless",
            "sless.io/kind": "Function",
            "sless.io/namespace": "peers",
            "sless.io/name": "echo",
            "sless.io/uid": UID,
        },
        "annotations": {
            "sless.io/revision": REVISION,
            "sless.io/generation": "1",
            "sless.io/replicas": "1",
            "sless.io/max-replicas": "1",
            "sless.io/concurrency": "100",
            "sless.io/idle-ms": "0",
        },
    })
}

fn function() -> Value {
    json!({
        "apiVersion": "sless.io/v1alpha1",
        "kind": "Function",
        "metadata": metadata("echo"),
        "spec": {"runtime": "python3.11", "entrypoint": "handler.handle", "timeoutSeconds": 60,
            "concurrency": 100},
        "status": {"phase": "Ready", "observedGeneration": 1, "readyReplicas": 1,
            "serving": REVISION},
    })
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata("echo"),
        "spec": {"replicas": 1, "selector": {}, "template": {}},
        "status": {"observedGeneration": 1, "replicas": 1, "readyReplicas": 1},
    })
}

fn running(pod: SocketAddr) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata("echo-0"),
        "spec": {"containers": [{"name": "function", "image": "function"}]},
        "status": {
            "podIP": pod.ip().to_string(),
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "function", "image": "function", "imageID": "",
                "ready": true, "restartCount": 0, "state": {"running": {"startedAt": CREATED}}}],
        },
    })
}

fn lease(name: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "sless-system", "uid": name,
            "resourceVersion": "1"},
        "spec": {"holderIdentity": "another", "leaseDurationSeconds": 86_400,
            "leaseTransitions": 1},
    })
}

fn status(code: StatusCode, path: &str) -> Value {
    let reason = code.canonical_reason().unwrap_or_default().replace(' ', "");
    json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": format!("{path}: this cluster is only looked at"), "reason": reason, "code": code.as_u16()})
}

fn told(code: StatusCode, value: &Value) -> Response<BoxBody<Bytes, Infallible>> {
    let mut response = Response::new(BodyExt::boxed(Full::from(value.to_string())));
    *response.status_mut() = code;
    let json = http::HeaderValue::from_static("application/json");
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, json);
    response
}
