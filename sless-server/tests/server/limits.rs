//! What a client is held to, and the end that drains.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Answer, DEADLINE, Server, until};

#[tokio::test]
async fn a_body_above_the_limit_is_413_naming_it() {
    let server = Server::start_with(&[("SLESS_MAX_JSON_BYTES", "1KiB")], |_| {}).await;
    server.ensure().await;
    let body = format!(r#"{{"name": "{}"}}"#, "x".repeat(2000));
    let answer = server.ask_json("POST", "/functions", &body).await;
    assert_eq!(answer.status, 413, "{answer:?}");
    assert_eq!(answer.error().code, "limit_json_bytes");
    assert!(answer.error().error.contains("1024"), "{answer:?}");
}

#[tokio::test]
async fn a_head_above_a_limit_is_431() {
    let given = [
        ("SLESS_MAX_HEADER_BYTES", "8KiB"),
        ("SLESS_MAX_HEADERS", "20"),
    ];
    let server = Server::start_with(&given, |_| {}).await;
    let long = format!("x: {}", "y".repeat(16 * 1024));
    assert_eq!(server.ask("GET", "/healthz", &[&long]).await.status, 431);
    let many: Vec<_> = (0..40).map(|number| format!("x-{number}: 1")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    assert_eq!(server.ask("GET", "/healthz", &many).await.status, 431);
}

#[tokio::test]
async fn a_head_that_does_not_come_is_cut_off() {
    let server = Server::start_with(&[("SLESS_HEADER_TIMEOUT", "100ms")], |_| {}).await;
    let mut stream = server.connect().await;
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\n")
        .await
        .unwrap();
    let began = Instant::now();
    let mut answer = String::new();
    let read = tokio::time::timeout(DEADLINE, stream.read_to_string(&mut answer));
    read.await.expect("cut off").unwrap();
    assert!(began.elapsed() >= Duration::from_millis(90));
    assert!(!answer.contains("200"), "{answer}");
}

#[tokio::test]
async fn no_more_connections_than_allowed_are_served_at_once() {
    let server = Server::start_with(&[("SLESS_MAX_CONNECTIONS", "1")], |_| {}).await;
    let mut first = server.connect().await;
    first
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    let mut seen = [0; 12];
    first.read_exact(&mut seen).await.unwrap();
    assert_eq!(&seen, b"HTTP/1.1 200");
    // Waits for the first to go, and is served then.
    let second = server.ask("GET", "/healthz", &[]);
    tokio::pin!(second);
    let waits = tokio::time::timeout(Duration::from_millis(100), &mut second).await;
    assert!(waits.is_err(), "served beside the first: {waits:?}");
    drop(first);
    assert_eq!(
        tokio::time::timeout(DEADLINE, second)
            .await
            .expect("served")
            .status,
        200
    );
}

#[tokio::test]
async fn a_request_under_way_ends_after_the_server_was_told_to_stop() {
    let mut server = Server::with_hello().await;
    let mut stream = server.connect().await;
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\n",
        server.hello("/x")
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    until("under way", async || server.sless.stats().calls > 0).await;
    server.tell_to_stop();
    until("draining", async || server.state.is_draining()).await;
    let address = server.address;
    until("closed to others", async || {
        tokio::net::TcpStream::connect(address).await.is_err()
    })
    .await;
    stream.write_all(b"body").await.unwrap();
    let mut answer = String::new();
    let read = tokio::time::timeout(DEADLINE, stream.read_to_string(&mut answer));
    read.await.expect("answered").unwrap();
    assert_eq!(Answer::of(&answer).json()["body"], "body");
    server.ended().await;
}

#[tokio::test]
async fn a_request_that_does_not_end_is_cut_off_after_the_drain() {
    let mut server = Server::start_with(&[("SLESS_DRAIN_TIMEOUT", "100ms")], |_| {}).await;
    server.ensure().await;
    server.deploy("hello").await;
    let mut stream = server.connect().await;
    let path = server.hello("/never?drained");
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes())
        .await
        .unwrap();
    until("under way", async || server.sless.stats().calls > 0).await;
    server.tell_to_stop();
    server.ended().await;
    assert!(crate::proxy::handler::has_left("drained"));
}
