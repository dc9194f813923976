//! Messages as RFC 9110 and 9112 have them, through the proxy.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    proxy::handler::{has_left, release},
    support::{Answer, DEADLINE, Server, until},
};

/// Reads until what was read contains this.
async fn read_until(stream: &mut TcpStream, wanted: &str) -> String {
    let mut seen = Vec::new();
    let read = async {
        let mut piece = [0; 1024];
        loop {
            let text = String::from_utf8_lossy(&seen).into_owned();
            if text.contains(wanted) {
                return text;
            }
            let count = stream.read(&mut piece).await.unwrap();
            assert_ne!(count, 0, "the connection ended before {wanted:?}: {text}");
            seen.extend_from_slice(&piece[..count]);
        }
    };
    tokio::time::timeout(DEADLINE, read).await.expect("in time")
}

#[tokio::test]
async fn head_has_the_fields_of_get_and_no_body() {
    let server = Server::with_hello().await;
    let get = server.ask("GET", &server.hello("/length"), &[]).await;
    let head = server.ask("HEAD", &server.hello("/length"), &[]).await;
    assert_eq!(
        (get.value("content-length"), get.body.as_str()),
        ("5", "12345")
    );
    assert_eq!(
        (head.value("content-length"), head.body.as_str()),
        ("5", "")
    );
    // The connection goes on with the next answer right behind the head.
    let mut stream = server.connect().await;
    let path = server.hello("/length");
    let two = format!(
        "HEAD {path} HTTP/1.1\r\nhost: x\r\n\r\nGET {path} HTTP/1.1\r\nhost: x\r\n\
         connection: close\r\n\r\n"
    );
    stream.write_all(two.as_bytes()).await.unwrap();
    let seen = read_until(&mut stream, "12345").await;
    assert_eq!(seen.matches("HTTP/1.1 200").count(), 2, "{seen}");
    assert_eq!(seen.matches("12345").count(), 1, "{seen}");
}

#[tokio::test]
async fn answers_without_a_body_have_none_and_no_framing() {
    let server = Server::with_hello().await;
    let answer = server.ask("GET", &server.hello("/204"), &[]).await;
    assert_eq!((answer.status, answer.body.as_str()), (204, ""));
    assert_eq!(answer.value("x-kept"), "1");
    for field in ["content-length", "transfer-encoding"] {
        assert_eq!(answer.values(field), Vec::<&str>::new(), "RFC 9110, 8.6");
    }
    let answer = server.ask("GET", &server.hello("/304"), &[]).await;
    assert_eq!((answer.status, answer.body.as_str()), (304, ""));
    assert_eq!(answer.value("etag"), "\"1\"");
    assert_eq!(answer.values("transfer-encoding"), Vec::<&str>::new());
}

#[tokio::test]
async fn expect_100_is_answered_before_the_body_is_sent() {
    let server = Server::with_hello().await;
    let mut stream = server.connect().await;
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\
         connection: close\r\n\r\n",
        server.hello("")
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let first = read_until(&mut stream, "\r\n\r\n").await;
    assert!(first.starts_with("HTTP/1.1 100"), "{first}");
    stream.write_all(b"body").await.unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    let answer = Answer::of(&rest);
    assert_eq!(answer.json()["body"], "body");
    assert!(!answer.json()["fields"].to_string().contains("expect"));
}

#[tokio::test]
async fn a_chunked_request_without_length_arrives_whole() {
    let server = Server::with_hello().await;
    let request = format!(
        "POST {} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n\
         3;ext=1\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n",
        server.hello("")
    );
    let answer = Answer::of(&server.exchange(request).await);
    let chunks = answer.body;
    assert!(chunks.contains(r#""body":"abcdefg""#), "{chunks}");
    assert!(!chunks.contains("transfer-encoding"), "{chunks}");
}

#[tokio::test]
async fn trailers_pass_both_ways() {
    let server = Server::with_hello().await;
    let answer = server
        .ask("GET", &server.hello("/trailers"), &["te: trailers"])
        .await;
    assert_eq!(answer.value("trailer"), "x-sum");
    assert!(
        answer.body.ends_with("0\r\nx-sum: 42\r\n\r\n"),
        "{answer:?}"
    );
    let request = format!(
        "POST {} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\
         trailer: x-sum\r\n\r\n3\r\nabc\r\n0\r\nx-sum: 7\r\n\r\n",
        server.hello("/request-trailers")
    );
    let answer = server.exchange(request).await;
    assert!(answer.contains(r#""x-sum": "7""#), "{answer}");
}

#[tokio::test]
async fn every_cookie_passes_in_order() {
    let server = Server::with_hello().await;
    let answer = server.ask("GET", &server.hello("/cookies"), &[]).await;
    assert_eq!(answer.values("set-cookie"), ["a=1", "b=2", "a=3"]);
}

#[tokio::test]
async fn an_answer_that_is_cut_is_seen_as_cut() {
    let server = Server::with_hello().await;
    let mut stream = server.connect().await;
    let path = server.hello("/cut?cut-answer");
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let seen = read_until(&mut stream, "first").await;
    assert!(seen.starts_with("HTTP/1.1 200"), "{seen}");
    release("cut-answer");
    let mut rest = Vec::new();
    let read = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut rest));
    // The connection ends, with or without a reset, and without the last chunk.
    let _ = read.await.expect("in time");
    let rest = String::from_utf8_lossy(&rest);
    assert!(!rest.contains("0\r\n\r\n"), "{rest}");
}

#[tokio::test]
async fn a_client_that_leaves_before_the_answer_ends_the_call() {
    let server = Server::with_hello().await;
    let mut stream = server.connect().await;
    let path = server.hello("/never?before-the-answer");
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    until("under way", async || server.sless.stats().calls > 0).await;
    assert!(!has_left("before-the-answer"));
    drop(stream);
    until("told", async || has_left("before-the-answer")).await;
}

#[tokio::test]
async fn a_client_that_leaves_within_the_answer_ends_the_call() {
    let server = Server::with_hello().await;
    let mut stream = server.connect().await;
    let path = server.hello("/endless?within-the-answer");
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    read_until(&mut stream, "tick").await;
    assert!(!has_left("within-the-answer"));
    drop(stream);
    until("told", async || has_left("within-the-answer")).await;
}

#[tokio::test]
async fn bodies_stream_both_ways_at_once() {
    let server = Server::with_hello().await;
    let mut stream = server.connect().await;
    let path = server.hello("/echo-stream");
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    for word in ["first", "other"] {
        stream
            .write_all(format!("5\r\n{word}\r\n").as_bytes())
            .await
            .unwrap();
        // It comes back before the request has ended.
        read_until(&mut stream, word).await;
    }
    stream.write_all(b"0\r\n\r\n").await.unwrap();
    read_until(&mut stream, "0\r\n\r\n").await;
}
