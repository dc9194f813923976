//! Functions that wake by a fork of a process that has imported their handler.
#![cfg(target_os = "linux")]
#![allow(clippy::print_stdout, reason = "figures are told, not judged")]

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use futures::StreamExt as _;
use sless_core::{Function, FunctionId, FunctionSpec, LogOptions, Result, Runtime};

use super::functions::{Machine, config, name, ns};

const PYTHON: &str = "import os\ndef handle(event):\n    return [os.getpid(), os.getppid()]\n";
const PATIENCE: Duration = Duration::from_secs(20);

/// Processes that run a version of a function here, and where they do.
fn processes(folder: &Path) -> Vec<(u32, PathBuf)> {
    let artifacts = folder.join("artifacts");
    let all = std::fs::read_dir("/proc").expect("processes");
    let process = |entry: std::fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let place = std::fs::read_link(entry.path().join("cwd")).ok()?;
        place.starts_with(&artifacts).then_some((pid, place))
    };
    all.flatten().filter_map(process).collect()
}

async fn until(what: &str, mut is: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is().await {
        assert!(Instant::now() < deadline, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn left(folder: &Path, count: usize) {
    let what = format!("{count} processes");
    until(&what, async || processes(folder).len() == count).await;
}

impl Machine {
    /// A machine whose functions sleep soon.
    async fn drowsy(folder: &Path, zygotes: usize) -> Self {
        let mut config = config(folder);
        config.scheduler.idle_ms = 100;
        config.scheduler.zygotes = zygotes;
        Self::start_with(config).await
    }

    async fn python(&self, function: &str, code: &str) -> FunctionId {
        let files = [("handler.py", code)];
        let deployed = self.deploy(function, Runtime::Python311, &files).await;
        FunctionId::of(&deployed.expect("deployed").metadata)
    }

    async fn asleep(&self, id: &FunctionId) {
        let scheduler = &self.sless.backends().scheduler;
        until("asleep", async || {
            scheduler.status(id).await.expect("a status").asleep
        })
        .await;
    }

    /// The process that answered, and the one that started it.
    async fn pids(&self, function: &str) -> (u32, u32) {
        let (status, body) = self.call(function, "").await.expect("answers");
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).expect("two numbers")
    }
}

#[tokio::test]
async fn a_python_function_wakes_by_a_fork() {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = Machine::drowsy(folder.path(), 4).await;
    let id = machine.python("py", PYTHON).await;
    let mut seen = Vec::new();
    let mut zygote = None;
    for _ in 0..3 {
        let (pid, parent) = machine.pids("py").await;
        assert!(!seen.contains(&pid), "it did not sleep");
        assert_eq!(*zygote.get_or_insert(parent), parent, "another import");
        seen.push(pid);
        machine.asleep(&id).await;
        left(folder.path(), 1).await;
    }
    assert_ne!(zygote, Some(std::process::id()));
    let receipt = machine.sless.delete(&function_key(&machine).await).await;
    let removed = receipt.expect("deleted").removed;
    let zygote = zygote.map(|pid| pid.to_string());
    assert!(
        removed
            .iter()
            .any(|it| it.kind == "process" && Some(&it.name) == zygote.as_ref())
    );
    assert_eq!(processes(folder.path()), []);
    machine.stop().await;
}

async fn function_key(machine: &Machine) -> sless_core::ObjectKey {
    use sless_core::{CatalogExt as _, Resource as _};
    let catalog = &machine.sless.backends().catalog;
    let function: Function = catalog.read(&ns(), &name("py")).await.expect("there");
    function.key()
}

#[tokio::test]
async fn only_so_many_functions_stay_warm_and_nothing_is_left_at_the_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = Machine::drowsy(folder.path(), 2).await;
    let mut ids = Vec::new();
    for number in 0..4 {
        ids.push(machine.python(&format!("f{number}"), PYTHON).await);
    }
    for (number, id) in ids.iter().enumerate() {
        machine.asleep(id).await;
        machine.pids(&format!("f{number}")).await;
        machine.asleep(id).await;
    }
    left(folder.path(), 2).await;
    // The ones that ran last are the ones that are warm: waking them adds a process each, no zygote.
    let warm: Vec<u32> = processes(folder.path())
        .into_iter()
        .map(|it| it.0)
        .collect();
    for function in ["f2", "f3"] {
        let (_, parent) = machine.pids(function).await;
        assert!(warm.contains(&parent), "{function} was not warm");
    }
    let (_, parent) = machine.pids("f0").await;
    assert_eq!(parent, std::process::id(), "more are warm than may be");
    machine.stop().await;
    assert_eq!(processes(folder.path()), []);
}

#[tokio::test]
async fn with_no_place_for_zygotes_there_is_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = Machine::drowsy(folder.path(), 0).await;
    let id = machine.python("py", PYTHON).await;
    assert_eq!(machine.pids("py").await.1, std::process::id());
    machine.asleep(&id).await;
    left(folder.path(), 0).await;
    machine.stop().await;
}

