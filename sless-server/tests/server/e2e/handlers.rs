//! Uploads, handlers and logs on which systems of this kind have failed.

use std::{
    io::{Cursor, Write},
    time::{Duration, Instant},
};

use futures::{StreamExt, future};
use rustix::process::{Pid, Signal, kill_process};
use sless_api::{
    CreateFunction, FunctionPhase, LogQuery,
    client::{Call, Content},
};

use super::{
    machine::{Machine, json, node, python, zip},
    process::{DEADLINE, marked_processes},
};

async fn machine() -> (tempfile::TempDir, Machine) {
    let data = tempfile::tempdir().unwrap();
    let machine = Machine::start(data.path()).await;
    (data, machine)
}

/// A zip as Windows makes them: its names are taken as they stand, and modes are odd.
fn odd_zip(files: &[(&str, &str, u32)]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (at, (_, text, mode)) in files.iter().enumerate() {
        let options = zip::write::SimpleFileOptions::default().unix_permissions(*mode);
        // The writer would turn the slashes, so the name is put in afterwards.
        zip.start_file(placeholder(at, files[at].0.len()), options)
            .unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    let mut bytes = zip.finish().unwrap().into_inner();
    for (at, (name, ..)) in files.iter().enumerate() {
        let placeholder = placeholder(at, name.len());
        let mut from = 0;
        while let Some(found) = bytes[from..]
            .windows(name.len())
            .position(|part| part == placeholder.as_bytes())
        {
            bytes[from + found..][..name.len()].copy_from_slice(name.as_bytes());
            from += found;
        }
    }
    bytes
}

fn placeholder(at: usize, length: usize) -> String {
    let letter = char::from(b'A' + u8::try_from(at).unwrap());
    std::iter::repeat_n(letter, length).collect()
}

#[tokio::test]
async fn a_zip_made_on_windows_with_private_modes_runs() {
    let (_data, machine) = machine().await;
    let handler = "from lib.util import WORD\ndef handle(event):\n    return WORD\n";
    let files = [
        ("handler.py", handler, 0o600),
        ("lib\\__init__.py", "", 0o600),
        ("lib\\util.py", "WORD = 'found'\n", 0o400),
    ];
    let zip = odd_zip(&files);
    assert!(zip.windows(11).any(|part| part == b"lib\\util.py"));
    machine.upload(&python("win"), zip).await;
    let function = machine.settled("win").await;
    assert_eq!(function.phase, FunctionPhase::Ready, "{function:?}");
    let (status, body) = machine.call("win", Call::new("GET")).await;
    assert_eq!((status, &*body), (200, &b"found"[..]));
    let source = machine
        .client
        .source(&machine.namespace, "win")
        .await
        .unwrap();
    let names: Vec<_> = source.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["handler.py", "lib/__init__.py", "lib/util.py"]);
    machine.stop().await;
}

#[tokio::test]
async fn what_cannot_be_imported_fails_the_deploy_with_the_trace_in_its_log() {
    let (_data, machine) = machine().await;
    for (name, code, reason, trace) in [
        (
            "syntax",
            "def handle(event:\n",
            "handler_import",
            "SyntaxError",
        ),
        (
            "import",
            "import nothing_of_this_name\n",
            "handler_import",
            "ModuleNotFoundError",
        ),
        (
            "none",
            "def other(event):\n    pass\n",
            "handler_missing",
            "handle",
        ),
        (
            "three",
            "def handle(a, b, c):\n    pass\n",
            "handler_signature",
            "handle",
        ),
    ] {
        machine
            .upload(&python(name), zip(&[("handler.py", code)]))
            .await;
        let function = machine.settled(name).await;
        assert_eq!(function.phase, FunctionPhase::Failed, "{function:?}");
        assert_eq!(function.reason.as_deref(), Some(reason), "{function:?}");
        machine.logged(name, trace).await;
        let (status, body) = machine.call(name, Call::new("GET")).await;
        let body = String::from_utf8(body).unwrap();
        assert!(status == 503 && body.contains(reason), "{status}: {body}");
    }
    machine.stop().await;
}

#[tokio::test]
async fn a_line_without_an_end_is_cut_and_hides_nothing_that_follows() {
    let (_data, machine) = machine().await;
    let code = "def handle(event):\n    print('x' * 5_000_000, end='')\n    print()\n    \
                print('after', event['n'])\n    return event['n']\n";
    let function = CreateFunction {
        concurrency: Some(20),
        ..python("talks")
    };
    machine.deploy(function, &[("handler.py", code)]).await;
    let calls = (0..20).map(|number| {
        let machine = &machine;
        async move {
            let (status, body) = machine
                .call("talks", json(&format!("{{\"n\":{number}}}")))
                .await;
            assert_eq!(
                (status, String::from_utf8(body).unwrap()),
                (200, number.to_string())
            );
        }
    });
    future::join_all(calls).await;
    machine.logged("talks", "after").await;
    let lines = machine
        .client
        .logs(&machine.namespace, "talks", &LogQuery::default())
        .await
        .unwrap();
    let lines: Vec<_> = lines.map(Result::unwrap).collect().await;
    let cut = lines.iter().filter(|line| line.truncated).count();
    assert!(cut > 0, "a long line is marked as cut");
    let longest = lines.iter().map(|line| line.text.len()).max().unwrap();
    assert!(longest < 100_000, "{longest}");
    machine.stop().await;
}

