//! What a handler gets and what becomes of what it returns.

use bytes::Bytes;
use http::Request;
use serde_json::{Value, json};
use sless_runtime::{Body, CallContext, HandlerError};

use super::support::*;

const ECHO_PYTHON: &str = r#"
import json
def handle(event, context):
    kind = type(event).__name__
    if isinstance(event, bytes):
        return event
    return {"kind": kind, "event": event}
"#;
const ECHO_NODE: &str = r#"
exports.handle = (event, context) => {
  if (Buffer.isBuffer(event)) return event;
  return { kind: typeof event === 'string' ? 'str' : Array.isArray(event) ? 'list' : typeof event, event };
};
"#;

#[tokio::test]
async fn the_media_type_decides_the_event() {
    for (language, code, object) in [(Python, ECHO_PYTHON, "dict"), (Node, ECHO_NODE, "object")] {
        let host = Function::new(language, code).start().await;
        let echo = async |request| call(&host, request).await.unwrap().json();
        let event = json!({"a": [1, 2.5, null, true, "ü\u{1F600}"]});
        assert_eq!(
            echo(json_event(&event)).await,
            json!({"kind": object, "event": event})
        );
        let padded = post("application/vnd.x+json; charset=utf-8", " [1]\r\n");
        assert_eq!(echo(padded).await, json!({"kind": "list", "event": [1]}));
        let empty = echo(post("application/json", "")).await;
        assert_eq!(empty, json!({"kind": object, "event": {}}));
        assert_eq!(echo(Request::new(Body::empty())).await, empty);
        assert_eq!(
            echo(post("text/plain", "hä")).await,
            json!({"kind": "str", "event": "hä"})
        );
        let latin = post("text/plain; charset=iso-8859-1", &b"h\xe4\x80"[..]);
        assert_eq!(
            echo(latin).await,
            json!({"kind": "str", "event": "hä\u{80}"})
        );
        let unnamed = Request::post("/").body(Body::full("{\"b\":1}")).unwrap();
        assert_eq!(
            echo(unnamed).await,
            json!({"kind": object, "event": {"b": 1}})
        );
        for (media, body) in [
            ("application/json", &b"{"[..]),
            ("application/json", b"\"\xff\""),
            ("application/json", b"NaN"),
            ("application/json", b"1 2"),
            ("text/plain", b"\xff"),
            ("text/plain; charset=klingon", b"x"),
        ] {
            let answer = call(&host, post(media, body)).await.unwrap();
            assert_eq!(answer.status(), 400, "{language:?} {media} {body:?}");
            assert_eq!(answer.error().0, "BadEvent");
        }
        // Deep nesting is refused, not a crash.
        let deep = "[".repeat(200_000) + &"]".repeat(200_000);
        let answer = call(&host, post("application/json", deep)).await.unwrap();
        assert!([200, 400, 500].contains(&answer.status()));
        assert_eq!(echo(post("text/plain", "on")).await["event"], "on");
    }
}

#[tokio::test]
async fn all_bytes_come_and_go_unchanged() {
    let bytes: Bytes = (0..=255u8).cycle().take(256 * 3).collect::<Vec<_>>().into();
    for (language, code) in [
        (
            Python,
            "def handle(event, context):\n    assert context.body == event\n    return event",
        ),
        (
            Node,
            "exports.handle = (event, context) => (context.body.equals(event) ? event : 'no');",
        ),
        (
            Python,
            "def handle(event):\n    return {'statusCode': 200, 'headers': {'content-type': 'image/x'}, 'body': event}",
        ),
        (
            Node,
            "exports.handle = (event) => ({ statusCode: 200, headers: { 'Content-Type': 'image/x' }, body: event });",
        ),
    ] {
        let host = Function::new(language, code).start().await;
        let answer = call(&host, post("image/x", bytes.clone())).await.unwrap();
        assert_eq!(answer.body, bytes);
        let media = if code.contains("image/x") {
            "image/x"
        } else {
            "application/octet-stream"
        };
        assert_eq!((answer.status(), answer.media()), (200, media));
    }
}

