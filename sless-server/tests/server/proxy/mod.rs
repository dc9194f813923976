//! Which function a path means, and which fields pass.

pub(crate) mod handler;

use crate::support::Server;

#[tokio::test]
async fn whole_segments_match_and_the_tail_stays_byte_for_byte() {
    let server = Server::with_hello().await;
    server.deploy("hello-consumer").await;
    let namespace = &server.namespace;
    for (path, uri) in [
        ("hello", "/"),
        ("hello/", "/"),
        ("hello-consumer/x", "/x"),
        (
            "hello/a%2Fb//c?q=%E2%9C%93&q=2",
            "/a%2Fb//c?q=%E2%9C%93&q=2",
        ),
        ("hello//?", "//?"),
        ("hello/../x/./y", "/../x/./y"),
        ("hello?x=/fn/a/b", "/?x=/fn/a/b"),
    ] {
        let answer = server
            .ask("GET", &format!("/fn/{namespace}/{path}"), &[])
            .await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        assert_eq!(answer.json()["uri"], uri, "{path}");
    }
}

#[tokio::test]
async fn a_path_that_means_no_function_is_404_with_a_word() {
    let server = Server::with_hello().await;
    let namespace = &server.namespace;
    for path in [
        "/fn/".to_owned(),
        format!("/fn/{namespace}"),
        format!("/fn/{namespace}/"),
        format!("/fn/{namespace}/HELLO"),
        format!("/fn//{namespace}/hello"),
        format!("/fn/{namespace}/%68ello"),
        format!("/fn/{namespace}/hell"),
        format!("/fn/{namespace}/hello2"),
        "/fn/other/hello".to_owned(),
    ] {
        let answer = server.ask("GET", &path, &[]).await;
        assert_eq!(answer.status, 404, "{path}: {answer:?}");
        assert!(!answer.error().code.is_empty());
        if path.len() > 4 {
            assert_eq!(answer.value("x-sless-error"), answer.error().code);
        }
    }
}

#[tokio::test]
async fn every_method_passes() {
    let server = Server::with_hello().await;
    for method in [
        "GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND",
    ] {
        let answer = server.ask(method, &server.hello("/x"), &[]).await;
        assert_eq!(answer.json()["method"], method);
    }
}

#[tokio::test]
async fn a_function_needs_no_token_and_sees_the_one_that_is_sent() {
    let server = Server::with_hello().await;
    let line = "authorization: Bearer for-the-function";
    let answer = server.ask("GET", &server.hello(""), &[line]).await;
    assert_eq!(answer.status, 200);
    assert!(answer.body.contains(line));
}

#[tokio::test]
async fn fields_of_the_connection_and_internal_ones_do_not_reach_the_function() {
    let server = Server::with_hello().await;
    let lines = [
        "connection: x-named, close",
        "x-named: secret",
        "keep-alive: 1",
        "te: trailers",
        "proxy-authorization: secret",
        "upgrade: websocket",
        "x-sless-request-id: forged",
        "x-sless-timeout-ms: 1",
        "x-one: a",
        "x-one: b",
        "cookie: a=1",
    ];
    let answer = server.ask("GET", &server.hello(""), &lines).await;
    let seen = answer.json()["fields"].to_string();
    for gone in [
        "x-named",
        "keep-alive",
        "\"te:",
        "proxy-auth",
        "upgrade",
        "x-sless-",
        "connection",
    ] {
        assert!(!seen.contains(gone), "{gone} in {seen}");
    }
    for kept in ["host: x", "x-one: a", "x-one: b", "cookie: a=1"] {
        assert!(seen.contains(kept), "{kept} not in {seen}");
    }
}

#[tokio::test]
async fn fields_of_the_connection_and_internal_ones_do_not_reach_the_client() {
    let server = Server::with_hello().await;
    let answer = server.ask("GET", &server.hello("/fields"), &[]).await;
    assert_eq!(answer.value("x-public"), "1");
    for gone in ["x-private", "keep-alive", "x-sless-replica"] {
        assert_eq!(answer.values(gone), Vec::<&str>::new());
    }
}

#[tokio::test]
async fn a_call_has_one_name_everywhere() {
    let server = Server::with_hello().await;
    let answer = server
        .ask("GET", &server.hello(""), &["x-request-id: call-1"])
        .await;
    assert_eq!(answer.value("x-request-id"), "call-1");
    assert_eq!(answer.json()["request_id"], "call-1");
    let answer = server
        .ask("GET", &server.hello(""), &["x-request-id: not one word"])
        .await;
    let made = answer.value("x-request-id").to_owned();
    assert_eq!(made.len(), 32);
    assert_eq!(answer.json()["request_id"], made);
    assert!(
        answer.json()["fields"]
            .to_string()
            .contains(&format!("x-request-id: {made}"))
    );
}

#[tokio::test]
async fn a_trace_goes_on_or_begins() {
    let server = Server::with_hello().await;
    let parent = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let answer = server
        .ask("GET", &server.hello(""), &[parent, "tracestate: a=1"])
        .await;
    let seen = answer.json()["fields"].to_string();
    assert!(
        seen.contains(parent) && seen.contains("tracestate: a=1"),
        "{seen}"
    );
    let answer = server
        .ask("GET", &server.hello(""), &["traceparent: nonsense"])
        .await;
    let seen = answer.json()["fields"].to_string();
    assert!(seen.contains("traceparent: 00-"), "{seen}");
}

#[tokio::test]
async fn a_function_that_is_off_is_503_with_the_reason() {
    let server = Server::with_hello().await;
    let patch = server
        .ask_json("PATCH", "/functions/hello", r#"{"replicas": 0}"#)
        .await;
    assert_eq!(patch.status, 200);
    crate::support::until("stopped", async || {
        server.ask("GET", &server.hello(""), &[]).await.status == 503
    })
    .await;
    let answer = server.ask("GET", &server.hello(""), &[]).await;
    assert_eq!(answer.error().code, "scaled_to_zero");
    assert_eq!(answer.value("x-sless-error"), "scaled_to_zero");
}

#[tokio::test]
async fn what_a_function_answers_is_the_answer() {
    let server = Server::with_hello().await;
    assert_eq!(
        server.ask("GET", &server.hello("/418"), &[]).await.body,
        "short and stout"
    );
    let answer = server.ask("GET", &server.hello("/fail"), &[]).await;
    assert_eq!(answer.status, 500);
    assert!(answer.body.contains("ValueError"));
    assert_eq!(answer.values("x-sless-error"), Vec::<&str>::new());
}
