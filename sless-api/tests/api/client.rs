//! The client against a peer that answers from a script and keeps what it was sent.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::{StreamExt, TryStreamExt};
use sless_api::{
    CreateFunction, ListQuery, LogQuery, WireDuration,
    client::{Call, Client, ClientConfig, ClientError, Content},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

struct Peer {
    client: Client,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Peer {
    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// A server that gives these answers in order, one per connection.
async fn peer(answers: impl IntoIterator<Item = &str>) -> Peer {
    let mut config = ClientConfig::new("").with_token("secret-token");
    config.min_backoff = WireDuration(Duration::from_millis(1));
    config.request_timeout = WireDuration(Duration::from_secs(10));
    peer_with(config, answers).await
}

async fn peer_with(mut config: ClientConfig, answers: impl IntoIterator<Item = &str>) -> Peer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    config.endpoint = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(Mutex::new(Vec::new()));
    let mut answers: VecDeque<String> = answers.into_iter().map(str::to_owned).collect();
    let seen = requests.clone();
    tokio::spawn(async move {
        while let Some(answer) = answers.pop_front() {
            let (mut stream, _) = listener.accept().await.unwrap();
            let request = read_request(&mut stream).await;
            seen.lock().unwrap().push(request);
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
        }
    });
    Peer {
        client: Client::new(config).unwrap(),
        requests,
    }
}

async fn read_request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .filter_map(|line| line.strip_prefix("content-length: "))
                .map(|length| length.parse::<usize>().unwrap())
                .next();
            let chunked = head.contains("transfer-encoding: chunked");
            let whole = match length {
                Some(length) => body.len() >= length,
                None => !chunked || body.ends_with("0\r\n\r\n"),
            };
            if whole {
                return text;
            }
        }
        let count = stream.read(&mut piece).await.unwrap();
        assert_ne!(count, 0, "the request broke off: {text}");
        bytes.extend_from_slice(&piece[..count]);
    }
}

fn answer(status: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}")
}

const EMPTY_PAGE: &str = r#"{"items":[],"next":null}"#;

#[tokio::test]
async fn a_read_is_made_again_when_the_server_says_later() {
    let later = answer(
        "503 Service Unavailable",
        r#"{"error":"x","code":"unavailable"}"#,
    );
    let page = answer("200 OK", EMPTY_PAGE);
    let peer = peer([later.as_str(), later.as_str(), page.as_str()]).await;
    let functions = peer.client.functions("n", &ListQuery::default()).await;
    assert!(functions.unwrap().items.is_empty());
    assert_eq!(peer.requests().len(), 3);
}

#[tokio::test]
async fn repetitions_are_bounded() {
    let later = answer(
        "503 Service Unavailable",
        r#"{"error":"x","code":"unavailable"}"#,
    );
    let mut config = ClientConfig::new("");
    config.max_retries = 1;
    config.min_backoff = WireDuration(Duration::from_millis(1));
    let peer = peer_with(config, [later.as_str(); 3]).await;
    let error = peer.client.function("n", "f").await.unwrap_err();
    assert_eq!(error.api().unwrap().status, 503);
    assert_eq!(peer.requests().len(), 2);
}

