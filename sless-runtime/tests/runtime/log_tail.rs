//! The end of a call's log, told when the call is over.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::json;
use sless_runtime::{CallContext, CallError, Host};

use super::binary::Server;
use super::support::*;

/// Writes what the event asks for, then answers, streams, raises, hangs or dies.
const PYTHON: &str = r#"
import os, sys, threading, time
def handle(event, context):
    for line in event.get("lines", ()):
        print(line)
    if "err" in event:
        sys.stderr.write(event["err"])
    do = event.get("do")
    if do == "stream":
        return pieces()
    if do == "break":
        return broken()
    if do == "raise":
        raise ValueError("no good")
    if do == "large":
        return b"x" * 300000
    if do == "hang":
        time.sleep(60)
    if do == "die":
        os._exit(7)
    if do == "late":
        threading.Thread(target=late).start()
    return "done"
def pieces():
    for n in range(3):
        print("piece", n)
        yield "p"
def broken():
    yield "p"
    print("about to break")
    raise ValueError("broken")
def late():
    time.sleep(0.05)
    print("late")
"#;

const NODE: &str = r#"
exports.handle = async (event) => {
  for (const line of event.lines ?? []) console.log(line);
  if (event.err !== undefined) process.stderr.write(event.err);
  switch (event.do) {
    case 'stream': return pieces();
    case 'break': return broken();
    case 'raise': throw new TypeError('no good');
    case 'large': return Buffer.alloc(300000, 'x');
    case 'hang': await new Promise((done) => setTimeout(done, 60000)); break;
    case 'die': process.exit(7);
  }
  return 'done';
};
async function* pieces() {
  for (let n = 0; n < 3; n++) { console.log('piece', n); yield 'p'; }
}
async function* broken() {
  yield 'p';
  console.log('about to break');
  throw new TypeError('broken');
}
"#;

/// Everything but the thread that goes on: one `async def` handler on an event loop.
fn python_async() -> String {
    PYTHON
        .replace("import os", "import asyncio, os")
        .replace("def handle", "async def handle")
        .replace("time.sleep(60)", "await asyncio.sleep(60)")
}

async fn tail(
    host: &Host,
    event: serde_json::Value,
) -> (Result<Answer, CallError>, Option<String>) {
    tail_as(host, event, CallContext::new("same id"), 4096).await
}

async fn tail_as(
    host: &Host,
    event: serde_json::Value,
    context: CallContext,
    limit: usize,
) -> (Result<Answer, CallError>, Option<String>) {
    let cell = Arc::new(OnceLock::new());
    let context = context.with_log_tail(Arc::clone(&cell), limit);
    let answer = call_as(host, json_event(&event), context).await;
    // At once: nothing is waited for.
    (answer, cell.get().cloned())
}

#[tokio::test]
async fn every_way_a_call_can_end_tells_what_it_wrote() {
    let python_async = python_async();
    for (language, code) in [(Python, PYTHON), (Python, &*python_async), (Node, NODE)] {
        let function = Function::new(language, code);
        let host = function.start().await;
        let (answer, text) = tail(&host, json!({"lines": ["one ü", "two"], "err": "no end"})).await;
        assert_eq!(answer.unwrap().text(), "done");
        assert_eq!(text.as_deref(), Some("one ü\ntwo\nno end\n"));
        assert_eq!(tail(&host, json!({})).await.1, None, "it wrote nothing");

        let (answer, text) = tail(&host, json!({"lines": ["a"], "do": "stream"})).await;
        assert_eq!(answer.unwrap().text(), "ppp");
        assert_eq!(text.as_deref(), Some("a\npiece 0\npiece 1\npiece 2\n"));

        let (answer, text) = tail(&host, json!({"lines": ["a"], "do": "large"})).await;
        assert_eq!(answer.unwrap().body.len(), 300_000);
        assert_eq!(text.as_deref(), Some("a\n"));

        let (answer, text) = tail(&host, json!({"lines": ["a"], "do": "raise"})).await;
        assert_eq!(answer.unwrap().status(), 500);
        let text = text.unwrap();
        assert!(
            text.starts_with("a\n") && text.contains("no good"),
            "{text}"
        );

        let (answer, text) = tail(&host, json!({"do": "break"})).await;
        assert!(matches!(answer, Err(CallError::Handler(_))), "{answer:?}");
        let text = text.unwrap();
        assert!(
            text.starts_with("about to break\n") && text.contains("broken"),
            "{text}"
        );

        let soon = CallContext::new("same id").with_timeout(Duration::from_millis(500));
        let (answer, text) =
            tail_as(&host, json!({"lines": ["a"], "do": "hang"}), soon, 4096).await;
        assert!(
            matches!(answer, Err(CallError::Timeout { .. })),
            "{answer:?}"
        );
        assert_eq!(text.as_deref(), Some("a\n"));

        let (answer, text) = tail(&host, json!({"lines": ["a"], "do": "die"})).await;
        assert!(
            matches!(answer, Err(CallError::WorkerDied { .. })),
            "{answer:?}"
        );
        assert_eq!(text.as_deref(), Some("a\n"));
    }
}