#[tokio::test]
async fn a_new_version_and_a_stop_end_the_zygote() {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = Machine::drowsy(folder.path(), 4).await;
    let id = machine.python("py", PYTHON).await;
    machine.asleep(&id).await;
    left(folder.path(), 1).await;
    let before = processes(folder.path());
    machine.python("py", &format!("{PYTHON}# changed\n")).await;
    let (_, after) = machine.pids("py").await;
    machine.asleep(&id).await;
    left(folder.path(), 1).await;
    assert!(before[0].0 != after && processes(folder.path())[0].0 == after);

    // One that cannot be started leaves the one that serves as it was.
    let broken = [("handler.py", "import nothing_of_that_name")];
    let deployed = machine.deploy("py", Runtime::Python311, &broken).await;
    deployed.expect_err("cannot be imported");
    left(folder.path(), 1).await;
    assert_eq!(machine.pids("py").await.1, after);

    let mut spec = FunctionSpec::new(Runtime::Python311);
    spec.replicas = Some(0);
    let files = [("handler.py", PYTHON.to_owned())];
    let deploy = sless_core::Deploy::files(ns(), name("py"), spec, files).expect("files");
    let _: Result<Function> = machine.sless.deploy(deploy).await;
    left(folder.path(), 0).await;
    machine.stop().await;
}

#[tokio::test]
async fn copies_are_forked_from_one_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = Machine::drowsy(folder.path(), 4).await;
    let code = "import os, time\ndef handle(event):\n    time.sleep(0.3)\n    return [os.getpid(), os.getppid()]\n";
    let mut spec = FunctionSpec::new(Runtime::Python311);
    spec.replicas = Some(3);
    let files = [("handler.py", code.to_owned())];
    let deploy = sless_core::Deploy::files(ns(), name("py"), spec, files).expect("files");
    machine.sless.deploy(deploy).await.expect("deployed");
    let mut seen = std::collections::BTreeSet::new();
    until("three copies answer", async || {
        let calls = (0..6).map(|_| machine.pids("py"));
        seen.extend(futures::future::join_all(calls).await);
        seen.len() >= 3
    })
    .await;
    let parents: std::collections::BTreeSet<_> = seen.iter().map(|(_, parent)| parent).collect();
    assert_eq!(parents.len(), 1, "{seen:?}");
    machine.stop().await;
    assert_eq!(processes(folder.path()), []);
}

#[tokio::test]
async fn a_function_that_cannot_be_forked_says_why_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = Machine::drowsy(folder.path(), 4).await;
    let code = format!("import socket\nS = socket.socket()\n{PYTHON}");
    let id = machine.python("py", &code).await;
    for _ in 0..3 {
        machine.asleep(&id).await;
        left(folder.path(), 0).await;
        assert_eq!(machine.pids("py").await.1, std::process::id());
    }
    let (ns, name, options) = (ns(), name("py"), LogOptions::default());
    let log = machine.sless.logs(&ns, &name, &options).await;
    let lines: Vec<_> = log.expect("a log").collect().await;
    let lines = lines.into_iter().map(|line| line.expect("a line").text);
    let said: Vec<_> = lines
        .filter(|line| line.contains("process of its own"))
        .collect();
    assert!(said.len() == 1 && said[0].contains("a socket"), "{said:?}");
    machine.stop().await;
}

#[tokio::test]
async fn a_zygote_that_was_killed_costs_no_call() {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = Machine::drowsy(folder.path(), 4).await;
    let id = machine.python("py", PYTHON).await;
    for _ in 0..3 {
        machine.asleep(&id).await;
        left(folder.path(), 1).await;
        let (pid, _) = processes(folder.path())[0];
        let mut kill = std::process::Command::new("kill");
        let killed = kill.args(["-9", &pid.to_string()]).status();
        assert!(killed.expect("kill starts").success());
        let calls = (0..8).map(|_| machine.pids("py"));
        futures::future::join_all(calls).await;
    }
    machine.stop().await;
}

/// Also a measurement: `SLESS_TEST_FORKS` says of how many rounds, with ten wakes of each kind.
#[tokio::test]
async fn a_wake_by_a_fork_is_quicker_than_a_start() {
    const FUNCTIONS: usize = 10;
    let rounds = std::env::var("SLESS_TEST_FORKS").map_or(2, |rounds| {
        rounds.parse::<usize>().expect("a number of rounds")
    });
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let machines = [
        Machine::drowsy(folders[0].path(), 0).await,
        Machine::drowsy(folders[1].path(), FUNCTIONS).await,
    ];
    let mut ids = [Vec::new(), Vec::new()];
    for (machine, ids) in machines.iter().zip(&mut ids) {
        for number in 0..FUNCTIONS {
            ids.push(machine.python(&format!("f{number}"), PYTHON).await);
        }
    }
    let mut took = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (machine, ids) in machines.iter().zip(&ids) {
            for id in ids {
                machine.asleep(id).await;
            }
        }
        left(folders[0].path(), 0).await;
        left(folders[1].path(), FUNCTIONS).await;
        for number in 0..FUNCTIONS {
            for (machine, took) in machines.iter().zip(&mut took) {
                let began = Instant::now();
                machine.pids(&format!("f{number}")).await;
                took.push(began.elapsed());
            }
        }
    }
    let [mut own, mut forked] = took;
    own.sort();
    forked.sort();
    let half = own.len() / 2;
    let load = std::fs::read_to_string("/proc/loadavg").expect("a load");
    println!(
        "asleep to first byte, median (least, most) of {}: own process {:?} ({:?}, {:?}), fork {:?} ({:?}, {:?}); load {load}",
        own.len(),
        own[half],
        own[0],
        own[own.len() - 1],
        forked[half],
        forked[0],
        forked[forked.len() - 1],
    );
    assert!(
        forked[half] * 2 < own[half],
        "{:?}, {:?}",
        forked[half],
        own[half]
    );
    for machine in machines {
        machine.stop().await;
    }
}
