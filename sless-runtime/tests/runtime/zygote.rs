//! Workers that are forked from a process that has imported the handler already.
#![cfg(target_os = "linux")]
#![allow(clippy::print_stdout, reason = "figures are told, not judged")]

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use sless_runtime::{Confinement, Host, Sandbox, Zygote};

use super::support::*;

const ANSWERS: &str = "def handle(event):\n    return 1\n";

impl Function {
    /// Starts a host whose worker was forked.
    pub(super) async fn fork(&self, zygote: &Arc<Zygote>) -> Host {
        let host = self.start_from(zygote).await;
        let worker = host.worker_pid().unwrap();
        assert_eq!(zygote.own_process(), None);
        assert_eq!(Some(parent(worker)), zygote.pid(), "it was not forked");
        host
    }

    /// In a sandbox, as far as this machine has one.
    pub(super) fn confined(self) -> Self {
        let home = self.folder.path().join("home");
        std::fs::create_dir(&home).unwrap();
        self.with(|config| {
            config.temp_dir = home;
            config.sandbox = Sandbox::Confined(Confinement::default());
        })
    }

    pub(super) async fn start_from(&self, zygote: &Arc<Zygote>) -> Host {
        Host::start_from(zygote.clone(), self.config.clone(), self.logs.clone())
            .await
            .unwrap_or_else(|error| panic!("{error}\n{}", error.log_tail))
    }
}

pub(super) fn parent(process: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    line.unwrap().trim().parse().unwrap()
}

/// Memory that no other process has, in KiB.
fn private(process: u32) -> u64 {
    let all = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap();
    let size = |line: &str| line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok();
    let private = all.lines().filter(|line| line.starts_with("Private_"));
    private.filter_map(size).sum()
}

pub(super) async fn answers(host: &Host, text: &str) {
    let answer = call(host, json_event(&json!({}))).await.unwrap();
    assert_eq!((answer.status(), answer.text()), (200, text));
}

#[tokio::test]
async fn copies_share_what_the_import_made() {
    const MOST_KIB: u64 = 2 * 1024;
    let code = "import asyncio, decimal, json, logging, ssl, urllib.request\nTABLE = [str(n) for n in range(100_000)]\ndef handle(event):\n    return len(TABLE)\n";
    let asynchronous = code
        .replace("def handle", "async def handle")
        .replace("decimal, json, logging, ssl, urllib.request", "json");
    for code in [code, &asynchronous] {
        let function = Function::new(Python, code);
        let own = Host::start(function.config.clone(), function.logs.clone());
        let own = own.await.unwrap();
        answers(&own, "100000").await;
        let zygote = Arc::new(Zygote::new());
        let mut hosts = Vec::new();
        for _ in 0..3 {
            let host = function.fork(&zygote).await;
            answers(&host, "100000").await;
            hosts.push(host);
        }
        let own = private(own.worker_pid().unwrap());
        let copies = hosts.iter().map(|host| private(host.worker_pid().unwrap()));
        let copies: Vec<u64> = copies.collect();
        println!("private KiB: a process of its own {own}, copies {copies:?}");
        assert!(copies.iter().all(|copy| *copy <= MOST_KIB), "{copies:?}");
        assert!(copies.iter().all(|copy| copy * 2 < own), "{copies:?}");
    }
}

