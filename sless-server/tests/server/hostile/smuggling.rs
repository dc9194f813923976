//! Requests that two readers may take for different ones (RFC 9112, section 11.2): each is refused, or
//! is exactly one, and what stands behind a refused one is never read.

use crate::support::Server;

/// What a request line is to be followed by, and the statuses that come back: of it, and of the whole
/// request behind it where that may be read.
const CASES: &[(&str, &str, &[u16])] = &[
    // A length and chunks: the chunks count, and the connection ends (RFC 9112, section 6.3).
    (
        "POST",
        "content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        &[200],
    ),
    (
        "POST",
        "transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n",
        &[200],
    ),
    (
        "POST",
        "content-length: 1\r\ncontent-length: 2\r\n\r\nab",
        &[400],
    ),
    (
        "POST",
        "content-length: 2\r\ncontent-length: 2\r\n\r\nab",
        &[200, 200],
    ),
    ("POST", "content-length: 2, 2\r\n\r\nab", &[400]),
    ("POST", "content-length: +2\r\n\r\nab", &[400]),
    ("POST", "content-length: 0x2\r\n\r\nab", &[400]),
    ("POST", "content-length: -2\r\n\r\nab", &[400]),
    ("POST", "content-length: 2 2\r\n\r\nab", &[400]),
    (
        "POST",
        "content-length: 99999999999999999999\r\n\r\nab",
        &[400],
    ),
    ("POST", "content-length : 2\r\n\r\nab", &[400]),
    ("POST", " content-length: 2\r\n\r\nab", &[400]),
    ("POST", "x: 1\r\n content-length: 2\r\n\r\nab", &[400]),
    (
        "POST",
        "transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
        &[400],
    ),
    (
        "POST",
        "transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        &[400],
    ),
    (
        "POST",
        "transfer-encoding: \"chunked\"\r\n\r\n0\r\n\r\n",
        &[400],
    ),
    (
        "POST",
        "transfer-encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
        &[400],
    ),
    (
        "POST",
        "transfer-encoding : chunked\r\n\r\n0\r\n\r\n",
        &[400],
    ),
    (
        "POST",
        "transfer-encoding\r\n: chunked\r\n\r\n0\r\n\r\n",
        &[400],
    ),
    (
        "POST",
        "transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n",
        &[400],
    ),
    ("GET", "x\r\n\r\n", &[400]),
    ("GET", "x\0: 1\r\n\r\n", &[400]),
    ("GET", "x: a\0b\r\n\r\n", &[400]),
    ("GET", "x: a\rb: 1\r\n\r\n", &[400]),
    // The first is whole, so the one behind it may be read.
    ("GET", "host: y\r\n\r\n", &[400, 200]),
    ("GET", "content-length: 0\r\n\r\n", &[200, 200]),
    (
        "POST",
        "content-length: 44\r\n\r\nGET /fn/hidden/one HTTP/1.0\r\nhost: x\r\n\r\n0123",
        &[200, 200],
    ),
    // Nothing may follow.
    ("GET", "connection: close\r\n\r\n", &[200]),
];

/// Bodies that break in the middle: they are refused, and nothing behind is read.
const BROKEN: &[&str] = &[
    "FFFFFFFFFFFFFFFFF\r\nabc\r\n0\r\n\r\n",
    "-3\r\nabc\r\n0\r\n\r\n",
    "0x3\r\nabc\r\n0\r\n\r\n",
    "3\r\nabcd\r\n0\r\n\r\n",
    "3\r\nab\r\n0\r\n\r\n",
    "3\nabc\n0\n\n",
    "3\r\r;\r\nabc\r\n0\r\n\r\n",
    "\r\n3\r\nabc\r\n0\r\n\r\n",
    "g\r\n\r\n",
];

/// What came back: the statuses, and the bodies in one text.
async fn answered(server: &Server, method: &str, path: &str, rest: &str) -> (Vec<u16>, String) {
    let canary = server.hello("/canary");
    let bytes = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\n{rest}GET {canary} HTTP/1.1\r\nhost: x\r\n\
         connection: close\r\n\r\n"
    );
    let text = server.exchange(bytes).await;
    let statuses = text.split("HTTP/1.1 ").skip(1);
    (
        statuses
            .map(|answer| answer[..3].parse().unwrap())
            .collect(),
        text,
    )
}

#[tokio::test]
async fn one_request_is_one_or_none_to_every_reader() {
    let server = Server::start_with(&[("SLESS_HEADER_TIMEOUT", "1s")], |_| {}).await;
    server.ensure().await;
    server.deploy("hello").await;
    let path = server.hello("/x");
    for (method, rest, expected) in CASES {
        let (statuses, text) = answered(&server, method, &path, rest).await;
        assert_eq!(statuses, *expected, "{rest:?}: {text}");
        assert_eq!(
            text.contains("canary"),
            expected.len() > 1,
            "{rest:?}: {text}"
        );
    }
    for body in BROKEN {
        let rest = format!("transfer-encoding: chunked\r\n\r\n{body}");
        let (statuses, text) = answered(&server, "POST", &path, &rest).await;
        assert_eq!(statuses, [400], "{body:?}: {text}");
        assert!(!text.contains("canary"), "{body:?}: {text}");
    }
}

/// RFC 9112, section 6.1: nobody behind would know that the body is still in that coding.
#[tokio::test]
async fn a_body_in_a_coding_that_is_not_undone_reaches_no_function() {
    let server = Server::with_hello().await;
    let rest = "transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n";
    let (statuses, text) = answered(&server, "POST", &server.hello("/x"), rest).await;
    assert_eq!(statuses[0], 501, "{text}");
    assert!(text.contains("transfer_coding"), "{text}");
}

/// RFC 9112, section 3.2.2.
#[tokio::test]
async fn the_host_of_a_whole_address_counts_and_not_the_field() {
    let server = Server::with_hello().await;
    let path = format!("http://meant.example:81{}", server.hello("/x"));
    let answer = server.ask("GET", &path, &[]).await;
    let fields = answer.json()["fields"].to_string();
    assert!(fields.contains("host: meant.example:81"), "{fields}");
    assert!(!fields.contains("host: x"), "{fields}");
}
