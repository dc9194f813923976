//! Health, readiness, metrics, the OpenAPI document, and paths that lead nowhere.

use std::collections::BTreeSet;

use crate::support::{Server, until};

#[tokio::test]
async fn a_server_is_alive_and_ready() {
    let server = Server::start().await;
    server.client.health().await.unwrap();
    until("ready", async || {
        server.client.readiness().await.unwrap().ready
    })
    .await;
    let readiness = server.client.readiness().await.unwrap();
    assert!(
        readiness.parts.values().all(|part| part == "ok"),
        "{readiness:?}"
    );
    server.state.drain();
    let readiness = server.client.readiness().await.unwrap();
    assert!(!readiness.ready);
    assert_eq!(readiness.parts["server"], "draining");
}

#[tokio::test]
async fn metrics_count_requests_and_calls_without_naming_functions() {
    let server = Server::with_hello().await;
    server.ask("GET", &server.hello(""), &[]).await;
    server.ask("GET", &server.hello("/fail"), &[]).await;
    until("counted", async || {
        let metrics = server.client.metrics().await.unwrap();
        metrics.contains(r#"sless_calls_total{origin="http",outcome="ok"} 1"#)
            && metrics.contains(r#"sless_calls_total{origin="http",outcome="failed"} 1"#)
    })
    .await;
    let metrics = server.client.metrics().await.unwrap();
    let route = r#"route="/v1/namespaces/{ns}/functions/{name}/upload",method="POST",status="202""#;
    assert!(metrics.contains(route), "{metrics}");
    assert!(
        metrics.contains("sless_call_duration_seconds_bucket"),
        "{metrics}"
    );
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
    for absent in ["hello", &server.namespace] {
        assert!(!metrics.contains(absent), "{absent} in {metrics}");
    }
}

#[tokio::test]
async fn the_document_has_every_route_of_the_contract() {
    let server = Server::start().await;
    let document = server.client.openapi().await.unwrap();
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    let mut routes = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            routes.insert(format!("{} {path}", method.to_uppercase()));
        }
    }
    let base = "/v1/namespaces/{ns}";
    let mut expected: BTreeSet<_> = [
        format!("POST {base}/ensure"),
        format!("POST {base}/functions/{{name}}/upload"),
        format!("GET {base}/functions/{{name}}/source"),
        format!("GET {base}/functions/{{name}}/source.zip"),
        format!("GET {base}/functions/{{name}}/logs"),
        format!("GET {base}/functions/{{name}}/invocations"),
        format!("GET {base}/jobs/{{name}}/logs"),
        format!("GET {base}/triggers/{{name}}/dead-letters"),
        format!("DELETE {base}/triggers/{{name}}/dead-letters"),
        format!("POST {base}/triggers/{{name}}/dead-letters/redrive"),
        format!("POST {base}/queues/{{queue}}/messages"),
    ]
    .into();
    for kind in ["functions", "triggers", "jobs"] {
        for method in ["GET", "POST"] {
            expected.insert(format!("{method} {base}/{kind}"));
        }
        for method in ["GET", "PATCH", "DELETE"] {
            expected.insert(format!("{method} {base}/{kind}/{{name}}"));
        }
    }
    assert_eq!(routes, expected);
    assert_eq!(
        document["components"]["securitySchemes"]["token"]["scheme"],
        "bearer"
    );
    for schema in [
        "CreateFunction",
        "Function",
        "Trigger",
        "Job",
        "ErrorBody",
        "Receipt",
    ] {
        assert!(
            document["components"]["schemas"][schema].is_object(),
            "{schema}"
        );
    }
}

#[tokio::test]
async fn a_path_or_method_that_is_not_there_has_a_word() {
    let server = Server::start().await;
    let answer = server.ask("GET", "/v2/nothing", &[]).await;
    assert_eq!(
        (answer.status, answer.error().code.as_str()),
        (404, "no_such_route")
    );
    let answer = server.ask_json("PUT", "/functions", "{}").await;
    assert_eq!(
        (answer.status, answer.error().code.as_str()),
        (405, "method_not_allowed")
    );
    assert!(!answer.values("allow").is_empty(), "{answer:?}");
}

#[tokio::test]
async fn everything_under_v1_needs_a_token_and_the_rest_none() {
    let server = Server::start().await;
    let namespace = &server.namespace;
    for (method, path) in [
        ("POST", "ensure"),
        ("GET", "functions"),
        ("GET", "functions/x"),
        ("POST", "functions/x/upload"),
        ("GET", "functions/x/source"),
        ("GET", "functions/x/source.zip"),
        ("GET", "functions/x/logs"),
        ("GET", "functions/x/invocations"),
        ("GET", "triggers"),
        ("DELETE", "triggers/x/dead-letters"),
        ("POST", "queues/x/messages"),
        ("GET", "jobs/x"),
        ("GET", "jobs/x/logs"),
    ] {
        let path = format!("/v1/namespaces/{namespace}/{path}");
        let answer = server.ask(method, &path, &[]).await;
        assert_eq!(
            (answer.status, answer.error().code.as_str()),
            (401, "token_missing"),
            "{path}"
        );
        let token = format!("authorization: Bearer {}", server.token("mallory"));
        let answer = server.ask(method, &path, &[&token]).await;
        assert_eq!(
            (answer.status, answer.error().code.as_str()),
            (403, "namespace_denied"),
            "{path}"
        );
    }
    for path in ["/healthz", "/metrics", "/openapi.json"] {
        assert_eq!(server.ask("GET", path, &[]).await.status, 200, "{path}");
    }
}
