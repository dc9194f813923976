//! The messages of llhttp's tests, sent to functions on Python and Node.js as they stand: what the
//! functions see is what the vectors say, and never is a request seen that nobody sent.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant},
};

use futures::StreamExt;
use serde::Deserialize;
use sless_api::client::Call;
use tokio::io::AsyncWriteExt;

use super::{read_to_the_end, report};
use crate::e2e::{
    machine::{Machine, node, python},
    process::DEADLINE,
};

/// Remembers what it was called with, and tells it on `/seen`.
const PYTHON: &str = r#"seen = []

def handle(event, context):
    if context.path == "/seen":
        return seen
    seen.append([context.path, context.method, context.body.decode("latin-1")])
    return "ok"
"#;

const NODE: &str = r#"const seen = [];
exports.handle = (event, context) => {
  if (context.path === "/seen") return seen;
  seen.push([context.path, context.method, Buffer.from(context.body).toString("latin1")]);
  return "ok";
};
"#;

/// What a function saw: path, method and body.
type Seen = (String, String, String);

#[derive(Clone, Debug, Deserialize)]
struct Case {
    file: String,
    name: String,
    meta: Meta,
    bytes: String,
    strict_error: Option<String>,
    messages: usize,
}

#[derive(Clone, Debug, Deserialize)]
struct Meta {
    #[serde(rename = "type")]
    kind: String,
    /// How llhttp is called, and not what it reads.
    #[serde(default, rename = "skipBody")]
    skip_body: bool,
}

/// How many calls a case is to make where that is not what llhttp says, and why.
const OTHERWISE: &[(&str, &str, usize, &str)] = &[
    (
        "request/invalid",
        "HTTP protocol and ANNOUNCE method",
        1,
        METHOD,
    ),
    ("request/invalid", "Invalid method", 1, METHOD),
    (
        "request/invalid",
        "Missing CR between headers",
        1,
        LINE_FEED,
    ),
    ("request/method", "SOURCE request with ICE", 0, NOT_HTTP),
    ("request/method", "OPTIONS request with RTSP", 0, NOT_HTTP),
    ("request/method", "ANNOUNCE request with RTSP", 0, NOT_HTTP),
    ("request/sample", "No HTTP version", 0, NOT_HTTP),
    (
        "request/transfer-encoding",
        "No extension after semicolon",
        1,
        CHUNKS,
    ),
    (
        "request/transfer-encoding",
        "Space after chunk header",
        1,
        CHUNKS,
    ),
    (
        "request/transfer-encoding",
        "POST with `chunked` as last transfer-encoding",
        0,
        CODING,
    ),
    (
        "request/transfer-encoding",
        "POST with `chunked` as last transfer-encoding (multiple headers)",
        0,
        CODING,
    ),
    (
        "request/uri",
        "Disallow UTF-8 in URI path in strict mode",
        1,
        BEYOND_ASCII,
    ),
    ("request/uri", "Quotes in URI", 0, QUOTES),
];

const METHOD: &str = "a method is any token (RFC 9110, section 9.1)";
const LINE_FEED: &str = "a lone line feed may end a line (RFC 9112, section 2.2)";
const CODING: &str = "nobody behind would undo the coding (RFC 9112, section 6.1): 501";
const BEYOND_ASCII: &str = "bytes beyond ASCII are passed on as they are";
const QUOTES: &str = "a quote is no part of an address (RFC 3986, appendix A)";
const CHUNKS: &str = "what is between a chunk's size and its line's end has no meaning";
const NOT_HTTP: &str = "only HTTP/1.0 and HTTP/1.1 are served";

/// Where the canary goes, a whole request behind each case.
const CANARY: &str = "canary";

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2)
        .map(|at| u8::from_str_radix(&text[2 * at..][..2], 16).unwrap())
        .collect()
}

impl Case {
    fn is_strict(&self) -> bool {
        self.meta.kind == "request" && !self.meta.skip_body
    }

    /// llhttp stops behind a request that asks for another protocol. Here nobody takes another one up.
    fn is_refused(&self) -> bool {
        self.strict_error
            .as_ref()
            .is_some_and(|error| !error.contains("Upgrade"))
    }

