//! The sandbox: what gets out, what works inside, and what of it can be had here.
//!
//! Each escape is tried without the sandbox as well, so that it is known to be one.
#![allow(
    clippy::print_stdout,
    reason = "what was tried and what it costs are told"
)]

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;
use sless_runtime::{Confinement, Enforcement, Host, Language, Sandbox, SandboxReport, Zygote};
use tempfile::TempDir;

use super::support::{Function, Node, Python, call, interpreter, is_alive, json_event, until};

mod needs;

const VICTIM: &str = "
import os, signal, socket, sys, time
os.chdir(sys.argv[1])
held = open('secret')
signal.signal(signal.SIGWINCH, signal.SIG_IGN)
stream = socket.socket(socket.AF_UNIX); stream.bind('stream'); stream.listen()
datagram = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); datagram.bind('datagram')
abstract = socket.socket(socket.AF_UNIX); abstract.bind(chr(0) + sys.argv[2]); abstract.listen()
print('up', flush=True)
time.sleep(600)
";

/// What a function wants to get at: files, a process, sockets.
struct World {
    base: TempDir,
    victim: Child,
    shared: PathBuf,
}

impl World {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        for folder in ["other", "own", "server/db"] {
            std::fs::create_dir_all(base.path().join(folder)).unwrap();
        }
        let files = ["secret", "long", "moved", "taken", "gone", "gone-too"]
            .map(|name| format!("other/{name}"));
        let more = ["server/db/catalog.db", "server/hs256.key"].map(str::to_owned);
        for file in files.iter().chain(&more) {
            std::fs::write(base.path().join(file), "hidden").unwrap();
        }
        let name = base
            .path()
            .file_name()
            .unwrap()
            .to_string_lossy()
            .into_owned();
        let shared = Path::new("/dev/shm").join(&name);
        std::fs::write(&shared, "hidden").unwrap();
        let mut victim = Command::new(interpreter(Python))
            .args(["-c", VICTIM])
            .arg(base.path().join("other"))
            .arg(&name)
            .env("VICTIM", "hidden")
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = victim.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        assert_eq!(line, "up\n");
        Self {
            base,
            victim,
            shared,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }

    fn event(&self) -> serde_json::Value {
        json!({
            "other": self.path("other"),
            "own": self.path("own"),
            "server": self.path("server"),
            "shared": self.shared,
            "victim": self.victim.id(),
            "abstract": self.base.path().file_name().unwrap().to_str(),
            "parent": std::process::id(),
        })
    }

    fn function(&self, language: Language, code: &str, sandbox: Sandbox) -> Function {
        let function = Function::new(language, code);
        function.with(|config| {
            config.temp_dir = self.path("own");
            config.sandbox = sandbox;
        })
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
        let _ = std::fs::remove_file(&self.shared);
    }
}

/// Limits that are quick to reach.
fn small() -> Sandbox {
    let mut confinement = Confinement::default();
    confinement.processes = 100;
    confinement.open_files = 200;
    confinement.file_bytes = 16 << 20;
    confinement.memory_bytes = Some(256 << 20);
    confinement.scratch_bytes = 16 << 20;
    Sandbox::Confined(confinement)
}

#[derive(Debug, Deserialize)]
struct Escape {
    name: String,
    protection: String,
    who: String,
    told: String,
}

impl Escape {
    fn succeeded(&self) -> bool {
        self.told == "escaped"
    }
}

async fn escapes(language: Language, code: &str, sandbox: Sandbox) -> Vec<Escape> {
    let world = World::new();
    let function = world.function(language, code, sandbox);
    let host = function.start().await;
    let answer = call(&host, json_event(&world.event())).await.unwrap();
    assert_eq!(answer.status(), 200, "{}", answer.text());
    host.drain(Duration::from_secs(10)).await;
    serde_json::from_str(answer.text()).unwrap()
}