#[tokio::test]
async fn what_is_printed_is_seen_while_the_call_goes_on() {
    let (_data, machine) = machine().await;
    let code = "import time\ndef handle(event):\n    print('begun')\n    time.sleep(30)\n";
    machine
        .deploy(python("sleeps"), &[("handler.py", code)])
        .await;
    let query = LogQuery {
        follow: true,
        ..LogQuery::default()
    };
    let mut log = machine
        .client
        .logs(&machine.namespace, "sleeps", &query)
        .await
        .unwrap();
    let began = Instant::now();
    let call = machine
        .client
        .call(&machine.namespace, "sleeps", Call::new("GET"));
    let line = async {
        while let Some(line) = log.next().await {
            if line.unwrap().text == "begun" {
                return;
            }
        }
        panic!("the log ended");
    };
    tokio::select! {
        () = line => {}
        answer = call => panic!("answered first: {answer:?}"),
    }
    // A second from the print; what is before it is the start of the worker.
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    machine.stop().await;
}

#[tokio::test]
async fn bytes_go_in_and_out_as_they_are() {
    let (_data, machine) = machine().await;
    let py = "def handle(event, context):\n    \
              if context.path == '/text':\n        return {'text': event}\n    \
              return {'statusCode': 200, 'headers': {'content-type': 'image/x'}, 'body': event}\n";
    let js = "exports.handle = (event, context) => context.path === '/text' ? { text: event } \
              : { statusCode: 200, headers: { 'content-type': 'image/x' }, body: event };\n";
    machine.deploy(python("py"), &[("handler.py", py)]).await;
    machine.deploy(node("js"), &[("handler.js", js)]).await;
    let bytes: Vec<u8> = (0..=255).collect();
    for name in ["py", "js"] {
        let call = Call::new("POST")
            .with_header("content-type", "application/octet-stream")
            .with_body(Content::bytes(bytes.clone()));
        assert_eq!(
            machine.call(name, call).await,
            (200, bytes.clone()),
            "{name}"
        );
        let call = Call::new("POST")
            .with_tail("/text")
            .with_header("content-type", "text/plain; charset=latin1")
            .with_body(Content::bytes(b"caf\xe9".to_vec()));
        let (status, body) = machine.call(name, call).await;
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            (status, body["text"].as_str()),
            (200, Some("café")),
            "{name}"
        );
    }
    machine.stop().await;
}

#[tokio::test]
async fn calls_queue_up_to_a_named_limit_and_a_killed_worker_costs_one_call() {
    let (_data, machine) = machine().await;
    let code = "import os, time\ndef handle(event):\n    print(event.get('say'), 'begins')\n    \
                time.sleep(event.get('s', 0.02))\n    return os.getpid()\n";
    machine.deploy(python("one"), &[("handler.py", code)]).await;
    let calls = (0..20).map(|_| machine.call("one", json("{}")));
    let statuses: Vec<_> = future::join_all(calls)
        .await
        .into_iter()
        .map(|(status, _)| status)
        .collect();
    assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");

    // Far more than may wait: the rest is told to come again.
    let calls = (0..160).map(|_| async {
        let call = json("{\"s\":0.01}");
        let mut answer = machine
            .client
            .call(&machine.namespace, "one", call)
            .await
            .unwrap();
        let field = |name: &str| {
            let found = answer.headers.iter().find(|(field, _)| field == name);
            found.map(|(_, value)| value.clone())
        };
        let (retry, word) = (field("retry-after"), field("x-sless-error"));
        while answer.body.next().await.is_some() {}
        (answer.status, retry, word)
    });
    let answers = future::join_all(calls).await;
    let refused: Vec<_> = answers
        .iter()
        .filter(|(status, ..)| *status != 200)
        .collect();
    assert!(!refused.is_empty(), "160 calls at once fit into the queue");
    for (status, retry, word) in refused {
        assert!(matches!(status, 429 | 503), "{status}");
        assert!(retry.is_some() && word.is_some(), "{retry:?} {word:?}");
    }

    let (_, before) = machine.call("one", json("{}")).await;
    let pid: u32 = String::from_utf8(before).unwrap().parse().unwrap();
    let call = machine.call("one", json(r#"{"s":30,"say":"long"}"#));
    let kill = async {
        machine.logged("one", "long begins").await;
        kill_process(
            Pid::from_raw(pid.try_into().unwrap()).unwrap(),
            Signal::KILL,
        )
        .unwrap();
    };
    let ((status, _), ()) = future::join(call, kill).await;
    assert_eq!(status, 502, "the call whose worker was killed");
    let (status, after) = machine.call("one", json("{}")).await;
    assert_eq!(status, 200, "the next call works");
    assert_ne!(String::from_utf8(after).unwrap(), pid.to_string());
    machine.stop().await;
}

#[tokio::test]
async fn a_stopped_server_leaves_no_process() {
    let (_data, machine) = machine().await;
    machine
        .deploy(
            python("a"),
            &[("handler.py", "def handle(e):\n    return 1\n")],
        )
        .await;
    machine
        .deploy(node("b"), &[("handler.js", "exports.handle = () => 1;\n")])
        .await;
    for name in ["a", "b"] {
        assert_eq!(machine.call(name, Call::new("GET")).await.0, 200);
    }
    let marks = super::process::marks_below(machine.process.id());
    assert_eq!(marks.len(), 1, "{marks:?}");
    machine.stop().await;
    let began = Instant::now();
    while marked_processes()
        .iter()
        .any(|(_, _, mark)| marks.contains(mark))
    {
        assert!(began.elapsed() < DEADLINE, "a worker outlived its server");
        tokio::time::sleep(super::process::LOOK).await;
    }
}
