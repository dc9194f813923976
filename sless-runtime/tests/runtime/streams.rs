//! Large bodies, both ways, and streams that break off.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::json;
use sless_runtime::{CallContext, CallError, HandlerError};
use tokio::sync::mpsc;

use super::support::*;

const MEGABYTE: usize = 1 << 20;

type Piece = Result<Frame<Bytes>, std::io::Error>;

/// A body whose pieces the test sends.
fn channel() -> (
    mpsc::Sender<Piece>,
    impl http_body::Body<Data = Bytes, Error = std::io::Error> + Send + 'static,
) {
    let (sender, mut receiver) = mpsc::channel::<Piece>(4);
    let stream = futures::stream::poll_fn(move |cx| receiver.poll_recv(cx));
    (sender, StreamBody::new(stream))
}

fn piece(number: usize) -> Bytes {
    vec![number as u8; MEGABYTE].into()
}

#[tokio::test]
async fn a_hundred_megabytes_go_in_and_out() {
    for (language, code) in [
        (Python, "def handle(event):\n    return event"),
        (Python, "async def handle(event):\n    return event"),
        (Node, "exports.handle = (event) => event;"),
    ] {
        let function = Function::new(language, code);
        let host = function.start().await;
        let (sender, body) = channel();
        let feed = tokio::spawn(async move {
            for number in 0..100 {
                sender.send(Ok(Frame::data(piece(number)))).await.unwrap();
            }
        });
        let request = Request::post("/")
            .header("content-type", "image/x")
            .body(body)
            .unwrap();
        let response = host.call(request, CallContext::new("big")).await.unwrap();
        let (head, mut body) = response.into_parts();
        assert_eq!(head.status, 200);
        let (mut size, mut largest) = (0, 0);
        while let Some(frame) = body.frame().await {
            let data = frame.unwrap().into_data().unwrap();
            let first = size;
            for (at, byte) in [
                (first, data[0]),
                (first + data.len() - 1, data[data.len() - 1]),
            ] {
                assert_eq!(byte, (at / MEGABYTE) as u8);
            }
            size += data.len();
            largest = largest.max(data.len());
        }
        assert_eq!(size, 100 * MEGABYTE);
        // The host holds a piece at a time.
        assert!(largest <= MEGABYTE, "{largest}");
        feed.await.unwrap();
        assert_eq!(
            call(&host, post("image/x", "on")).await.unwrap().text(),
            "on"
        );
    }
}

#[tokio::test]
async fn a_body_can_be_taken_as_a_stream() {
    let python = "import hashlib\ndef handle(event, context):\n    size = 0\n    for piece in event:\n        size += len(piece)\n        print('got', size)\n    return size\nhandle.stream_body = True";
    let python_async = "async def handle(event, context):\n    size = 0\n    async for piece in context.stream:\n        size += len(piece)\n        print('got', size)\n    return size\nhandle.stream_body = True";
    let node = "exports.handle = async (event, context) => { let size = 0; for await (const piece of event) { size += piece.length; console.log('got', size); } return size; };\nexports.handle.streamBody = true;";
    for (language, code) in [(Python, python), (Python, python_async), (Node, node)] {
        let function = Function::new(language, code);
        let host = Arc::new(function.start().await);
        let (sender, body) = channel();
        let running = {
            let host = Arc::clone(&host);
            let request = Request::post("/").body(body).unwrap();
            tokio::spawn(async move {
                Answer::read(host.call(request, CallContext::new("s")).await?).await
            })
        };
        // The handler sees the first piece before the second one is there.
        sender.send(Ok(Frame::data("abc".into()))).await.unwrap();
        function.logs.wait_for("got 3").await;
        for _ in 0..50 {
            sender.send(Ok(Frame::data(piece(1)))).await.unwrap();
        }
        drop(sender);
        let answer = running.await.unwrap().unwrap();
        assert_eq!(answer.text(), (50 * MEGABYTE + 3).to_string());
    }
}

#[tokio::test]
async fn an_answer_streams_piece_by_piece() {
    let python =
        "import time\ndef handle(event):\n    yield 'one'\n    time.sleep(1)\n    yield b'two'";
    let python_async = "import asyncio\nasync def handle(event):\n    yield 'one'\n    await asyncio.sleep(1)\n    yield b'two'";
    let node = "exports.handle = async function* (event) { yield 'one'; await new Promise((done) => setTimeout(done, 1000)); yield Buffer.from('two'); };";
    for (language, code) in [(Python, python), (Python, python_async), (Node, node)] {
        let host = Function::new(language, code).start().await;
        let began = std::time::Instant::now();
        let mut response = host
            .call(json_event(&json!({})), CallContext::new("s"))
            .await
            .unwrap();
        assert_eq!(
            response.headers()["content-type"],
            "text/plain; charset=utf-8"
        );
        let first = response
            .body_mut()
            .frame()
            .await
            .unwrap()
            .unwrap()
            .into_data()
            .unwrap();
        assert_eq!(first, "one");
        assert!(
            began.elapsed() < Duration::from_millis(900),
            "{:?}",
            began.elapsed()
        );
        assert_eq!(
            response.into_body().collect().await.unwrap().to_bytes(),
            "two"
        );
    }
}