/// What a handler can see of its process.
const LOOKS: &str = r#"
import os, signal, sys, threading
IMPORTED_ON = threading.current_thread() is threading.main_thread()
def handle(event, context):
    fds = sorted(os.listdir('/proc/self/fd'), key=int)
    kinds = [os.readlink('/proc/self/fd/' + fd).split(':')[0] for fd in fds if os.path.exists('/proc/self/fd/' + fd) or int(fd) < 3]
    return {
        'env': dict(os.environ), 'cwd': os.getcwd(), 'argv': sys.argv, 'path': sys.path,
        'main': threading.current_thread() is threading.main_thread(), 'imported': IMPORTED_ON,
        'leads': os.getpgid(0) == os.getpid(), 'umask': os.umask(0o22), 'name': __name__,
        'signals': [str(signal.getsignal(n)).split(' at ')[0] for n in range(1, 32) if n not in (9, 19)],
        'blocked': [int(n) for n in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
        'streams': [sys.stdin.fileno(), sys.stdout.fileno(), sys.stderr.fileno()],
        'files': [os.readlink('/proc/self/fd/%d' % n).split(':')[0] for n in range(3)],
        'inherited': [n for n in range(3, 64) if is_inherited(n)],
        'sockets': sum(is_socket(fd) for fd in fds),
        'context': [context.function_name, context.namespace, context.function_uid, context.path],
        'limit': __import__('resource').getrlimit(__import__('resource').RLIMIT_AS),
    }
def is_inherited(n):
    try:
        return os.get_inheritable(n)
    except OSError:
        return False
def is_socket(fd):
    try:
        return os.readlink('/proc/self/fd/' + fd).startswith('socket:')
    except OSError:
        return False
"#;

#[tokio::test]
async fn a_copy_looks_to_its_handler_like_a_process_of_its_own() {
    for concurrency in [1, 3] {
        let function = Function::new(Python, LOOKS).with(|config| {
            config.env.insert("COLOUR".into(), "red".into());
            config.name = "fn".into();
            config.namespace = "ns".into();
            config.uid = "uid".into();
            config.instance = "marked".into();
            config.memory_limit = Some(512 << 20);
            config.concurrency = concurrency;
        });
        let zygote = Arc::new(Zygote::new());
        let (own, copy) = (function.start().await, function.fork(&zygote).await);
        let own = call(&own, json_event(&json!({}))).await.unwrap().json();
        let copy = call(&copy, json_event(&json!({}))).await.unwrap().json();
        assert_eq!(own, copy);
        assert_eq!(copy["env"]["SLESS_INSTANCE"], "marked");
        assert_eq!(copy["leads"], true);
    }
}

#[tokio::test]
async fn where_copies_would_not_be_safe_each_is_a_process_of_its_own() {
    let cases = [
        (
            "import threading, time\nthreading.Thread(target=time.sleep, args=[600], name='poller', daemon=True).start()",
            "poller",
        ),
        (
            "import _thread, time\n_thread.start_new_thread(time.sleep, (600,))",
            "thread",
        ),
        (
            "import faulthandler\nfaulthandler.dump_traceback_later(600)",
            "2 threads",
        ),
        ("import socket\nS = socket.socket()", "a socket"),
        ("import os\nP = os.pipe()", "a pipe"),
        ("F = open(__file__)", "handler.py"),
        (
            "import asyncio\nL = asyncio.new_event_loop()",
            "(descriptor",
        ),
        ("import select\nE = select.epoll()", "an event loop"),
        (
            "import sqlite3\nD = sqlite3.connect('file.db')\nD.execute('create table if not exists t (a)')",
            "file.db",
        ),
        ("import mmap\nM = mmap.mmap(-1, 4096)", "shared memory"),
        (
            "import multiprocessing\nV = multiprocessing.Value('i', 0)",
            "temporary",
        ),
        (
            "import subprocess\nC = subprocess.Popen(['sleep', '600'])",
            "a process",
        ),
        (
            "import signal\nsignal.signal(signal.SIGCHLD, lambda *_: None)",
            "SIGCHLD",
        ),
        (
            "import signal\nsignal.setitimer(signal.ITIMER_REAL, 600)",
            "a timer",
        ),
        ("import tempfile\nT = tempfile.mkdtemp()", "temporary"),
    ];
    let check = async |code: &str, part: &str| {
        let function = Function::new(Python, code);
        let zygote = Arc::new(Zygote::new());
        for _ in 0..2 {
            let host = function.start_from(&zygote).await;
            let why = zygote
                .own_process()
                .unwrap_or_else(|| panic!("it was forked: {code}"));
            assert!(why.contains(part), "{code}: {why}");
            assert_eq!(parent(host.worker_pid().unwrap()), std::process::id());
            assert_eq!(zygote.pid(), None);
            answers(&host, "1").await;
        }
    };
    for (code, part) in cases {
        check(&format!("{code}\n{ANSWERS}"), part).await;
    }
    check(
        &format!("{ANSWERS}handle.own_process = True\n"),
        "own_process",
    )
    .await;
}

#[tokio::test]
async fn what_the_import_has_ended_is_no_hindrance() {
    for code in [
        "import threading\nT = threading.Thread(target=print)\nT.start()\nT.join()",
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(8) as pool:\n    list(pool.map(str, range(100)))",
        "import subprocess\nsubprocess.run(['true'])",
        "import asyncio\nasync def main(): await asyncio.sleep(0)\nasyncio.run(main())",
        "import sqlite3\nwith open(__file__) as f: f.read()\nD = sqlite3.connect(':memory:')",
        "import asyncio, email, http.client, http.server, logging, multiprocessing, random, ssl, tempfile, unittest, uuid, xml.dom.minidom\nlogging.basicConfig()\nR = random.random()",
        "F = open('/dev/null')",
    ] {
        let code = format!("{code}\n{ANSWERS}");
        let function = Function::new(Python, &code);
        let zygote = Arc::new(Zygote::new());
        let host = function.start_from(&zygote).await;
        assert_eq!(zygote.own_process(), None, "{code}");
        answers(&host, "1").await;
    }
}

#[tokio::test]
async fn a_node_worker_and_one_with_many_slots_are_processes_of_their_own() {
    let node = Function::new(Node, "exports.handle = (event) => 1;");
    let many = Function::new(Python, ANSWERS).with(|config| config.concurrency = 300);
    for (function, part) in [(node, "Python"), (many, "concurrency")] {
        let zygote = Arc::new(Zygote::new());
        let host = function.start_from(&zygote).await;
        answers(&host, "1").await;
        let why = zygote.own_process().unwrap();
        assert!(why.contains(part), "{why}");
    }
}

#[tokio::test]
async fn an_import_that_fails_is_told_in_the_same_words() {
    for (code, limit) in [
        ("def handle(", None),
        ("import nothing_of_this_name", None),
        ("raise ValueError('at import')", None),
        ("raise SystemExit(2)", None),
        ("def other(event): pass", None),
        ("handle = 5", None),
        ("def handle(): pass", None),
        ("import os; os._exit(4)", None),
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
            None,
        ),
        ("X = bytearray(1 << 30)", Some(256 << 20)),
        ("print('slow')\nimport time\ntime.sleep(600)", None),
    ] {
        let function = Function::new(Python, code).with(|config| {
            config.memory_limit = limit;
            if code.contains("slow") {
                config.start_timeout = Duration::from_millis(700);
            }
        });
        let own = function.try_start().await.unwrap_err();
        let zygote = Arc::new(Zygote::new());
        let copy = Host::start_from(
            zygote.clone(),
            function.config.clone(),
            function.logs.clone(),
        );
        assert_eq!(copy.await.unwrap_err(), own, "{code}");
        assert_eq!((zygote.pid(), zygote.own_process()), (None, None));
    }
}