    /// How many calls of the function it is to make: only its first request goes there.
    fn calls(&self) -> usize {
        let otherwise = OTHERWISE
            .iter()
            .find(|(file, name, ..)| *file == self.file && *name == self.name);
        match otherwise {
            Some((.., calls, _)) => *calls,
            None if self.bytes_begin("CONNECT ") => 0,
            None => self.messages.min(1),
        }
    }

    fn bytes_begin(&self, text: &str) -> bool {
        unhex(&self.bytes).starts_with(text.as_bytes())
    }

    /// What is sent: the first request goes to the function, under the number of the case, and behind
    /// all of it follows a whole request that only a mistaken reader can see too early or too late.
    fn sent(&self, function: &str, number: usize) -> Vec<u8> {
        let bytes = unhex(&self.bytes);
        let start = bytes
            .iter()
            .take_while(|byte| b"\r\n".contains(byte))
            .count();
        let line_end = bytes[start..]
            .iter()
            .position(|byte| b"\r\n".contains(byte));
        let line_end = line_end.map_or(bytes.len(), |at| start + at);
        let mut words = bytes[start..line_end].splitn(2, |byte| *byte == b' ');
        let (method, rest) = (words.next().unwrap(), words.next().unwrap_or_default());
        let mut sent = bytes[..start].to_vec();
        if method == b"CONNECT" || method == b"PRI" {
            sent.extend_from_slice(&bytes[start..]);
        } else {
            sent.extend_from_slice(method);
            sent.extend_from_slice(format!(" {function}/{number}").as_bytes());
            // The target's own path stays behind ours; of one that is a whole address, what is behind
            // its host.
            let path = rest.strip_prefix(b"http://").map_or(rest, |rest| {
                let end = rest.iter().position(|byte| b"/? ".contains(byte));
                &rest[end.unwrap_or(rest.len())..]
            });
            sent.extend_from_slice(path.strip_prefix(b"*").unwrap_or(path));
            sent.extend_from_slice(&bytes[line_end..]);
        }
        let canary = format!(
            "GET {function}/{number}/{CANARY} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        );
        sent.extend_from_slice(canary.as_bytes());
        sent
    }
}

fn cases() -> Option<Vec<Case>> {
    let folder = std::env::var_os("SLESS_VECTORS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/vectors"),
        PathBuf::from,
    );
    let path = folder.join("http1/cases.json");
    let Ok(text) = std::fs::read(&path) else {
        report(&format!(
            "SKIPPED: {} is not there; set SLESS_VECTORS",
            path.display()
        ));
        return None;
    };
    let cases: Vec<Case> = serde_json::from_slice(&text).unwrap();
    Some(
        cases
            .into_iter()
            .filter(|case| case.meta.kind.starts_with("request"))
            .collect(),
    )
}

/// Sends a case, and answers the statuses that came back.
async fn send(machine: &Machine, bytes: Vec<u8>) -> Vec<u16> {
    let mut stream = machine.connect().await;
    // The server may close before it has read all.
    let _ = stream.write_all(&bytes).await;
    let seen = tokio::time::timeout(DEADLINE, read_to_the_end(&mut stream)).await;
    let seen = seen.expect("the server closes");
    let text = String::from_utf8_lossy(&seen).into_owned();
    // No body here holds these words.
    text.split("HTTP/1.1 ")
        .skip(1)
        .map(|answer| answer[..3].parse().unwrap())
        .collect()
}