/// What `event` names is returned; the answer is a status, a media type and a body.
#[tokio::test]
async fn results_become_answers() {
    let json = "application/json";
    let text = "text/plain; charset=utf-8";
    let python: &[(&str, u16, &str, &str)] = &[
        ("{'a': [1, None, 'ü']}", 200, json, r#"{"a":[1,null,"ü"]}"#),
        ("None", 200, json, "null"),
        ("True", 200, json, "true"),
        ("1.5", 200, json, "1.5"),
        ("10**30", 200, json, "1000000000000000000000000000000"),
        ("(1, 2)", 200, json, "[1,2]"),
        ("'hä'", 200, text, "hä"),
        ("['\\ud800']", 200, json, r#"["\ud800"]"#),
        ("bytearray(b'x')", 200, "application/octet-stream", "x"),
        (
            "{'statusCode': 201, 'body': {'a': 1}}",
            201,
            json,
            r#"{"a":1}"#,
        ),
        ("{'statusCode': 204}", 204, "", ""),
        (
            "{'statusCode': 200, 'body': 'aGk=', 'isBase64Encoded': True}",
            200,
            "application/octet-stream",
            "hi",
        ),
        (
            "{'statusCode': 404, 'headers': {'Content-Type': 'text/html'}, 'body': 'x'}",
            404,
            "text/html",
            "x",
        ),
        ("(str(n) for n in range(3))", 200, text, "012"),
        (
            "{'statusCode': 202, 'body': (b'%d' % n for n in range(3))}",
            202,
            "application/octet-stream",
            "012",
        ),
        ("agen()", 200, text, "ab"),
        ("later(7)", 200, json, "7"),
    ];
    let host = Function::new(
        Python,
        "async def agen():\n    yield 'a'\n    yield 'b'\nasync def later(x):\n    return x\ndef handle(event):\n    return eval(event)",
    )
    .start()
    .await;
    check(&host, python).await;
    let node: &[(&str, u16, &str, &str)] = &[
        (
            "({ a: [1, null, 'ü'], d: new Date(0), u: undefined })",
            200,
            json,
            r#"{"a":[1,null,"ü"],"d":"1970-01-01T00:00:00.000Z"}"#,
        ),
        (
            "({ a: {} , b: [null] })",
            200,
            json,
            r#"{"a":{},"b":[null]}"#,
        ),
        ("undefined", 200, json, "null"),
        ("null", 200, json, "null"),
        ("true", 200, json, "true"),
        ("1.5", 200, json, "1.5"),
        ("'hä'", 200, text, "hä"),
        (
            "new Uint8Array([120])",
            200,
            "application/octet-stream",
            "x",
        ),
        ("Promise.resolve([1])", 200, json, "[1]"),
        (
            "({ statusCode: 201, body: { a: 1 } })",
            201,
            json,
            r#"{"a":1}"#,
        ),
        ("({ statusCode: 204 })", 204, "", ""),
        (
            "({ statusCode: 200, body: 'aGk=', isBase64Encoded: true })",
            200,
            "application/octet-stream",
            "hi",
        ),
        (
            "({ statusCode: 404, headers: { 'Content-Type': 'text/html' }, body: 'x' })",
            404,
            "text/html",
            "x",
        ),
        (
            "(function* () { yield 'a'; yield 'b'; })()",
            200,
            text,
            "ab",
        ),
        (
            "(async function* () { yield Buffer.from('a'); yield 'b'; })()",
            200,
            "application/octet-stream",
            "ab",
        ),
        (
            "new Blob(['abc']).stream()",
            200,
            "application/octet-stream",
            "abc",
        ),
        (
            "require('stream').Readable.from(['a', 'b'])",
            200,
            text,
            "ab",
        ),
    ];
    let host = Function::new(Node, "exports.handle = (event) => eval(event);")
        .start()
        .await;
    check(&host, node).await;
}

async fn check(host: &sless_runtime::Host, cases: &[(&'static str, u16, &str, &str)]) {
    for (result, status, media, body) in cases {
        let answer = call(host, post("text/plain", *result)).await.unwrap();
        let got = (answer.status(), answer.media(), answer.text());
        assert_eq!(got, (*status, *media, *body), "{result}");
    }
}

#[tokio::test]
async fn what_has_no_form_is_an_error_that_names_the_type() {
    let python = [
        ("float('nan')", "float"),
        ("{'a': [float('inf')]}", "float"),
        ("__import__('decimal').Decimal('1.0')", "Decimal"),
        ("{'a': {1, 2}}", "set"),
        ("object()", "object"),
        ("{(1, 2): 3}", "tuple"),
        ("[x := [], x.append(x)][0]", "nested"),
        ("(n for n in [1])", "int"),
        ("{'statusCode': 99}", "99"),
        ("{'statusCode': 200, 'headers': {'a': None}}", "NoneType"),
        (
            "{'statusCode': 200, 'headers': {'a': 'b\\r\\nc: d'}}",
            "header a",
        ),
        ("{'statusCode': 200, 'headers': {'a b': 'c'}}", "a b"),
    ];
    let host = Function::new(Python, "def handle(event):\n    return eval(event)")
        .start()
        .await;
    refused(&host, &python).await;
    let node = [
        ("NaN", "NaN"),
        ("({ a: [Infinity] })", "Infinity"),
        ("10n", "bigint"),
        ("({ a: new Set([1]) })", "Set"),
        ("new Map()", "Map"),
        ("() => 1", "function"),
        ("({ d: new Date(NaN) })", "Date"),
        ("{ const a = {}; a.a = a; a }", "circular"),
        ("[1].values()", "number"),
        ("({ statusCode: 'x' })", "x"),
        (
            "({ statusCode: 200, headers: { a: 'b\\r\\nc: d' } })",
            "header a",
        ),
        (
            "({ statusCode: 200, headers: { a: undefined } })",
            "undefined",
        ),
    ];
    let host = Function::new(Node, "exports.handle = (event) => eval(event);")
        .start()
        .await;
    refused(&host, &node).await;
}

async fn refused(host: &sless_runtime::Host, cases: &[(&'static str, &str)]) {
    for (result, named) in cases {
        let answer = call(host, post("text/plain", *result)).await.unwrap();
        assert_eq!(answer.status(), 500, "{result}");
        let (_, message) = answer.error();
        assert!(message.contains(named), "{result}: {message}");
        assert!(
            answer.head.extensions.get::<HandlerError>().is_some(),
            "{result}"
        );
    }
    let after = call(host, post("text/plain", "'on'")).await.unwrap();
    assert_eq!(after.text(), "on");
}

#[tokio::test]
async fn a_raised_error_is_named_and_its_trace_is_only_logged() {
    for (language, code, kind) in [
        (
            Python,
            "def handle(event):\n    raise ValueError('bad ' + event['x'])",
            "ValueError",
        ),
        (
            Python,
            "async def handle(event):\n    raise ValueError('bad ' + event['x'])",
            "ValueError",
        ),
        (
            Node,
            "exports.handle = (event) => { throw new TypeError('bad ' + event.x); };",
            "TypeError",
        ),
        (
            Node,
            "exports.handle = async (event) => { throw new TypeError('bad ' + event.x); };",
            "TypeError",
        ),
    ] {
        let function = Function::new(language, code);
        let host = function.start().await;
        let context = CallContext::new("call-7");
        let answer = call_as(&host, json_event(&json!({"x": "thing"})), context)
            .await
            .unwrap();
        assert_eq!((answer.status(), answer.media()), (500, "application/json"));
        assert_eq!(answer.error(), (kind.to_owned(), "bad thing".to_owned()));
        let trace = function.logs.wait_for("handler.").await;
        assert_eq!(trace.request_id.as_deref(), Some("call-7"));
        assert!(!answer.text().contains("handler."), "{}", answer.text());
        let lines = function.logs.lines();
        assert!(
            lines.iter().all(|line| !line.text.contains("sless_worker")),
            "{lines:?}"
        );
        assert!(
            lines
                .iter()
                .any(|line| line.text.contains(&format!("{kind}: bad thing")))
        );
    }
}

#[tokio::test]
async fn exits_of_a_handler_are_errors_not_ends() {
    let code = "import sys\ndef handle(event):\n    exit(3) if event else sys.exit('x')";
    let host = Function::new(Python, code).start().await;
    for event in [json!({}), json!([1])] {
        let answer = call(&host, json_event(&event)).await.unwrap();
        assert_eq!(
            (answer.status(), answer.error().0.as_str()),
            (500, "SystemExit")
        );
    }
}

#[tokio::test]
async fn the_context_tells_of_the_request() {
    let python = r#"
def handle(event, context):
    return {
        "method": context.method, "path": context.path, "raw": context.query_string,
        "query": context.query["q"], "all": context.query.all("q"),
        "header": context.headers["X-Multi"], "each": context.headers.all("x-multi"),
        "trace": context.headers.get("traceparent"), "none": context.headers.get("nope"),
        "id": context.request_id, "function": context.function_name,
        "namespace": context.namespace, "uid": context.function_uid,
        "time": 0 < context.remaining <= 5 and context.deadline > 1.7e9,
        "left": context.cancelled, "body": context.body.decode(),
    }
"#;
    let node = r#"
exports.handle = (event, context) => ({
  method: context.method, path: context.path, raw: context.queryString,
  query: context.query.q, all: context.searchParams.getAll('q'),
  header: context.headers['x-multi'],
  each: context.rawHeaders.filter(([name]) => name === 'x-multi').map(([, value]) => value),
  trace: context.headers.traceparent, none: context.headers.nope ?? null,
  id: context.requestId, function: context.functionName,
  namespace: context.namespace, uid: context.functionUid,
  time: context.remaining > 0 && context.remaining <= 5000 && context.deadline > 1.7e12,
  left: context.cancelled || context.signal.aborted, body: context.body.toString(),
});
"#;
    for (language, code) in [(Python, python), (Node, node)] {
        let function = Function::new(language, code).with(|config| {
            config.namespace = "ns".into();
            config.name = "fn".into();
            config.uid = "u1".into();
        });
        let host = function.start().await;
        let request = Request::put("/a%2Fb//c?q=%E2%9C%93&q=2&e=")
            .header("content-type", "application/json")
            .header("x-multi", "1")
            .header("X-Multi", "2")
            .header("traceparent", "00-ab-cd-01")
            .body(Body::full("[1]"))
            .unwrap();
        let context = CallContext::new("id-1").with_timeout(std::time::Duration::from_secs(5));
        let answer = call_as(&host, request, context).await.unwrap();
        let expected = json!({
            "method": "PUT", "path": "/a%2Fb//c", "raw": "q=%E2%9C%93&q=2&e=",
            "query": "✓", "all": ["✓", "2"], "header": "1, 2", "each": ["1", "2"],
            "trace": "00-ab-cd-01", "none": Value::Null, "id": "id-1", "function": "fn",
            "namespace": "ns", "uid": "u1", "time": true, "left": false, "body": "[1]",
        });
        assert_eq!(answer.json(), expected, "{language:?}");
    }
}

#[tokio::test]
async fn several_values_of_a_header_stay_several() {
    for (language, code) in [
        (
            Python,
            "def handle(event):\n    return {'statusCode': 200, 'headers': {'Set-Cookie': ['a=1', 'b=2'], 'X-N': 7, 'Connection': 'close'}}",
        ),
        (
            Node,
            "exports.handle = (e) => ({ statusCode: 200, headers: { 'Set-Cookie': ['a=1', 'b=2'], 'X-N': 7, Connection: 'close' } });",
        ),
    ] {
        let host = Function::new(language, code).start().await;
        let answer = call(&host, Request::new(Body::empty())).await.unwrap();
        let cookies: Vec<_> = answer.head.headers.get_all("set-cookie").iter().collect();
        assert_eq!(cookies, ["a=1", "b=2"]);
        assert_eq!(answer.head.headers["x-n"], "7");
        assert!(!answer.head.headers.contains_key("connection"));
    }
}
