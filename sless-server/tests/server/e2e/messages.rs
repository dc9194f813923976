//! HTTP as RFC 9110 and 9112 have it, through the server to a worker and back.

use sless_api::CreateFunction;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{
    machine::{Machine, json, node, python},
    process::DEADLINE,
};

/// Answers what its query asks for.
const NODE: &str = r#"
exports.handle = async (event, context) => {
  const ask = context.searchParams.get('do');
  const headers = { 'x-method': context.method };
  if (ask === 'status') return { statusCode: Number(context.searchParams.get('n')), headers };
  if (ask === 'cookies') return { statusCode: 200, headers: { 'set-cookie': ['a=1', 'b=2; Path=/', 'a=3'] }, body: 'ok' };
  if (ask === 'cut') return (async function* () { yield 'first'; await new Promise((r) => setTimeout(r, 100)); throw new Error('no more'); })();
  if (ask === 'wait') {
    console.log('waits');
    await new Promise((resolve) => context.signal.addEventListener('abort', resolve));
    console.log('was left');
    return 'never seen';
  }
  if (ask === 'drip') return (async function* () { try { for (;;) { yield 'drop'; await new Promise((r) => setTimeout(r, 20)); } } finally { console.log('drip closed'); } })();
  return { statusCode: 200, headers, body: JSON.stringify({
    method: context.method, path: context.path, query: context.queryString,
    length: context.headers['content-length'] ?? null, body: context.body.toString('latin1'),
  }) };
};
"#;

const WHERE: &str = "def handle(event, context):\n    \
                     return f'{context.function_name} {context.path} {context.query_string}'\n";

struct Talk {
    machine: Machine,
    path: String,
    _data: tempfile::TempDir,
}

impl Talk {
    async fn start() -> Self {
        let data = tempfile::tempdir().unwrap();
        let machine = Machine::start(data.path()).await;
        let function = CreateFunction {
            concurrency: Some(8),
            ..node("echo")
        };
        machine.deploy(function, &[("handler.js", NODE)]).await;
        let path = format!("/fn/{}/echo", machine.namespace);
        Self {
            machine,
            path,
            _data: data,
        }
    }

