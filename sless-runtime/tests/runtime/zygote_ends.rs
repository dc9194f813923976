//! What is left when a forked worker, its zygote or the whole host ends.
#![cfg(target_os = "linux")]
#![allow(clippy::print_stdout, reason = "the parent waits for a line")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use sless_runtime::Zygote;

use super::support::*;
use super::zygote::{answers, parent};

const ANSWERS: &str = "def handle(event):\n    return 1\n";
/// Set in the process that is killed.
const KILLED: &str = "SLESS_RUNTIME_KILLED_INSTANCE";

fn instance(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

/// Processes that this one has forked, dead ones included.
fn children(process: u32) -> String {
    std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap()
}

async fn gone(instance: &str) {
    until("nothing is left", || {
        processes_of(instance).is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_crash_is_told_in_the_same_words_and_replaced_by_a_fork() {
    for crash in [
        "os.kill(os.getpid(), 9)",
        "os.kill(os.getpid(), signal.SIGSEGV)",
        "os._exit(5)",
        "os._exit(0)",
        "os.abort()",
    ] {
        let code = format!(
            "import os, signal\ndef handle(event):\n    if event == 'end':\n        {crash}\n    return 1\n"
        );
        let function = Function::new(Python, &code);
        let zygote = Arc::new(Zygote::new());
        let own = function.start().await;
        let copy = function.fork(&zygote).await;
        let first = copy.worker_pid().unwrap();
        let ends = || json_event(&json!("end"));
        let own = call(&own, ends()).await.unwrap_err();
        let error = call(&copy, ends()).await.unwrap_err();
        assert_eq!(
            (error.word(), error.to_string()),
            (own.word(), own.to_string()),
            "{crash}"
        );
        answers(&copy, "1").await;
        let second = copy.worker_pid().unwrap();
        assert!(first != second && Some(parent(second)) == zygote.pid());
        until("the dead one was reaped", || {
            (children(zygote.pid().unwrap()).trim() == second.to_string()).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_handler_that_exits_gets_the_answer_that_it_always_got() {
    let function = Function::new(Python, "import sys\ndef handle(event):\n    sys.exit(3)\n");
    let zygote = Arc::new(Zygote::new());
    let (own, copy) = (function.start().await, function.fork(&zygote).await);
    let own = call(&own, json_event(&json!({}))).await.unwrap();
    let copy = call(&copy, json_event(&json!({}))).await.unwrap();
    assert_eq!((own.status(), own.text()), (copy.status(), copy.text()));
}

#[tokio::test]
async fn the_end_of_a_zygote_costs_no_call() {
    let function = Function::new(Python, ANSWERS);
    let zygote = Arc::new(Zygote::new());
    let host = function.fork(&zygote).await;
    let first = zygote.pid().unwrap();
    kill(first);
    until("its end is known", || zygote.pid().is_none().then_some(())).await;
    // Its workers go on.
    answers(&host, "1").await;
    // One that dies now has no parent to tell its status, and is replaced all the same.
    kill(host.worker_pid().unwrap());
    until("another one is up", || {
        host.worker_pid().filter(|_| zygote.pid().is_some())
    })
    .await;
    answers(&host, "1").await;
    let second = zygote.pid().unwrap();
    assert_ne!(first, second);
    // One that dies at the very moment of a start.
    for _ in 0..20 {
        let (kills, starts) = (
            async { zygote.pid().map(kill) },
            function.start_from(&zygote),
        );
        let (_, host) = futures::future::join(kills, starts).await;
        answers(&host, "1").await;
    }
    assert_eq!(zygote.own_process(), None);
}

#[tokio::test]
async fn a_zygote_ends_with_its_place_and_its_last_worker() {
    let instance = instance("place");
    let function = Function::new(Python, ANSWERS).with(|config| config.instance = instance.clone());
    let zygote = Arc::new(Zygote::new());
    let hosts = [function.fork(&zygote).await, function.fork(&zygote).await];
    assert_eq!(processes_of(&instance).len(), 3);
    drop(zygote);
    for host in &hosts {
        answers(host, "1").await;
        host.drain(PATIENCE).await;
    }
    drop(hosts);
    gone(&instance).await;

    let zygote = Arc::new(Zygote::new());
    function.fork(&zygote).await.drain(PATIENCE).await;
    assert_eq!(processes_of(&instance), [zygote.pid().unwrap()]);
    zygote.end().await;
    assert_eq!(processes_of(&instance), [0u32; 0]);
    // The place can be filled again.
    function.fork(&zygote).await.drain(PATIENCE).await;
}

#[tokio::test]
async fn dropping_a_host_kills_the_copy_and_its_group() {
    let instance = instance("dropped-copy");
    let code = "import subprocess\ndef handle(event):\n    subprocess.Popen(['sleep', '600'])\n    return 1\n";
    let function = Function::new(Python, code).with(|config| config.instance = instance.clone());
    let zygote = Arc::new(Zygote::new());
    let host = function.fork(&zygote).await;
    answers(&host, "1").await;
    until("three processes", || {
        (processes_of(&instance).len() == 3).then_some(())
    })
    .await;
    drop(host);
    until("only the zygote is left", || {
        (processes_of(&instance) == [zygote.pid()?]).then_some(())
    })
    .await;
    until("the dead one was reaped", || {
        children(zygote.pid()?).is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_start_that_is_given_up_leaves_nothing() {
    let instance = instance("given-up");
    let function = Function::new(Python, ANSWERS).with(|config| config.instance = instance.clone());
    let zygote = Arc::new(Zygote::new());
    drop(function.fork(&zygote).await);
    for micros in (0..3000).step_by(30) {
        let start = function.start_from(&zygote);
        let _ = tokio::time::timeout(Duration::from_micros(micros), start).await;
    }
    until("only the zygote is left", || {
        (processes_of(&instance) == [zygote.pid()?]).then_some(())
    })
    .await;
    until("all were reaped", || {
        children(zygote.pid()?).is_empty().then_some(())
    })
    .await;
    assert_eq!(zygote.own_process(), None);
}

/// Holds the interpreter in one of its own loops, so that nothing in Python can notice anything.
const BUSY: &str = "import subprocess\ndef handle(event):\n    print('busy', flush=True)\n    if event == 'fork':\n        subprocess.Popen(['sleep', '600'])\n    return sum(range(10**12))\n";

#[tokio::test]
async fn nothing_outlives_a_host_that_is_killed() {
    for confined in [false, true] {
        kill_host(confined).await;
    }
}

async fn kill_host(confined: bool) {
    let instance = instance(if confined {
        "confined-killed"
    } else {
        "killed"
    });
    let mut host = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "runtime::zygote_ends::the_host_that_is_killed",
            "--nocapture",
        ])
        .env(KILLED, &instance)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(host.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("all are up")));
    // The zygote, a copy that waits, one that is busy, one that is busy and has started another process.
    assert_eq!(processes_of(&instance).len(), 5);
    kill(host.id());
    host.wait().unwrap();
    gone(&instance).await;
}

/// Not a test: the other process of the one above.
#[tokio::test]
async fn the_host_that_is_killed() {
    let Ok(instance) = std::env::var(KILLED) else {
        return;
    };
    let mut function = Function::new(Python, BUSY);
    if instance.starts_with("confined") {
        function = function.confined();
    }
    let function = function.with(|config| config.instance = instance.clone());
    let zygote = Arc::new(Zygote::new());
    let _idle = function.fork(&zygote).await;
    let mut calls = Vec::new();
    for event in ["stay", "fork"] {
        let host = function.fork(&zygote).await;
        calls.push(tokio::spawn(async move {
            call(&host, json_event(&json!(event))).await
        }));
    }
    until("all are up", || {
        let busy = function.logs.lines().len() == 2;
        (busy && processes_of(&instance).len() == 5).then_some(())
    })
    .await;
    println!("all are up");
    std::future::pending::<()>().await;
}
