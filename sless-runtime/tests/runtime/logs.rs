//! Lines: whose they are, when they are seen, how long they may be.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use sless_runtime::{CallContext, LogStream};

use super::support::*;

#[tokio::test]
async fn lines_carry_the_call_that_wrote_them() {
    let python = r#"
import sys, logging, threading, time
print("importing")
def handle(event, context):
    for n in range(20):
        print("out", context.request_id, n)
        print("err", context.request_id, n, file=sys.stderr)
        time.sleep(0.001)
    logging.warning("logged %s", context.request_id)
    sys.stdout.write("no end " + context.request_id)
    return 1
"#;
    let python_async = &python
        .replace("def handle", "import asyncio\nasync def handle")
        .replace("time.sleep", "await asyncio.sleep");
    let node = r#"
console.log('importing');
exports.handle = async (event, context) => {
  for (let n = 0; n < 20; n++) {
    console.log('out', context.requestId, n);
    console.error('err', context.requestId, n);
    await new Promise((done) => setTimeout(done, 1));
  }
  console.warn('logged %s', context.requestId);
  process.stdout.write('no end ' + context.requestId);
  return 1;
};
"#;
    for (language, code) in [(Python, python), (Python, python_async), (Node, node)] {
        let function = Function::new(language, code).with(|config| config.concurrency = 4);
        let host = Arc::new(function.start().await);
        assert_eq!(function.logs.wait_for("importing").await.request_id, None);
        let mut calls = tokio::task::JoinSet::new();
        for number in 0..4 {
            let host = Arc::clone(&host);
            let context = CallContext::new(format!("call-{number}"));
            calls.spawn(async move { call_as(&host, json_event(&json!({})), context).await });
        }
        while let Some(done) = calls.join_next().await {
            assert_eq!(done.unwrap().unwrap().text(), "1");
        }
        for number in 0..4 {
            let id = format!("call-{number}");
            function.logs.wait_for(&format!("no end {id}")).await;
            let lines = function.logs.lines();
            let of = |stream| {
                let mine = lines
                    .iter()
                    .filter(|line| line.request_id.as_ref() == Some(&id));
                mine.filter(|line| line.stream == stream)
                    .map(|line| line.text.clone())
                    .collect::<Vec<_>>()
            };
            let mut out: Vec<_> = (0..20).map(|n| format!("out {id} {n}")).collect();
            out.push(format!("no end {id}"));
            assert_eq!(of(LogStream::Stdout), out);
            let err = of(LogStream::Stderr);
            assert_eq!(err.len(), 21, "{err:?}");
            assert!(err[20].ends_with(&format!("logged {id}")), "{err:?}");
        }
    }
}

#[tokio::test]
async fn a_line_is_seen_while_the_handler_goes_on() {
    for (language, code) in [
        (
            Python,
            "import time\ndef handle(e):\n    print('a')\n    time.sleep(30)",
        ),
        (
            Python,
            "import asyncio\nasync def handle(e):\n    print('a')\n    await asyncio.sleep(30)",
        ),
        // Also when it does not let go of the event loop.
        (
            Node,
            "exports.handle = (e) => { console.log('a'); for (const t = Date.now(); Date.now() - t < 30000;); };",
        ),
        (
            Python,
            "import subprocess\ndef handle(e):\n    subprocess.run(['sh', '-c', 'echo a; sleep 30'])",
        ),
    ] {
        let function = Function::new(language, code);
        let host = function.start().await;
        let began = Instant::now();
        tokio::select! {
            answer = call(&host, json_event(&json!({}))) => panic!("{answer:?}"),
            line = function.logs.wait_for("a") => assert_eq!(line.text, "a"),
        }
        assert!(
            began.elapsed() < Duration::from_secs(1),
            "{:?}",
            began.elapsed()
        );
    }
}

#[tokio::test]
async fn a_line_without_end_is_cut_and_the_next_one_is_whole() {
    const LONG: usize = 5 << 20;
    for (language, code) in [
        (
            Python,
            "def handle(e, context):\n    print('x' * (5 << 20), end='')\n    print()\n    print('next', context.request_id)\n    return 1",
        ),
        (
            Python,
            "import os\ndef handle(e, context):\n    os.write(1, b'x' * (5 << 20))\n    os.write(1, b'\\nnext ' + context.request_id.encode() + b'\\n')\n    return 1",
        ),
        (
            Node,
            "exports.handle = (e, context) => { process.stdout.write('x'.repeat(5 << 20)); console.log(); console.log('next', context.requestId); return 1; };",
        ),
    ] {
        let raw = code.contains("os.write");
        let calls = if raw { 3 } else { 20 };
        let function = Function::new(language, code).with(|config| {
            config.concurrency = if raw { 1 } else { 20 };
            config.limits.max_log_line_bytes = 1000;
        });
        let host = Arc::new(function.start().await);
        let mut running = tokio::task::JoinSet::new();
        for number in 0..calls {
            let host = Arc::clone(&host);
            let context = CallContext::new(format!("c{number}"));
            running.spawn(async move { call_as(&host, json_event(&json!({})), context).await });
        }
        while let Some(done) = running.join_next().await {
            assert_eq!(done.unwrap().unwrap().text(), "1");
        }
        for number in 0..calls {
            function.logs.wait_for(&format!("next c{number}")).await;
        }
        let lines = function.logs.lines();
        let cut: Vec<_> = lines.iter().filter(|line| line.truncated).collect();
        assert_eq!(cut.len(), calls, "{language:?}");
        assert!(cut.iter().all(|line| line.text == "x".repeat(1000)));
        let kept: usize = lines.iter().map(|line| line.text.len()).sum();
        assert!(kept < LONG / 100, "{kept}");
        assert!(host.log_tail().len() <= function.config.limits.log_tail_bytes);
    }
}

#[tokio::test]
async fn what_subprocesses_print_is_kept_without_a_call() {
    for (language, code) in [
        (
            Python,
            "import subprocess\ndef handle(e):\n    subprocess.run(['sh', '-c', 'echo from child; echo bad >&2'])\n    return 1",
        ),
        (
            Node,
            "exports.handle = (e) => { require('child_process').spawnSync('sh', ['-c', 'echo from child; echo bad >&2'], { stdio: 'inherit' }); return 1; };",
        ),
    ] {
        let function = Function::new(language, code);
        let host = function.start().await;
        assert_eq!(
            call(&host, json_event(&json!({}))).await.unwrap().text(),
            "1"
        );
        let line = function.logs.wait_for("from child").await;
        assert_eq!((line.stream, line.request_id), (LogStream::Stdout, None));
        assert_eq!(
            function.logs.wait_for("bad").await.stream,
            LogStream::Stderr
        );
    }
}

#[tokio::test]
async fn odd_text_does_no_harm() {
    let python = r"
import sys
def handle(e):
    print('\ud800 lone'); print('tab\tand\rreturn'); print(''); sys.stdout.buffer.write(b'\xff bytes\n')
    sys.stdout.writelines(['a', 'b\n']); print('dots', end='', flush=True); print('é' * 3)
    return sys.stdout.fileno()";
    let function = Function::new(Python, python);
    let host = function.start().await;
    assert_eq!(
        call(&host, json_event(&json!({}))).await.unwrap().text(),
        "1"
    );
    function.logs.wait_for("ééé").await;
    let texts: Vec<_> = function
        .logs
        .lines()
        .into_iter()
        .map(|line| line.text)
        .collect();
    let expected = [
        "? lone",
        "tab\tand\rreturn",
        "",
        "\u{fffd} bytes",
        "ab",
        "dots",
        "ééé",
    ];
    assert_eq!(texts, expected);
}