#[tokio::test]
async fn an_error_after_the_head_cuts_the_answer() {
    for (language, code) in [
        (
            Python,
            "def handle(event):\n    yield 'one'\n    raise ValueError('late')",
        ),
        (
            Python,
            "async def handle(event):\n    yield 'one'\n    raise ValueError('late')",
        ),
        (
            Node,
            "exports.handle = function* (event) { yield 'one'; throw new RangeError('late'); };",
        ),
    ] {
        let function = Function::new(language, code);
        let host = function.start().await;
        let response = host
            .call(json_event(&json!({})), CallContext::new("s"))
            .await
            .unwrap();
        assert_eq!(response.status(), 200);
        let error = response.into_body().collect().await.unwrap_err();
        let CallError::Handler(HandlerError { message, .. }) = error else {
            panic!("{error}")
        };
        assert_eq!(message, "late");
        function.logs.wait_for("late").await;
        until("the slot is free", || (host.in_flight() == 0).then_some(())).await;
    }
}

#[tokio::test]
async fn an_error_before_the_first_piece_is_a_clean_500() {
    for (language, code) in [
        (
            Python,
            "def handle(event):\n    raise ValueError('early')\n    yield 1",
        ),
        (
            Node,
            "exports.handle = async function* (event) { throw new RangeError('early'); };",
        ),
    ] {
        let host = Function::new(language, code).start().await;
        let answer = call(&host, json_event(&json!({}))).await.unwrap();
        assert_eq!((answer.status(), answer.error().1.as_str()), (500, "early"));
    }
}

#[tokio::test]
async fn a_reader_that_leaves_ends_an_endless_answer() {
    let python = "def handle(event):\n    try:\n        while True:\n            yield b'x' * 1000\n    finally:\n        print('closed')";
    let python_async = "import asyncio\nasync def handle(event):\n    try:\n        while True:\n            yield b'x' * 1000\n    finally:\n        print('closed')";
    let node = "exports.handle = async function* (event) { try { for (;;) yield Buffer.alloc(1000); } finally { console.log('closed'); } };";
    let node_sync = "exports.handle = function* (event) { try { for (;;) yield Buffer.alloc(1000); } finally { console.log('closed'); } };";
    for (language, code) in [
        (Python, python),
        (Python, python_async),
        (Node, node),
        (Node, node_sync),
    ] {
        let function = Function::new(language, code);
        let host = function.start().await;
        let pid = host.worker_pid();
        let mut response = host
            .call(json_event(&json!({})), CallContext::new("s"))
            .await
            .unwrap();
        for _ in 0..10 {
            response.body_mut().frame().await.unwrap().unwrap();
        }
        drop(response);
        function.logs.wait_for("closed").await;
        until("the slot is free", || (host.in_flight() == 0).then_some(())).await;
        assert_eq!(host.worker_pid(), pid);
    }
}

#[tokio::test]
async fn a_stream_ends_at_the_deadline() {
    let python = "import time\ndef handle(event):\n    while True:\n        yield 'x'\n        time.sleep(0.01)";
    let function =
        Function::new(Python, python).with(|config| config.timeout = Duration::from_millis(400));
    let host = function.start().await;
    let response = host
        .call(json_event(&json!({})), CallContext::new("s"))
        .await
        .unwrap();
    let error = response.into_body().collect().await.unwrap_err();
    assert_eq!(error.word(), "timeout");
}