/// The answer's end waits for no line, and no line is missing, however many there are.
#[tokio::test]
async fn the_newest_lines_are_there_within_the_limit() {
    for (language, code) in [(Python, PYTHON), (Node, NODE)] {
        let function = Function::new(language, code);
        let host = function.start().await;
        let lines: Vec<_> = (0..20_000).map(|number| format!("line {number}")).collect();
        let context = CallContext::new("many");
        let (_, text) = tail_as(&host, json!({"lines": lines}), context, 100).await;
        let text = text.unwrap();
        assert!(
            text.len() <= 100 && text.ends_with("line 19998\nline 19999\n"),
            "{text}"
        );
        // Of one long line, its end.
        let long = "ä".repeat(1_000);
        let context = CallContext::new("long");
        let (_, text) = tail_as(&host, json!({"lines": [long]}), context, 100).await;
        assert_eq!(text.unwrap(), "ä".repeat(49) + "\n");
    }
}

#[tokio::test]
async fn calls_at_once_do_not_get_each_others_lines() {
    let python_async = python_async();
    for (language, code) in [(Python, PYTHON), (Python, &*python_async), (Node, NODE)] {
        let function = Function::new(language, code).with(|config| config.concurrency = 4);
        let host = Arc::new(function.start().await);
        let mut calls = tokio::task::JoinSet::new();
        for number in 0..40 {
            let host = Arc::clone(&host);
            calls.spawn(async move {
                let mine = format!("of {number}");
                let lines = vec![mine.clone(); number % 7];
                // All with the same request id, as some clients have it.
                let (_, text) = tail(&host, json!({"lines": lines, "do": "stream"})).await;
                let pieces = "piece 0\npiece 1\npiece 2\n";
                assert_eq!(
                    text.unwrap(),
                    format!("{mine}\n").repeat(number % 7) + pieces
                );
            });
        }
        while let Some(done) = calls.join_next().await {
            done.unwrap();
        }
    }
}

/// What a thread of an earlier call writes is in the log, and in no later call's tail.
#[tokio::test]
async fn late_lines_belong_to_nobody() {
    let code = PYTHON.replace(
        "threading.Thread(target=late).start()",
        "import contextvars; threading.Thread(target=contextvars.copy_context().run, args=(late,)).start()",
    );
    let function = Function::new(Python, &code);
    let host = function.start().await;
    let (_, text) = tail(&host, json!({"lines": ["a"], "do": "late"})).await;
    assert_eq!(text.as_deref(), Some("a\n"));
    let event = json!({"lines": ["b"], "do": "stream"});
    let (_, text) = tail(&host, event).await;
    assert_eq!(text.as_deref(), Some("b\npiece 0\npiece 1\npiece 2\n"));
    function.logs.wait_for("late").await;
}

/// A caller that leaves knows what was written by then.
#[tokio::test]
async fn a_caller_that_leaves_gets_what_is_there() {
    let function = Function::new(Node, NODE);
    let host = function.start().await;
    let cell = Arc::new(OnceLock::new());
    let context = CallContext::new("left").with_log_tail(Arc::clone(&cell), 4096);
    let event = json!({"lines": ["a"], "do": "hang"});
    let call = call_as(&host, json_event(&event), context);
    let left = tokio::time::timeout(Duration::from_millis(300), call).await;
    assert!(left.is_err());
    assert_eq!(cell.get().map(String::as_str), Some("a\n"));
}

#[test]
fn the_program_tells_it_in_head_or_trailers() {
    let server = Server::start(Function::new(Python, PYTHON), &[]);
    server.wait_ready();
    let ask = |event: serde_json::Value, fields: &str| {
        let body = event.to_string();
        let length = body.len();
        server.exchange(&format!(
            "POST / HTTP/1.1\r\nhost: x\r\nconnection: close, te\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n{fields}\r\n{body}"
        ))
    };
    let asks = "x-sless-log-tail: 4096\r\nte: trailers\r\n";
    let lines = json!({"lines": ["one ü", "two"]});
    let answer = ask(lines.clone(), asks);
    let expected = "x-sless-log-tail: \"one ü\\ntwo\\n\"\r\n";
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!((head.to_owned() + "\r\n").contains(expected), "{answer}");
    assert_eq!(body, "done");
    // Nobody asks, or there is nothing.
    for answer in [ask(lines, ""), ask(json!({}), asks)] {
        assert!(!answer.contains("x-sless-log-tail"), "{answer}");
    }
    let streamed = ask(json!({"do": "stream"}), asks);
    let expected = "\r\n0\r\nx-sless-log-tail: \"piece 0\\npiece 1\\npiece 2\\n\"\r\n\r\n";
    assert!(streamed.ends_with(expected), "{streamed}");
    assert!(streamed.contains("trailer: x-sless-log-tail"), "{streamed}");
    // Whoever reads no trailers gets none.
    let streamed = ask(json!({"do": "stream"}), "x-sless-log-tail: 4096\r\n");
    assert!(!streamed.contains("x-sless-log-tail"), "{streamed}");
    // A failed call tells it, too; and a quoted line has no way out of its field.
    let died = ask(json!({"lines": ["\r\nx-evil: 1"], "do": "die"}), asks);
    assert!(died.starts_with("HTTP/1.1 502"), "{died}");
    assert!(
        died.contains("x-sless-log-tail: \"\\nx-evil: 1\\n\"\r\n"),
        "{died}"
    );
    assert!(!died.contains("\nx-evil"), "{died}");
}