fn has_namespaces() -> bool {
    let report = SandboxReport::of_this_machine();
    report.lacking().all(|(name, _)| name != "attributes")
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Nothing gets out, save where the report says that this machine cannot keep it in.
async fn nothing_gets_out(language: Language, code: &str, at_least: usize) {
    let _shared = MACHINE.read().await;
    let found = escapes(language, code, small()).await;
    assert!(found.len() >= at_least, "only {} escapes", found.len());
    nothing_escaped(&found);
}

fn nothing_escaped(found: &[Escape]) {
    let report = SandboxReport::of_this_machine();
    println!("{report}");
    for escape in found {
        println!("{}: {}: {}", escape.protection, escape.name, escape.told);
        let mut known = report.protections.iter();
        let known = known.any(|protection| protection.name == escape.protection);
        assert!(known, "{escape:?} is of no protection");
    }
    let lacking: Vec<&str> = report.lacking().map(|(name, _)| name).collect();
    let out: Vec<_> = found
        .iter()
        .filter(|escape| escape.succeeded() && !lacking.contains(&escape.protection.as_str()))
        .collect();
    assert!(out.is_empty(), "{out:#?}\n{report}");
}

/// What nothing confines takes the whole machine for a while: the others wait for it.
static MACHINE: tokio::sync::RwLock<()> = tokio::sync::RwLock::const_new(());

/// Each escape works where nothing stops it, so that the other test can fail.
async fn everything_gets_out_of_no_sandbox(language: Language, code: &str) {
    let _alone = MACHINE.write().await;
    let found = escapes(language, code, Sandbox::Off).await;
    let stuck: Vec<_> = found
        .iter()
        .filter(|escape| escape.who == "all" || (escape.who == "root" && is_root()))
        .filter(|escape| !escape.succeeded())
        .collect();
    assert!(stuck.is_empty(), "{stuck:#?}");
}

const ESCAPES: &str = include_str!("escapes.py");
const NODE_ESCAPES: &str = include_str!("escapes.js");

#[tokio::test]
async fn nothing_gets_out_of_python() {
    nothing_gets_out(Python, ESCAPES, 100).await;
}

#[tokio::test]
async fn nothing_gets_out_of_node() {
    nothing_gets_out(Node, NODE_ESCAPES, 12).await;
}

#[tokio::test]
async fn each_escape_of_python_is_one() {
    everything_gets_out_of_no_sandbox(Python, ESCAPES).await;
}

#[tokio::test]
async fn each_escape_of_node_is_one() {
    everything_gets_out_of_no_sandbox(Node, NODE_ESCAPES).await;
}

/// What a zygote forks is in its sandbox, and leaves as little behind.
#[tokio::test]
async fn a_forked_worker_is_confined_too() {
    let world = World::new();
    let function = world.function(Python, ESCAPES, small());
    let zygote = Arc::new(Zygote::new());
    let start = || {
        Host::start_from(
            zygote.clone(),
            function.config.clone(),
            function.logs.clone(),
        )
    };
    let host = start().await.unwrap();
    assert_eq!(zygote.own_process(), None);
    assert_ne!(host.worker_pid(), zygote.pid());
    let answer = call(&host, json_event(&world.event())).await.unwrap();
    let found: Vec<Escape> = serde_json::from_str(answer.text()).unwrap();
    nothing_escaped(&found);
    host.drain(Duration::from_secs(10)).await;
}

#[tokio::test]
async fn a_required_sandbox_is_refused_where_something_is_lacking() {
    let report = SandboxReport::of_this_machine();
    let lacking: Vec<_> = report.lacking().collect();
    let mut confinement = Confinement::default();
    confinement.required = true;
    let world = World::new();
    let code = "def handle(event): return 1";
    let function = world.function(Python, code, Sandbox::Confined(confinement));
    match function.try_start().await {
        Ok(_) => assert!(lacking.is_empty(), "{report}"),
        Err(error) => {
            assert!(!lacking.is_empty(), "{error}");
            for (name, why) in lacking {
                assert!(
                    error.message.contains(name) && error.message.contains(why),
                    "{error}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_named() {
    let mut confinement = Confinement::default();
    confinement.read.push("/nothing/of/that/name".into());
    let world = World::new();
    let code = "def handle(event): return 1";
    let function = world.function(Python, code, Sandbox::Confined(confinement));
    let error = function.try_start().await.unwrap_err();
    assert!(error.message.contains("/nothing/of/that/name"), "{error}");
}

#[tokio::test]
async fn a_folder_that_is_given_is_read_and_not_written() {
    let world = World::new();
    let mut confinement = Confinement::default();
    confinement.read.push(world.path("other"));
    let code = "
def handle(event):
    try:
        open(event['other'] + '/secret', 'a').write('x')
    except OSError:
        return open(event['other'] + '/secret').read()
";
    let function = world.function(Python, code, Sandbox::Confined(confinement));
    let host = function.start().await;
    let answer = call(&host, json_event(&world.event())).await.unwrap();
    assert_eq!(answer.text(), "hidden");
}

/// Without a control group nobody may be left either: the user namespace tells who belongs to it.
#[tokio::test]
async fn what_left_its_group_ends_with_the_worker() {
    if !has_namespaces() {
        // Without a user namespace, it is found by its mark at the next start.
        return;
    }
    let world = World::new();
    let code = "
import os, subprocess
def handle(event):
    away = 'import os, time; os.setsid(); print(os.fork(), flush=True); time.sleep(600)'
    import sys
    started = subprocess.Popen([sys.executable, '-c', away], env={}, stdout=subprocess.PIPE)
    return [int(started.stdout.readline()), started.pid]
";
    let sandbox = Sandbox::Confined(Confinement::default());
    let function = world.function(Python, code, sandbox);
    let host = function.start().await;
    let answer = call(&host, json_event(&json!({}))).await.unwrap();
    let started: Vec<u32> = serde_json::from_str(answer.text()).unwrap();
    let alive = || started.iter().filter(|pid| is_alive(**pid)).count();
    assert_eq!(alive(), 2, "{started:?}");
    host.drain(Duration::from_secs(10)).await;
    until("the end of all", || (alive() == 0).then_some(())).await;
}

/// As on machines that give no user namespace to users: Landlock and the filter keep in what they can.
#[test]
fn without_a_user_namespace_the_other_walls_stand() {
    if !has_namespaces() {
        // The other tests have shown it.
        return;
    }
    let none = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    let folder = tempfile::tempdir().unwrap();
    for test in ["nothing_gets_out", "need_works_inside"] {
        let ran = Command::new("unshare")
            .args(["--user", "--map-root-user", "sh", "-c", none, "sh"])
            .arg(std::env::current_exe().unwrap())
            .args([test, "--nocapture"])
            .env("TMPDIR", folder.path())
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&ran.stdout);
        assert!(
            ran.status.success(),
            "{told}{}",
            String::from_utf8_lossy(&ran.stderr)
        );
        assert!(told.contains(" 2 passed"), "{told}");
        if test == "nothing_gets_out" {
            assert!(
                told.contains("attributes: lacking (making a user namespace"),
                "{told}"
            );
            assert!(
                told.contains("attributes: change a file's mode: escaped"),
                "{told}"
            );
            assert!(told.contains("files: enforced"), "{told}");
        }
    }
}

/// Prints what a sandbox costs: with and without in turn, so that what else the machine does falls on both.
#[tokio::test]
#[ignore = "measures and checks nothing"]
async fn costs() {
    let rounds: usize = match std::env::var("SLESS_TEST_ROUNDS") {
        Ok(rounds) => rounds.parse().unwrap(),
        Err(_) => 3,
    };
    for (language, code) in [
        (Python, "def handle(event): return 1"),
        (Node, "exports.handle = () => 1;"),
    ] {
        let world = World::new();
        let confined = Sandbox::Confined(Confinement::default());
        let without = world.function(language, code, Sandbox::Off);
        let with = world.function(language, code, confined);
        // The first start of all prepares what later ones find.
        let hosts = [without.start().await, with.start().await];
        let mut starts = Vec::new();
        let mut processors = Vec::new();
        let mut calls = Vec::new();
        for _ in 0..rounds {
            let started = [start(&without).await, start(&with).await];
            starts.push(started.map(|(took, _)| took));
            processors.push(started.map(|(_, used)| used));
            calls.push([duration(&hosts[0]).await, duration(&hosts[1]).await]);
        }
        tell(language, "ms from spawn to ready", starts);
        tell(language, "ms of a processor for that", processors);
        tell(language, "us for a call", calls);
    }
}

/// How long a start takes, and how much of a processor: ours and the worker's.
async fn start(function: &Function) -> (f64, f64) {
    let (began, before) = (Instant::now(), processor("self"));
    let host = function.start().await;
    let took = began.elapsed().as_secs_f64() * 1e3;
    let worker = processor(&host.worker_pid().unwrap().to_string());
    let used = processor("self") - before + worker;
    host.drain(Duration::from_secs(10)).await;
    (took, used)
}

/// What a process has used of a processor, in milliseconds.
fn processor(process: &str) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let used = threads.flatten().map(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        let used = stat.split_ascii_whitespace().next();
        used.map_or(0.0, |used| used.parse::<f64>().unwrap())
    });
    used.sum::<f64>() / 1e6
}

async fn duration(host: &Host) -> f64 {
    const CALLS: u32 = 500;
    let began = Instant::now();
    for _ in 0..CALLS {
        call(host, json_event(&json!({}))).await.unwrap();
    }
    began.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS)
}

fn tell(language: Language, what: &str, pairs: Vec<[f64; 2]>) {
    let median = |pick: &dyn Fn(&[f64; 2]) -> f64| {
        let mut values: Vec<f64> = pairs.iter().map(pick).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    println!(
        "{language:?}, {what}: {:.1} without, {:.1} with, ratio of pairs {:.3}, difference of pairs {:.1}",
        median(&|pair| pair[0]),
        median(&|pair| pair[1]),
        median(&|pair| pair[1] / pair[0]),
        median(&|pair| pair[1] - pair[0]),
    );
}

#[test]
fn the_report_names_every_protection_once() {
    let report = SandboxReport::of_this_machine();
    let mut names: Vec<_> = report.protections.iter().map(|it| it.name).collect();
    names.dedup();
    assert_eq!(names.len(), report.protections.len());
    assert!(
        report
            .protections
            .iter()
            .all(|it| !matches!(&it.enforcement, Enforcement::Lacking(why) if why.is_empty()))
    );
    println!("{report}");
}
