//! Environment, draining, and that nothing is left behind.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sless_runtime::HostState;

use super::support::*;

fn instance(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

#[tokio::test]
async fn the_worker_sees_its_own_environment_only() {
    for (language, code) in [
        (
            Python,
            "import os, sys\ndef handle(event):\n    return {'env': dict(os.environ), 'cwd': os.getcwd(), 'argv': len(sys.argv)}",
        ),
        (
            Node,
            "exports.handle = (event) => ({ env: process.env, cwd: process.cwd(), argv: process.argv.length });",
        ),
    ] {
        let function = Function::new(language, code).with(|config| {
            config.env.insert("COLOUR".into(), "red=1\nü".into());
            config.env.insert("LANG".into(), "de_DE.UTF-8".into());
            config.name = "fn".into();
            config.instance = "marked".into();
        });
        let host = function.start().await;
        let mut seen = call(&host, json_event(&json!({}))).await.unwrap().json();
        let env: serde_json::Map<String, Value> = seen["env"].as_object_mut().unwrap().clone();
        assert_eq!(env["COLOUR"], "red=1\nü");
        assert_eq!(env["LANG"], "de_DE.UTF-8");
        assert_eq!(env["SLESS_INSTANCE"], "marked");
        assert_eq!(env["SLESS_FUNCTION"], "fn");
        let known = [
            "COLOUR",
            "LANG",
            "PATH",
            "HOME",
            "TMPDIR",
            "PYTHONUNBUFFERED",
            "LC_CTYPE",
        ];
        for name in env.keys() {
            assert!(
                known.contains(&name.as_str()) || name.starts_with("SLESS_"),
                "{name}"
            );
        }
        assert_eq!(seen["cwd"], function.folder.path().to_str().unwrap());
        assert!(seen["argv"].as_u64().unwrap() <= 2);
    }
}

#[tokio::test]
async fn subprocesses_do_not_inherit_the_sockets() {
    let code = "import subprocess\ndef handle(event):\n    return subprocess.check_output(['ls', '-l', '/proc/self/fd'], close_fds=False, text=True)";
    let host = Function::new(Python, code).start().await;
    let answer = call(&host, json_event(&json!({}))).await.unwrap();
    assert!(!answer.text().contains("socket:"), "{}", answer.text());
}

#[tokio::test]
async fn draining_lets_calls_end_and_refuses_new_ones() {
    for (language, code) in [
        (
            Python,
            "import time\ndef handle(event):\n    print('began')\n    time.sleep(event['s'])\n    return 1",
        ),
        (
            Node,
            "exports.handle = async (event) => { console.log('began'); await new Promise((done) => setTimeout(done, event.s * 1000)); return 1; };",
        ),
    ] {
        let instance = instance("drain");
        let function =
            Function::new(language, code).with(|config| config.instance = instance.clone());
        let host = Arc::new(function.start().await);
        let call_for = |seconds: f64| {
            let host = Arc::clone(&host);
            tokio::spawn(async move { call(&host, json_event(&json!({"s": seconds}))).await })
        };
        let running = call_for(0.5);
        function.logs.wait_for("began").await;
        let waiting = call_for(0.1);
        until("one waits", || (host.queued() == 1).then_some(())).await;
        let draining = {
            let host = Arc::clone(&host);
            tokio::spawn(async move { host.drain(PATIENCE).await })
        };
        until("draining", || {
            (host.state() == HostState::Draining).then_some(())
        })
        .await;
        let error = call(&host, json_event(&json!({"s": 0}))).await.unwrap_err();
        assert_eq!((error.word(), error.status().as_u16()), ("stopped", 503));
        assert_eq!(running.await.unwrap().unwrap().text(), "1");
        assert_eq!(waiting.await.unwrap().unwrap().text(), "1");
        draining.await.unwrap();
        assert_eq!(host.state(), HostState::Stopped);
        assert_eq!(processes_of(&instance), [0u32; 0]);
        host.drain(PATIENCE).await;
    }
}

#[tokio::test]
async fn draining_has_an_end() {
    let instance = instance("stubborn");
    let code = "import signal, subprocess, time\ndef handle(event):\n    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    subprocess.Popen(['sleep', '600'])\n    print('began')\n    time.sleep(600)";
    let function = Function::new(Python, code).with(|config| {
        config.stop_grace = Duration::from_millis(200);
        config.instance = instance.clone();
    });
    let host = Arc::new(function.start().await);
    let running = {
        let host = Arc::clone(&host);
        tokio::spawn(async move { call(&host, json_event(&json!({}))).await })
    };
    function.logs.wait_for("began").await;
    assert_eq!(processes_of(&instance).len(), 2);
    let began = Instant::now();
    host.drain(Duration::from_millis(100)).await;
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    assert!(running.await.unwrap().is_err());
    until("nothing is left", || {
        processes_of(&instance).is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_stopped_python_worker_runs_its_exit_functions() {
    for code in [
        "import atexit\natexit.register(lambda: print('bye'))\ndef handle(event):\n    return 1",
        "import atexit\natexit.register(lambda: print('bye'))\nasync def handle(event):\n    return 1",
    ] {
        let function = Function::new(Python, code);
        let host = function.start().await;
        host.drain(PATIENCE).await;
        assert!(function.logs.find("bye").is_some());
    }
}

#[tokio::test]
async fn dropping_the_host_kills_the_group() {
    for (language, code) in [
        (
            Python,
            "import subprocess\nsubprocess.Popen(['sleep', '600'])\ndef handle(event):\n    return 1",
        ),
        (
            Node,
            "require('child_process').spawn('sleep', ['600']);\nexports.handle = (event) => 1;",
        ),
    ] {
        let instance = instance("group");
        let function =
            Function::new(language, code).with(|config| config.instance = instance.clone());
        let host = function.start().await;
        until("worker and child", || {
            (processes_of(&instance).len() == 2).then_some(())
        })
        .await;
        drop(host);
        until("nothing is left", || {
            processes_of(&instance).is_empty().then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn activity_is_counted() {
    let function = Function::new(
        Python,
        "import time\ndef handle(event):\n    print('began')\n    time.sleep(0.2)",
    );
    let host = Arc::new(function.start().await);
    assert_eq!((host.in_flight(), host.queued()), (0, 0));
    let before = host.last_activity();
    let running = {
        let host = Arc::clone(&host);
        tokio::spawn(async move { call(&host, json_event(&json!({}))).await })
    };
    function.logs.wait_for("began").await;
    assert_eq!(host.in_flight(), 1);
    running.await.unwrap().unwrap();
    assert!(host.last_activity() > before + Duration::from_millis(150));
    assert_eq!(host.in_flight(), 0);
}

#[tokio::test]
async fn memory_is_limited() {
    let function = Function::new(
        Python,
        "def handle(event):\n    return len(bytearray(1 << 30))",
    )
    .with(|config| config.memory_limit = Some(256 << 20));
    let host = function.start().await;
    let answer = call(&host, json_event(&json!({}))).await.unwrap();
    assert_eq!(
        (answer.status(), answer.error().0.as_str()),
        (500, "MemoryError")
    );

    let code = "exports.handle = (event) => { const all = []; for (;;) all.push(new Array(1000).fill({})); };";
    let function = Function::new(Node, code).with(|config| config.memory_limit = Some(32 << 20));
    let host = function.start().await;
    let error = call(&host, json_event(&json!({}))).await.unwrap_err();
    assert_eq!(error.word(), "out_of_memory", "{error}");
}

#[tokio::test]
async fn a_launcher_can_stand_in_front() {
    let function = Function::new(
        Python,
        "import os\ndef handle(event):\n    return os.environ['LAUNCHED']",
    )
    .with(|config| {
        config.command_prefix = ["/usr/bin/env", "LAUNCHED=yes"].map(String::from).to_vec()
    });
    let host = function.start().await;
    assert_eq!(
        call(&host, json_event(&json!({}))).await.unwrap().text(),
        "yes"
    );
}

#[tokio::test]
async fn a_subprocess_that_outlives_its_worker_holds_no_call_up() {
    let instance = instance("outlives");
    let code = "exports.handle = (event) => { require('child_process').spawn('sleep', ['600'], { detached: true, stdio: 'ignore' }); process.exit(5); };";
    let function = Function::new(Node, code).with(|config| config.instance = instance.clone());
    let host = function.start().await;
    let began = Instant::now();
    let error = call(&host, json_event(&json!({}))).await.unwrap_err();
    assert!(error.to_string().contains("status 5"), "{error}");
    assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
    host.drain(PATIENCE).await;
    // It left the process group, so it is found by the mark.
    for pid in processes_of(&instance) {
        kill(pid);
    }
}