#[tokio::test]
async fn each_copy_draws_numbers_of_its_own() {
    let code = "import os, random, secrets, tempfile, uuid\nFIRST = random.random()\ndef handle(event):\n    return [str(x) for x in (random.random(), os.urandom(8).hex(), secrets.token_hex(8), uuid.uuid4(), uuid.uuid1(), tempfile.mktemp())]\n";
    let function = Function::new(Python, code);
    let zygote = Arc::new(Zygote::new());
    let (mut seen, mut count) = (HashSet::new(), 0);
    for _ in 0..5 {
        let host = function.fork(&zygote).await;
        let answer = call(&host, json_event(&json!({}))).await.unwrap();
        for number in answer.json().as_array().unwrap() {
            assert!(seen.insert(number.to_string()), "twice: {number}");
            count += 1;
        }
    }
    assert_eq!(count, 30);
}

#[tokio::test]
async fn lines_are_those_of_the_copy_that_wrote_them() {
    let code = "import os, subprocess, sys\nprint('imported once')\nsys.stdout.write('without an end')\ndef handle(event):\n    print('printed', event)\n    print('error', event, file=sys.stderr)\n    os.write(1, b'raw %d\\n' % event)\n    subprocess.run(['sh', '-c', 'echo out %d; echo err %d >&2' % (event, event)])\n    return 1\n";
    let function = Function::new(Python, code);
    let zygote = Arc::new(Zygote::new());
    let logs: Vec<Arc<Captured>> = (0..3).map(|_| Arc::default()).collect();
    let mut hosts = Vec::new();
    for log in &logs {
        let host = Host::start_from(zygote.clone(), function.config.clone(), log.clone());
        hosts.push(host.await.unwrap());
    }
    for (number, host) in hosts.iter().enumerate() {
        call(host, json_event(&json!(number))).await.unwrap();
    }
    for host in &hosts {
        host.drain(PATIENCE).await;
    }
    for (number, log) in logs.iter().enumerate() {
        let mut expected: Vec<_> = ["printed", "error", "raw", "out", "err"]
            .map(|what| format!("{what} {number}"))
            .into();
        if number == 0 {
            expected.extend(["imported once".to_owned(), "without an end".to_owned()]);
        }
        let mut lines: Vec<_> = log.lines().into_iter().map(|line| line.text).collect();
        expected.sort();
        lines.sort();
        assert_eq!(lines, expected);
    }
}