/// Who reads nothing, or reads on and on, does not keep the slot beyond the call's time; and the worker,
/// which is not to blame, stays.
#[tokio::test]
async fn the_deadline_comes_however_fast_an_answer_is_read() {
    let python = "import os\ndef handle(event):\n    if event == 'pid':\n        return os.getpid()\n    \
                  def more():\n        while True:\n            yield b'x' * 100_000\n    return more()";
    let node = "exports.handle = (event) => event === 'pid' ? process.pid : (async function* () { \
                for (;;) yield Buffer.alloc(100000); })();";
    for (language, code) in [(Python, python), (Node, node)] {
        let function = Function::new(language, code);
        let host = function.start().await;
        let pid = call(&host, post("text/plain", "pid")).await.unwrap();
        for reads in [false, true] {
            let context = CallContext::new("much").with_timeout(Duration::from_millis(500));
            let began = Instant::now();
            let response = host
                .call(post("text/plain", "much"), context)
                .await
                .unwrap();
            let mut body = response.into_body();
            let mut last = None;
            if reads {
                while let Some(Ok(_)) = last.insert(body.frame().await) {}
            }
            // Waits for the slot.
            let after = call(&host, post("text/plain", "pid")).await.unwrap();
            let took = began.elapsed();
            assert!(
                took < Duration::from_secs(5),
                "{language:?} {reads} {took:?}"
            );
            assert_eq!(after.text(), pid.text(), "{language:?} {reads}");
            if !reads {
                while let Some(Ok(_)) = last.insert(body.frame().await) {}
            }
            let error = last.flatten().expect("it says why").unwrap_err();
            assert_eq!(error.word(), "timeout");
        }
    }
}

#[tokio::test]
async fn a_worker_that_dies_in_mid_answer_cuts_it() {
    let code = "import os\ndef handle(event):\n    yield 'x'\n    os.kill(os.getpid(), 9)";
    let host = Function::new(Python, code).start().await;
    let response = host
        .call(json_event(&json!({})), CallContext::new("s"))
        .await
        .unwrap();
    let error = response.into_body().collect().await.unwrap_err();
    assert_eq!(error.word(), "worker_died");
}

#[tokio::test]
async fn a_body_that_breaks_off_ends_its_call_alone() {
    for (language, code) in [
        (Python, "def handle(event):\n    print('ran')\n    return 1"),
        (
            Python,
            "async def handle(event):\n    print('ran')\n    return 1",
        ),
        (
            Node,
            "exports.handle = (event) => { console.log('ran'); return 1; };",
        ),
    ] {
        let function = Function::new(language, code);
        let host = function.start().await;
        let pid = host.worker_pid();
        let (sender, body) = channel();
        sender.send(Ok(Frame::data(piece(1)))).await.unwrap();
        sender
            .send(Err(std::io::Error::other("torn")))
            .await
            .unwrap();
        let request = Request::post("/").body(body).unwrap();
        let error = host.call(request, CallContext::new("s")).await.unwrap_err();
        assert!(
            matches!(error, CallError::BodyRead(_)) && error.status() == 400,
            "{error}"
        );
        until("the slot is free", || (host.in_flight() == 0).then_some(())).await;
        assert!(function.logs.find("ran").is_none());
        assert_eq!(
            call(&host, json_event(&json!({}))).await.unwrap().text(),
            "1"
        );
        assert_eq!(host.worker_pid(), pid);
    }
}

#[tokio::test]
async fn an_answer_may_come_before_the_body_has_been_read() {
    for (language, code) in [
        (
            Python,
            "def handle(event):\n    return 1\nhandle.stream_body = True",
        ),
        (
            Python,
            "async def handle(event):\n    return 1\nhandle.stream_body = True",
        ),
        (
            Node,
            "exports.handle = (event) => 1;\nexports.handle.streamBody = true;",
        ),
    ] {
        let function = Function::new(language, code);
        let host = function.start().await;
        let pid = host.worker_pid();
        for _ in 0..3 {
            let (sender, body) = channel();
            sender.send(Ok(Frame::data(piece(1)))).await.unwrap();
            let request = Request::post("/").body(body).unwrap();
            let response = host.call(request, CallContext::new("s")).await.unwrap();
            assert_eq!(Answer::read(response).await.unwrap().text(), "1");
            drop(sender);
        }
        until("the slot is free", || (host.in_flight() == 0).then_some(())).await;
        assert_eq!(host.worker_pid(), pid);
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_on_the_way() {
    let function = Function::new(Python, "def handle(event):\n    return 1")
        .with(|config| config.limits.max_request_body_bytes = 3 * MEGABYTE as u64);
    let host = function.start().await;
    let (sender, body) = channel();
    tokio::spawn(async move { while sender.send(Ok(Frame::data(piece(1)))).await.is_ok() {} });
    let request = Request::post("/").body(body).unwrap();
    let error = host.call(request, CallContext::new("s")).await.unwrap_err();
    assert!(
        error.to_string().contains("max_request_body_bytes"),
        "{error}"
    );
    assert_eq!(
        call(&host, json_event(&json!({}))).await.unwrap().text(),
        "1"
    );
}