    /// Sends a request without a body that asks to close, and answers all that comes back.
    async fn ask(&self, method: &str, tail: &str) -> String {
        let path = &self.path;
        let request =
            format!("{method} {path}{tail} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        self.machine.exchange(request).await
    }

    async fn send(&self, request: &str) -> TcpStream {
        let mut stream = self.machine.connect().await;
        stream
            .write_all(request.replace("{path}", &self.path).as_bytes())
            .await
            .unwrap();
        stream
    }
}

/// Reads until this text has come.
async fn read_until(stream: &mut TcpStream, wanted: &str) -> String {
    let mut read = Vec::new();
    let reading = async {
        let mut piece = [0; 4096];
        loop {
            let text = String::from_utf8_lossy(&read).into_owned();
            if text.contains(wanted) {
                return text;
            }
            let count = stream.read(&mut piece).await.unwrap();
            assert!(count > 0, "{wanted:?} did not come: {text}");
            read.extend_from_slice(&piece[..count]);
        }
    };
    tokio::time::timeout(DEADLINE, reading).await.expect(wanted)
}

#[tokio::test]
async fn names_are_whole_segments_and_the_tail_stays_byte_for_byte() {
    let data = tempfile::tempdir().unwrap();
    let machine = Machine::start(data.path()).await;
    for name in ["hello", "hello-consumer"] {
        machine.deploy(python(name), &[("handler.py", WHERE)]).await;
    }
    for (tail, seen) in [
        ("hello", "hello / "),
        ("hello/", "hello / "),
        ("hello-consumer/x", "hello-consumer /x "),
        (
            "hello/a%2Fb//c?q=%E2%9C%93&q=2",
            "hello /a%2Fb//c q=%E2%9C%93&q=2",
        ),
        (
            "hello/%2e%2e/hello-consumer",
            "hello /%2e%2e/hello-consumer ",
        ),
    ] {
        let path = format!("/fn/{}/{tail}", machine.namespace);
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let answer = machine.exchange(request).await;
        assert!(
            answer.ends_with(&format!("\r\n\r\n{seen}")),
            "{tail}: {answer}"
        );
    }
    for tail in ["hell", "hello-", "hello-consumer2", "hello%2F", ""] {
        let path = format!("/fn/{}/{tail}", machine.namespace);
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let answer = machine.exchange(request).await;
        assert!(answer.starts_with("HTTP/1.1 404 "), "{tail}: {answer}");
    }
    machine.stop().await;
}

#[tokio::test]
async fn heads_and_empty_answers_have_no_body_and_the_connection_goes_on() {
    let talk = Talk::start().await;
    let mut stream = talk
        .send("HEAD {path}?x HTTP/1.1\r\nhost: x\r\n\r\nGET {path}?second HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .await;
    let mut both = String::new();
    stream.read_to_string(&mut both).await.unwrap();
    let (head, second) = both.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("HTTP/1.1 200 ") && head.contains("x-method: HEAD"),
        "{head}"
    );
    assert!(
        second.starts_with("HTTP/1.1 200 "),
        "nothing follows the fields of HEAD: {both}"
    );
    assert!(second.contains("second"), "{second}");

    for status in ["204", "304"] {
        let answer = talk.ask("GET", &format!("?do=status&n={status}")).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
        assert!(answer.ends_with("\r\n\r\n"), "no body: {answer}");
        assert!(!answer.contains("transfer-encoding"), "{answer}");
        if status == "204" {
            assert!(
                !answer.contains("content-length"),
                "RFC 9110, section 8.6: {answer}"
            );
        }
    }
    let answer = talk.ask("GET", "?do=cookies").await;
    let cookies: Vec<_> = answer
        .lines()
        .filter_map(|line| line.strip_prefix("set-cookie: "))
        .collect();
    assert_eq!(cookies, ["a=1", "b=2; Path=/", "a=3"]);
    talk.machine.stop().await;
}

#[tokio::test]
async fn bodies_arrive_whole_however_they_are_framed() {
    let talk = Talk::start().await;
    // The body is sent only once the server has asked for it.
    let mut stream = talk
        .send("POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n")
        .await;
    let interim = read_until(&mut stream, "\r\n\r\n").await;
    assert_eq!(interim, "HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"first").await.unwrap();
    let answer = read_until(&mut stream, "}").await;
    assert!(answer.contains(r#""body":"first""#), "{answer}");

    let chunked = "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n\
                   3\r\nabc\r\n4;note=x\r\ndefg\r\n0\r\n\r\n";
    let mut stream = talk.send(chunked).await;
    let answer = read_until(&mut stream, "}").await;
    assert!(
        answer.contains(r#""body":"abcdefg""#) && answer.contains(r#""length":null"#),
        "{answer}"
    );

    // Trailers are no part of the body and do not disturb the next request.
    let trailers = "POST {path} HTTP/1.1\r\nhost: x\r\ntrailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n\
                    3\r\nabc\r\n0\r\nx-sum: 1\r\n\r\n\
                    GET {path}?next HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let mut stream = talk.send(trailers).await;
    let answer = read_until(&mut stream, r#""query":"next""#).await;
    assert!(answer.contains(r#""body":"abc""#), "{answer}");

    // A body that breaks off is not given to the handler as a whole one.
    let stream = talk
        .send("POST {path}?do=broken HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc")
        .await;
    drop(stream);
    talk.machine.stop().await;
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_seen_to_be_cut() {
    let talk = Talk::start().await;
    let answer = talk.ask("GET", "?do=cut").await;
    assert!(answer.contains("transfer-encoding: chunked"), "{answer}");
    assert!(answer.contains("first"), "{answer}");
    assert!(!answer.contains("\r\n0\r\n"), "no last chunk: {answer:?}");
    talk.machine.logged("echo", "no more").await;
    let (status, _) = talk.machine.call("echo", json("{}")).await;
    assert_eq!(status, 200, "the next call works");
    talk.machine.stop().await;
}

#[tokio::test]
async fn the_function_is_told_that_its_client_left() {
    let talk = Talk::start().await;
    let stream = talk
        .send("GET {path}?do=wait HTTP/1.1\r\nhost: x\r\n\r\n")
        .await;
    talk.machine.logged("echo", "waits").await;
    drop(stream);
    talk.machine.logged("echo", "was left").await;

    let mut stream = talk
        .send("GET {path}?do=drip HTTP/1.1\r\nhost: x\r\n\r\n")
        .await;
    read_until(&mut stream, "drop").await;
    drop(stream);
    talk.machine.logged("echo", "drip closed").await;
    talk.machine.stop().await;
}
