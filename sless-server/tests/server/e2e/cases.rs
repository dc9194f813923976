//! The files `test/cases.toml` of `examples/functions`: what each function must answer.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    time::{Duration, Instant},
};

use futures::StreamExt;
use serde::Deserialize;
use serde_json::Value;
use sless_api::client::{Call, CallAnswer, Client, Content};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    case: Vec<Case>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub(super) name: String,
    #[serde(default)]
    request: Request,
    #[serde(default)]
    response: Response,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Request {
    method: Option<String>,
    path: String,
    query: Option<String>,
    headers: BTreeMap<String, String>,
    json: Option<Value>,
    text: Option<String>,
    file: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Response {
    status: Option<u16>,
    headers: BTreeMap<String, String>,
    json: Option<Value>,
    text: Option<String>,
    contains: Vec<String>,
    lacks: Vec<String>,
    image: Option<Image>,
    lines: Option<Vec<Value>>,
    streams_ms: Option<u64>,
    cut: bool,
    log_contains: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Image {
    format: String,
    width: usize,
    height: usize,
}

/// The cases of a function's folder.
pub(super) fn read(folder: &Path) -> Vec<Case> {
    let path = folder.join("test/cases.toml");
    let cases: Cases = toml::from_str(&fs::read_to_string(&path).unwrap())
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(!cases.case.is_empty(), "{}", path.display());
    cases.case
}

/// A whole answer, and when its pieces came.
struct Received {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    first_to_last: Duration,
    cut: bool,
}

impl Case {
    /// Makes the call and checks the answer, and answers what the log must hold.
    pub(super) async fn check(&self, client: &Client, namespace: &str, folder: &Path) -> &[String] {
        let name = &self.name;
        let function = folder.file_name().unwrap().to_str().unwrap();
        let answer = client
            .call(namespace, function, self.request.call(folder))
            .await
            .unwrap();
        let received = receive(answer).await;
        let body = String::from_utf8_lossy(&received.body);
        let expected = &self.response;
        assert_eq!(
            received.status,
            expected.status.unwrap_or(200),
            "{name}: {body}"
        );
        assert_eq!(received.cut, expected.cut, "{name}: cut; {body}");
        for (field, value) in &expected.headers {
            let found = received.headers.iter().filter(|(name, _)| name == field);
            let found: Vec<_> = found.map(|(_, value)| value).collect();
            assert_eq!(found, [value], "{name}: {field}");
        }
        if let Some(expected) = &expected.json {
            let found = serde_json::from_slice(&received.body)
                .unwrap_or_else(|error| panic!("{name}: {error}: {body}"));
            assert_same(name, &found, expected);
        }
        if let Some(lines) = &expected.lines {
            let found: Vec<Value> = body
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
            assert_same(name, &Value::from(found), &Value::from(lines.clone()));
        }
        if let Some(text) = &expected.text {
            assert_eq!(body, *text, "{name}");
        }
        for text in &expected.contains {
            assert!(body.contains(text), "{name}: {text:?} is not in {body}");
        }
        for text in &expected.lacks {
            assert!(!body.contains(text), "{name}: {text:?} is in {body}");
        }
        if let Some(image) = &expected.image {
            let kind = imagesize::image_type(&received.body).unwrap();
            let size = imagesize::blob_size(&received.body).unwrap();
            assert_eq!(format!("{kind:?}").to_lowercase(), image.format, "{name}");
            assert_eq!(
                (size.width, size.height),
                (image.width, image.height),
                "{name}"
            );
        }
        if let Some(least) = expected.streams_ms.map(Duration::from_millis) {
            let took = received.first_to_last;
            assert!(took >= least, "{name}: first to last bytes in {took:?}");
        }
        &expected.log_contains
    }
}

impl Request {
    fn call(&self, folder: &Path) -> Call {
        let (kind, body) = match (&self.json, &self.text, &self.file) {
            (Some(json), None, None) => (
                Some("application/json"),
                Some(serde_json::to_vec(json).unwrap()),
            ),
            (None, Some(text), None) => (
                Some("text/plain; charset=utf-8"),
                Some(text.clone().into_bytes()),
            ),
            (None, None, Some(file)) => (
                None,
                Some(fs::read(folder.join("test").join(file)).unwrap()),
            ),
            (None, None, None) => (None, None),
            more => panic!("one body at most: {more:?}"),
        };
        let method = if body.is_some() { "POST" } else { "GET" };
        let query = self
            .query
            .as_ref()
            .map(|query| format!("?{query}"))
            .unwrap_or_default();
        let mut call = Call::new(self.method.as_deref().unwrap_or(method))
            .with_tail(format!("{}{query}", self.path));
        for (name, value) in &self.headers {
            call = call.with_header(name, value);
        }
        if let Some(kind) = kind.filter(|_| !self.headers.contains_key("content-type")) {
            call = call.with_header("content-type", kind);
        }
        match body {
            Some(body) => call.with_body(Content::bytes(body)),
            None => call,
        }
    }
}

async fn receive(mut answer: CallAnswer) -> Received {
    let mut body = Vec::new();
    let (mut first, mut last, mut cut) = (None, Instant::now(), false);
    while let Some(piece) = answer.body.next().await {
        match piece {
            Ok(piece) => {
                last = Instant::now();
                first = first.or(Some(last));
                body.extend_from_slice(&piece);
            }
            Err(_) => {
                cut = true;
                break;
            }
        }
    }
    let first_to_last = first.map_or(Duration::ZERO, |first| last - first);
    let CallAnswer {
        status, headers, ..
    } = answer;
    Received {
        status,
        headers,
        body,
        first_to_last,
        cut,
    }
}

/// Compares values; a number is the same with and without a point.
fn assert_same(case: &str, found: &Value, expected: &Value) {
    assert!(
        same(found, expected),
        "{case}:\nfound    {found}\nexpected {expected}"
    );
}

fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let there = |(name, value)| other.get(name).is_some_and(|other| same(value, other));
            one.len() == other.len() && one.iter().all(there)
        }
        _ => one == other,
    }
}