/// What the function saw of each case, and of the canary behind it.
async fn seen(machine: &Machine, function: &str) -> BTreeMap<usize, (Vec<Seen>, Vec<Seen>)> {
    let (status, body) = machine
        .call(function, Call::new("GET").with_tail("/seen"))
        .await;
    assert_eq!(status, 200);
    let seen: Vec<Seen> = serde_json::from_slice(&body).unwrap();
    let mut of_cases: BTreeMap<usize, (Vec<Seen>, Vec<Seen>)> = BTreeMap::new();
    for one in seen {
        let path = one.0.trim_start_matches('/');
        let digits = path.bytes().take_while(u8::is_ascii_digit).count();
        let number = path[..digits]
            .parse()
            .unwrap_or_else(|_| panic!("nobody sent {one:?}"));
        let (of_case, of_canary) = of_cases.entry(number).or_default();
        if path.ends_with(CANARY) {
            of_canary.push(one);
        } else {
            of_case.push(one);
        }
    }
    of_cases
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_see_what_the_vectors_say_and_nothing_behind_it() {
    let Some(cases) = cases() else { return };
    assert!(cases.len() > 150, "{}", cases.len());
    let data = tempfile::tempdir().unwrap();
    // What never comes is not waited for.
    let settings = [
        ("SLESS_HEADER_TIMEOUT", "1s"),
        ("SLESS_STALL_TIMEOUT", "1s"),
    ];
    let machine = Machine::start_with(data.path(), &settings).await;
    machine
        .deploy(python("py"), &[("handler.py", PYTHON)])
        .await;
    machine.deploy(node("js"), &[("handler.js", NODE)]).await;
    let began = Instant::now();
    let mut bodies = Vec::new();
    for function in ["py", "js"] {
        let root = format!("/fn/{}/{function}", machine.namespace);
        let answers: Vec<_> = futures::stream::iter(cases.iter().enumerate())
            .map(|(number, case)| send(&machine, case.sent(&root, number)))
            .buffered(32)
            .collect()
            .await;
        let seen = seen(&machine, function).await;
        let mut wrong = Vec::new();
        let mut of_function = Vec::new();
        for (number, (case, statuses)) in cases.iter().zip(&answers).enumerate() {
            let (of_case, of_canary) = seen.get(&number).cloned().unwrap_or_default();
            let told = format!(
                "{function}: {} / {} ({}): {} messages, {:?}; answered {statuses:?}, seen {of_case:?} \
                 and {of_canary:?}",
                case.file, case.name, case.meta.kind, case.messages, case.strict_error
            );
            // Whatever it is, one request is one call.
            if of_case.len() > 1 || of_canary.len() > 1 {
                wrong.push(format!("seen twice: {told}"));
            }
            // What is not whole may be made so by the bytes behind it, as every length says.
            let is_open = case.messages == 0 && case.strict_error.is_none();
            if case.is_strict() && !is_open && of_case.len() != case.calls() {
                wrong.push(format!("{} calls were right: {told}", case.calls()));
            }
            // Behind what is refused, or not whole, nothing is a request. A coding that is not undone is
            // refused as well, but where it ends is known.
            let whole = case.messages > 0 || case.calls() > 0;
            if case.is_strict() && !of_canary.is_empty() && (!whole || closes(case)) {
                wrong.push(format!("the canary was seen: {told}"));
            }
            of_function.push(
                of_case
                    .into_iter()
                    .map(|(_, method, body)| (method, body.replace(&root, "")))
                    .collect(),
            );
        }
        assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
        let of_function: Vec<Vec<(String, String)>> = of_function;
        bodies.push(of_function);
    }
    assert_eq!(bodies[0], bodies[1], "Python and Node.js saw the same");
    lengths_are_kept(&cases, &bodies[0]);
    report(&format!(
        "{} messages to two functions in {:?}",
        cases.len(),
        began.elapsed()
    ));
    assert!(began.elapsed() < Duration::from_secs(60));
    machine.stop().await;
}

/// Whether nothing may follow on the connection.
fn closes(case: &Case) -> bool {
    case.is_refused() && case.messages > 0
}

/// A body with a length is what stands behind the head, and no byte more.
fn lengths_are_kept(cases: &[Case], seen: &[Vec<(String, String)>]) {
    let mut compared = 0;
    for (case, seen) in cases
        .iter()
        .zip(seen)
        .filter(|(case, _)| case.is_strict() && case.messages > 0)
    {
        let bytes = unhex(&case.bytes);
        let text: String = bytes.iter().copied().map(char::from).collect();
        let (Some((head, behind)), [(method, body)]) = (text.split_once("\r\n\r\n"), &seen[..])
        else {
            continue;
        };
        assert!(head.trim_start().starts_with(method.as_str()), "{case:?}");
        let lower = head.to_ascii_lowercase();
        let lengths: Vec<_> = lower
            .lines()
            .filter_map(|line| line.strip_prefix("content-length:"))
            .collect();
        if let ([length], false) = (&lengths[..], lower.contains("transfer-encoding")) {
            let length: usize = length.trim().parse().unwrap();
            assert_eq!(body, &behind[..length], "{case:?}");
            compared += 1;
        }
    }
    assert!(compared > 10, "{compared}");
}
