//! The queue, deadlines, clients that leave, and workers that die.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Request;
use serde_json::json;
use sless_runtime::{Body, CallContext, CallError, HostState, Reason};
use tokio::task::JoinSet;

use super::support::*;

const SLEEP_PYTHON: &str = "import time\ndef handle(event):\n    print('began')\n    time.sleep(event.get('s', 0))\n    return 1";
const SLEEP_ASYNC: &str = "import asyncio\nasync def handle(event):\n    print('began')\n    await asyncio.sleep(event.get('s', 0))\n    return 1";
const SLEEP_NODE: &str = "exports.handle = async (event) => { console.log('began'); await new Promise((done) => setTimeout(done, 1000 * (event.s ?? 0))); return 1; };";

#[tokio::test]
async fn calls_wait_in_a_bounded_queue() {
    for (language, code) in [(Python, SLEEP_PYTHON), (Node, SLEEP_NODE)] {
        let function = Function::new(language, code).with(|config| config.limits.queue_length = 5);
        let host = Arc::new(function.start().await);
        let mut calls = JoinSet::new();
        for _ in 0..20 {
            let host = Arc::clone(&host);
            calls.spawn(async move { call(&host, json_event(&json!({"s": 0.1}))).await });
        }
        let (mut answered, mut refused) = (0, 0);
        while let Some(done) = calls.join_next().await {
            match done.unwrap() {
                Ok(answer) => {
                    assert_eq!(answer.text(), "1");
                    answered += 1;
                }
                Err(
                    error @ CallError::Overloaded {
                        limit: "queue_length",
                        value: 5,
                        ..
                    },
                ) => {
                    assert_eq!(error.status(), 429);
                    assert!(error.retry_after().unwrap() > Duration::ZERO);
                    refused += 1;
                }
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!((answered, refused), (6, 14));
        assert_eq!((host.in_flight(), host.queued()), (0, 0));
    }
}

#[tokio::test]
async fn as_many_calls_run_at_once_as_were_asked_for() {
    for (language, code) in [
        (Python, SLEEP_PYTHON),
        (Python, SLEEP_ASYNC),
        (Node, SLEEP_NODE),
    ] {
        let function = Function::new(language, code).with(|config| config.concurrency = 10);
        let host = Arc::new(function.start().await);
        let began = Instant::now();
        let mut calls = JoinSet::new();
        for _ in 0..20 {
            let host = Arc::clone(&host);
            calls.spawn(async move { call(&host, json_event(&json!({"s": 0.5}))).await.unwrap() });
        }
        until("ten in flight", || {
            (host.in_flight() == 10 && host.queued() == 10).then_some(())
        })
        .await;
        calls.join_all().await;
        let time = began.elapsed();
        assert!(
            time >= Duration::from_millis(1000) && time < Duration::from_secs(4),
            "{time:?}"
        );
    }
}

#[tokio::test]
async fn a_killed_worker_costs_its_calls_and_nothing_else() {
    for (language, code) in [(Python, SLEEP_PYTHON), (Node, SLEEP_NODE)] {
        let function = Function::new(language, code);
        let host = Arc::new(function.start().await);
        let running = {
            let host = Arc::clone(&host);
            tokio::spawn(async move { call(&host, json_event(&json!({"s": 600}))).await })
        };
        function.logs.wait_for("began").await;
        let waiting = {
            let host = Arc::clone(&host);
            tokio::spawn(async move { call(&host, json_event(&json!({}))).await })
        };
        until("one waits", || (host.queued() == 1).then_some(())).await;
        kill(host.worker_pid().unwrap());
        let error = running.await.unwrap().unwrap_err();
        assert!(
            matches!(
                error,
                CallError::WorkerDied {
                    reason: Reason::Crash,
                    ..
                }
            ),
            "{error}"
        );
        assert!(error.to_string().contains("signal 9"), "{error}");
        assert_eq!(error.status(), 502);
        assert_eq!(waiting.await.unwrap().unwrap().text(), "1");
        // And between calls, whether or not that has been noticed.
        kill(host.worker_pid().unwrap());
        assert_eq!(
            call(&host, json_event(&json!({}))).await.unwrap().text(),
            "1"
        );
        assert_eq!(host.state(), HostState::Ready);
    }
}

#[tokio::test]
async fn a_handler_that_ends_its_process_ends_in_a_crash_loop() {
    for (language, code) in [
        (
            Python,
            "import os\ndef handle(event):\n    print('last words')\n    os._exit(7)",
        ),
        (
            Node,
            "exports.handle = (event) => { console.log('last words'); process.exit(7); };",
        ),
    ] {
        let function = Function::new(language, code).with(|config| {
            config.restart.min_backoff = Duration::from_secs(300);
            config.restart.max_backoff = Duration::from_secs(300);
            config.restart.crash_loop_after = 2;
        });
        let host = function.start().await;
        for _ in 0..2 {
            let error = call(&host, json_event(&json!({}))).await.unwrap_err();
            assert!(error.to_string().contains("status 7"), "{error}");
        }
        let state = until("crash loop", || {
            Some(host.state()).filter(|state| matches!(state, HostState::Failing { .. }))
        })
        .await;
        let HostState::Failing {
            reason, log_tail, ..
        } = state
        else {
            unreachable!()
        };
        assert_eq!(reason, Reason::CrashLoop);
        assert!(log_tail.contains("last words"), "{log_tail}");
        let error = call(&host, json_event(&json!({}))).await.unwrap_err();
        assert_eq!((error.word(), error.status().as_u16()), ("crash_loop", 503));
        assert!(error.retry_after().unwrap() > Duration::from_secs(100));
    }
}

#[tokio::test]
async fn a_crash_loop_heals() {
    let code = "import os\ndef handle(event):\n    if not os.path.exists('healed'):\n        os._exit(7)\n    return 1";
    let function = Function::new(Python, code).with(|config| {
        config.restart.min_backoff = Duration::from_millis(10);
        config.restart.crash_loop_after = 2;
    });
    let host = function.start().await;
    let mut changes = host.changes();
    for _ in 0..4 {
        call(&host, json_event(&json!({}))).await.unwrap_err();
        changes.wait_for(HostState::is_ready).await.unwrap();
    }
    std::fs::write(function.folder.path().join("healed"), "").unwrap();
    until("ready", || host.state().is_ready().then_some(())).await;
    assert_eq!(
        call(&host, json_event(&json!({}))).await.unwrap().text(),
        "1"
    );
}

#[tokio::test]
async fn at_its_deadline_a_call_ends_and_the_others_go_on() {
    for (language, code) in [
        (Python, SLEEP_PYTHON),
        (Python, SLEEP_ASYNC),
        (Node, SLEEP_NODE),
    ] {
        let function = Function::new(language, code).with(|config| config.concurrency = 2);
        let host = Arc::new(function.start().await);
        let first = host.worker_pid().unwrap();
        let other = {
            let host = Arc::clone(&host);
            tokio::spawn(async move { call(&host, json_event(&json!({"s": 1.5}))).await })
        };
        let context = CallContext::new("slow").with_timeout(Duration::from_millis(300));
        let began = Instant::now();
        let error = call_as(&host, json_event(&json!({"s": 600})), context)
            .await
            .unwrap_err();
        assert!(
            matches!(error, CallError::Timeout { .. }) && error.status() == 504,
            "{error}"
        );
        assert!(
            began.elapsed() < Duration::from_millis(1200),
            "{:?}",
            began.elapsed()
        );
        // The next call gets a fresh worker while the old one still runs the other call.
        assert_eq!(
            call(&host, json_event(&json!({}))).await.unwrap().text(),
            "1"
        );
        let second = until("a fresh worker", || {
            host.worker_pid().filter(|pid| *pid != first)
        })
        .await;
        assert!(is_alive(first) && is_alive(second));
        assert_eq!(other.await.unwrap().unwrap().text(), "1");
        until("the old worker's end", || (!is_alive(first)).then_some(())).await;
        assert!(is_alive(second));
    }
}

#[tokio::test]
async fn a_handler_that_hangs_is_replaced() {
    for (language, code) in [
        (
            Python,
            "def handle(event):\n    while event: pass\n    return 1",
        ),
        (
            Python,
            "async def handle(event):\n    while event: pass\n    return 1",
        ),
        (
            Node,
            "exports.handle = (event) => { while (event.x); return 1; };",
        ),
    ] {
        let function =
            Function::new(language, code).with(|c| c.timeout = Duration::from_millis(300));
        let host = function.start().await;
        let error = call(&host, json_event(&json!({"x": 1}))).await.unwrap_err();
        assert_eq!(error.word(), "timeout");
        let context = CallContext::new("next");
        let mut next = call_as(&host, json_event(&json!({})), context.clone()).await;
        // On a busy machine the fresh worker may take longer than this function's short time.
        while matches!(next, Err(CallError::Timeout { .. })) {
            next = call_as(&host, json_event(&json!({})), context.clone()).await;
        }
        assert_eq!(next.unwrap().text(), "1");
    }
}

#[tokio::test]
async fn time_in_the_queue_counts() {
    let function = Function::new(Python, SLEEP_PYTHON);
    let host = Arc::new(function.start().await);
    let busy = {
        let host = Arc::clone(&host);
        tokio::spawn(async move { call(&host, json_event(&json!({"s": 1}))).await })
    };
    function.logs.wait_for("began").await;
    let context = CallContext::new("late").with_timeout(Duration::from_millis(50));
    let error = call_as(&host, json_event(&json!({})), context)
        .await
        .unwrap_err();
    assert_eq!(error.word(), "timeout");
    assert_eq!(host.queued(), 0);
    // It waited only, so the worker is not to blame.
    assert_eq!(busy.await.unwrap().unwrap().text(), "1");
    assert_eq!(host.state(), HostState::Ready);
}

#[tokio::test]
async fn a_client_that_leaves_is_told_of() {
    let python = r#"
import time
def handle(event, context):
    print("began")
    while event and not context.cancelled:
        time.sleep(0.005)
    print("told")
    return 1
"#;
    let python_async = r#"
import asyncio
async def handle(event, context):
    print("began")
    try:
        await asyncio.sleep(600 if event else 0)
    except asyncio.CancelledError:
        print("told", context.cancelled)
        raise
    return 1
"#;
    let node = r#"
exports.handle = async (event, context) => {
  console.log('began');
  if (event.x) await new Promise((done) => context.signal.addEventListener('abort', done));
  console.log('told', context.cancelled);
  return 1;
};
"#;
    for (language, code) in [(Python, python), (Python, python_async), (Node, node)] {
        let function = Function::new(language, code);
        let host = function.start().await;
        let pid = host.worker_pid();
        tokio::select! {
            answer = call(&host, json_event(&json!({"x": 1}))) => panic!("{answer:?}"),
            _ = function.logs.wait_for("began") => {}
        }
        function.logs.wait_for("told").await;
        until("the slot is free", || (host.in_flight() == 0).then_some(())).await;
        assert_eq!(
            call(&host, json_event(&json!({}))).await.unwrap().text(),
            "1"
        );
        assert_eq!(host.worker_pid(), pid, "the worker was replaced");
    }
}

#[tokio::test]
async fn a_handler_that_ignores_a_client_that_left_is_replaced_at_the_deadline() {
    let function = Function::new(Python, SLEEP_PYTHON);
    let host = function.start().await;
    let first = host.worker_pid().unwrap();
    let context = CallContext::new("gone").with_timeout(Duration::from_millis(500));
    tokio::select! {
        answer = call_as(&host, json_event(&json!({"s": 600})), context) => panic!("{answer:?}"),
        _ = function.logs.wait_for("began") => {}
    }
    assert_eq!(host.in_flight(), 1);
    assert_eq!(
        call(&host, json_event(&json!({}))).await.unwrap().text(),
        "1"
    );
    until("the old worker's end", || (!is_alive(first)).then_some(())).await;
}

#[tokio::test]
async fn a_waiting_call_that_leaves_gives_its_place_back() {
    let function =
        Function::new(Python, SLEEP_PYTHON).with(|config| config.limits.queue_length = 1);
    let host = Arc::new(function.start().await);
    let busy = {
        let host = Arc::clone(&host);
        tokio::spawn(async move { call(&host, json_event(&json!({"s": 0.5}))).await })
    };
    function.logs.wait_for("began").await;
    for _ in 0..50 {
        let _ = tokio::time::timeout(
            Duration::from_millis(1),
            call(&host, json_event(&json!({}))),
        )
        .await;
    }
    assert_eq!(host.queued(), 0);
    assert_eq!(
        call(&host, json_event(&json!({}))).await.unwrap().text(),
        "1"
    );
    busy.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let function = Function::new(Python, SLEEP_PYTHON).with(|config| {
        config.limits.max_request_head_bytes = 1000;
        config.limits.max_request_body_bytes = 1000;
    });
    let host = function.start().await;
    let request = Request::get("/")
        .header("x-long", "y".repeat(2000))
        .body(Body::empty())
        .unwrap();
    let error = call(&host, request).await.unwrap_err();
    assert!(
        error.to_string().contains("max_request_head_bytes"),
        "{error}"
    );
    assert_eq!(error.status(), 431);
    let error = call(&host, post("text/plain", "y".repeat(2000)))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("max_request_body_bytes"),
        "{error}"
    );
    assert_eq!(error.status(), 413);
}