#[tokio::test]
async fn a_create_is_made_once() {
    let later = answer(
        "503 Service Unavailable",
        r#"{"error":"x","code":"unavailable"}"#,
    );
    let peer = peer([later.as_str(), later.as_str()]).await;
    let function = CreateFunction {
        name: "f".into(),
        runtime: "nodejs20".into(),
        ..CreateFunction::default()
    };
    let error = peer.client.create_function("n", &function).await;
    assert!(error.unwrap_err().is_transient());
    let requests = peer.requests();
    assert_eq!(requests.len(), 1);
    assert!(requests[0].starts_with("POST /v1/namespaces/n/functions HTTP/1.1\r\n"));
    assert!(requests[0].ends_with(r#"{"name":"f","runtime":"nodejs20"}"#));
    assert!(requests[0].contains("authorization: Bearer secret-token\r\n"));
}

#[tokio::test]
async fn an_error_answer_is_typed() {
    let body = r#"{"error":"no function `f` in `n`","code":"not_found"}"#;
    let peer = peer([answer("404 Not Found", body).as_str()]).await;
    let error = peer.client.function("n", "f").await.unwrap_err();
    assert!(error.is_not_found());
    let api = error.api().unwrap();
    assert_eq!(api.code, "not_found");
    assert_eq!(api.message, "no function `f` in `n`");
}

#[tokio::test]
async fn an_answer_that_is_not_ours_is_shown_as_it_is() {
    let peer = peer([answer("400 Bad Request", "<h1>nginx</h1>").as_str()]).await;
    let error = peer.client.function("n", "f").await.unwrap_err();
    assert_eq!(error.api().unwrap().code, "unknown");
    assert_eq!(error.api().unwrap().message, "<h1>nginx</h1>");
}

#[tokio::test]
async fn names_are_encoded_as_one_segment() {
    let peer = peer([answer("200 OK", EMPTY_PAGE).as_str()]).await;
    let query = ListQuery {
        limit: Some(2),
        cursor: Some("a&b".into()),
    };
    peer.client.functions("a/../b?c", &query).await.unwrap();
    let request = &peer.requests()[0];
    let line = "GET /v1/namespaces/a%2F..%2Fb%3Fc/functions?limit=2&cursor=a%26b HTTP/1.1\r\n";
    assert!(request.starts_with(line), "{request}");
}

#[tokio::test]
async fn a_name_that_is_a_step_in_a_path_is_refused() {
    let peer = peer([]).await;
    for name in ["", ".", ".."] {
        let error = peer.client.function("n", name).await.unwrap_err();
        assert!(matches!(error, ClientError::Invalid(_)), "{error}");
    }
}

#[tokio::test]
async fn an_upload_streams_its_body() {
    let body = r#"{"name":"f","namespace":"n","code_sha256":"ab","s3_key":"k","phase":"Building",
        "verdict":{"outcome":"skipped","reason":"no validator"},"warnings":[]}"#;
    let peer = peer([answer("202 Accepted", body).as_str()]).await;
    let pieces = ["PK", "zip"].map(|piece| Ok(piece.into()));
    let zip = Content::stream(futures::stream::iter(pieces));
    let result = peer.client.upload("n", "f", zip).await.unwrap();
    assert_eq!(result.code_sha256, "ab");
    let request = &peer.requests()[0];
    assert!(
        request.contains("transfer-encoding: chunked\r\n"),
        "{request}"
    );
    assert!(
        request.contains("content-type: application/zip\r\n"),
        "{request}"
    );
    assert!(
        request.ends_with("2\r\nPK\r\n3\r\nzip\r\n0\r\n\r\n"),
        "{request}"
    );
}

#[tokio::test]
async fn log_lines_come_one_by_one_and_a_long_one_is_named() {
    let line = r#"{"at":"2026-01-02T03:04:05Z","source":"stdout","text":"hello"}"#;
    let body = format!("{line}\n\n{line}\n{}\n", "x".repeat(2000));
    let mut config = ClientConfig::new("");
    config.max_log_line_bytes = 1000;
    let peer = peer_with(config, [answer("200 OK", &body).as_str()]).await;
    let query = LogQuery {
        follow: true,
        tail: Some(10),
        since: None,
    };
    let lines = peer.client.logs("n", "f", &query).await.unwrap();
    let lines: Vec<_> = lines.collect().await;
    assert_eq!(lines[0].as_ref().unwrap().text, "hello");
    assert_eq!(lines[1].as_ref().unwrap().text, "hello");
    assert!(matches!(
        lines[2],
        Err(ClientError::Limit {
            name: "max_log_line_bytes",
            ..
        })
    ));
    assert!(peer.requests()[0].contains("logs?follow=true&tail=10 "));
}

#[tokio::test]
async fn an_answer_above_the_limit_is_an_error_that_names_it() {
    let mut config = ClientConfig::new("");
    config.max_answer_bytes = 10;
    let peer = peer_with(config, [answer("200 OK", EMPTY_PAGE).as_str()]).await;
    let error = peer.client.functions("n", &ListQuery::default()).await;
    assert!(error.unwrap_err().to_string().contains("max_answer_bytes"));
}

#[tokio::test]
async fn a_function_never_sees_the_token() {
    let peer = peer([answer("418 I'm a teapot", "short and stout").as_str()]).await;
    let call = Call::new("POST")
        .with_tail("/a%2Fb?q=1")
        .with_header("x-one", "1")
        .with_body(Content::bytes("hi"));
    let answer = peer.client.call("n", "f", call).await.unwrap();
    assert_eq!(answer.status, 418);
    let body: Vec<_> = answer.body.try_collect().await.unwrap();
    assert_eq!(body.concat(), b"short and stout");
    let request = &peer.requests()[0];
    assert!(
        request.starts_with("POST /fn/n/f/a%2Fb?q=1 HTTP/1.1\r\n"),
        "{request}"
    );
    assert!(!request.contains("secret-token"), "{request}");
}

#[tokio::test]
async fn no_server_is_a_connect_error_without_the_token() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let mut config = ClientConfig::new(&endpoint).with_token("secret-token");
    config.max_retries = 0;
    let error = Client::new(config).unwrap().health().await.unwrap_err();
    assert!(matches!(error, ClientError::Connect { .. }), "{error:?}");
    assert!(error.to_string().contains(&endpoint));
    assert!(!format!("{error:?}").contains("secret-token"));
}

#[test]
fn a_wrong_endpoint_is_named() {
    for endpoint in ["", "localhost:8080", "ftp://x"] {
        let error = Client::new(ClientConfig::new(endpoint)).unwrap_err();
        assert!(error.to_string().contains("endpoint"), "{error}");
    }
}