#[tokio::test]
async fn starts_at_once_import_once() {
    let code = format!("print('importing')\n{ANSWERS}");
    let function = Arc::new(Function::new(Python, &code));
    let zygote = Arc::new(Zygote::new());
    let mut starts = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (function, zygote) = (function.clone(), zygote.clone());
        starts.spawn(async move { function.fork(&zygote).await });
    }
    let hosts = starts.join_all().await;
    for host in &hosts {
        answers(host, "1").await;
    }
    function.logs.wait_for("importing").await;
    assert_eq!(function.logs.lines().len(), 1);
}

#[tokio::test]
async fn a_copy_takes_many_calls_at_once_and_ends_gently() {
    let code = "import atexit, time\nKEPT = []\ndef handle(event):\n    if not KEPT:\n        KEPT.append(atexit.register(lambda: print('bye')))\n    time.sleep(0.2)\n    return 1\n";
    let asynchronous = code
        .replace("import atexit, time", "import asyncio, atexit")
        .replace("def handle", "async def handle")
        .replace("time.sleep", "await asyncio.sleep");
    for code in [code, &asynchronous] {
        let function = Function::new(Python, code).with(|config| config.concurrency = 8);
        let zygote = Arc::new(Zygote::new());
        let host = function.fork(&zygote).await;
        let began = Instant::now();
        let calls = (0..8).map(|_| call(&host, json_event(&json!({}))));
        for answer in futures::future::join_all(calls).await {
            assert_eq!(answer.unwrap().text(), "1");
        }
        assert!(began.elapsed() < Duration::from_millis(1500), "one by one");
        host.drain(PATIENCE).await;
        assert!(function.logs.find("bye").is_some());
    }
}

#[tokio::test]
async fn a_confined_copy_is_forked_and_has_bounds_of_its_own() {
    let function = Function::new(Python, ANSWERS).confined();
    let zygote = Arc::new(Zygote::new());
    let hosts = [function.fork(&zygote).await, function.fork(&zygote).await];
    for host in &hosts {
        answers(host, "1").await;
    }
    let groups = |process: u32| std::fs::read_to_string(format!("/proc/{process}/cgroup")).unwrap();
    let (own, parent) = (groups(std::process::id()), zygote.pid().unwrap());
    if groups(parent) == own {
        // This machine gives processes no groups.
        return;
    }
    let copies = hosts.each_ref().map(|host| host.worker_pid().unwrap());
    until("each has groups of its own", || {
        let all: HashSet<_> = [parent, copies[0], copies[1]].map(groups).into();
        (all.len() == 3).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_fork_is_quicker_than_a_start() {
    let rounds = std::env::var("SLESS_TEST_FORKS").map_or(20, |rounds| rounds.parse().unwrap());
    let function = Function::new(Python, &format!("import json\n{ANSWERS}"));
    let zygote = Arc::new(Zygote::new());
    let (mut own, mut forked) = (Vec::new(), Vec::new());
    drop(function.fork(&zygote).await);
    for _ in 0..rounds {
        let began = Instant::now();
        let host = function.start().await;
        answers(&host, "1").await;
        own.push(began.elapsed());
        host.drain(PATIENCE).await;
        let began = Instant::now();
        let host = function.start_from(&zygote).await;
        answers(&host, "1").await;
        forked.push(began.elapsed());
        host.drain(PATIENCE).await;
    }
    own.sort();
    forked.sort();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap();
    let (own_half, forked_half) = (own[rounds / 2], forked[rounds / 2]);
    println!(
        "start to first byte, median (least, most) of {rounds}: own process {own_half:?} ({:?}, {:?}), fork {forked_half:?} ({:?}, {:?}); load {load}",
        own[0],
        own[rounds - 1],
        forked[0],
        forked[rounds - 1],
    );
    assert!(forked_half * 2 < own_half, "{forked_half:?}, {own_half:?}");
}
