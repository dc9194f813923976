//! What the system knows of the server and its workers.

use std::{collections::HashMap, fmt::Write as _, time::Duration};

use anyhow::{Context as _, Result};
use procfs::process::{Process, all_processes};

/// Processor time, user and system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
    /// Of the server's process.
    pub server: Duration,
    /// Of the processes that it started.
    pub workers: Duration,
}

/// Memory of several processes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// What is resident, in bytes; what they share counts for each.
    pub resident: u64,
    /// What belongs to one of them alone, in bytes.
    pub private: u64,
}

impl Cpu {
    /// What was used since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            server: self.server.saturating_sub(before.server),
            workers: self.workers.saturating_sub(before.workers),
        }
    }
}

/// The processor time of a server and all below it. What a thread had used that has ended since is lost.
///
/// # Errors
/// If it has ended.
pub fn cpu(server: u32) -> Result<Cpu> {
    let server = i32::try_from(server)?;
    let own = used(server).context("the server has ended")?;
    // Others come and go while they are looked at.
    let workers = below(server, &parents()?).filter_map(used).sum();
    Ok(Cpu {
        server: own,
        workers,
    })
}

/// What the threads of a process have used, to the nanosecond: the times of a whole process are counted in
/// steps of 10 ms.
fn used(pid: i32) -> Option<Duration> {
    let tasks = Process::new(pid).ok()?.tasks().ok()?;
    let times = tasks
        .flatten()
        .filter_map(|task| Some(task.schedstat().ok()?.sum_exec_runtime));
    Some(Duration::from_nanos(times.sum()))
}

/// The parent of every process.
fn parents() -> Result<HashMap<i32, i32>> {
    let all = all_processes()?;
    let stats = all.filter_map(|process| process.and_then(|process| process.stat()).ok());
    Ok(stats.map(|stat| (stat.pid, stat.ppid)).collect())
}

/// What a process has started, and what that has started.
fn below(root: i32, all: &HashMap<i32, i32>) -> impl Iterator<Item = i32> {
    let is_below = move |mut pid: i32| {
        while let Some(parent) = all.get(&pid) {
            if *parent == root {
                return true;
            }
            pid = *parent;
        }
        false
    };
    all.keys().copied().filter(move |pid| is_below(*pid))
}

/// A process and all below it.
///
/// # Errors
/// If the list of processes cannot be read.
pub fn tree(root: u32) -> Result<Vec<i32>> {
    let root = i32::try_from(root)?;
    let all = parents()?;
    Ok(std::iter::once(root).chain(below(root, &all)).collect())
}

/// What each thread of a process and of all below it is at, a line each.
///
/// # Errors
/// If the list of processes cannot be read.
pub fn threads(root: u32) -> Result<String> {
    let mut lines = String::new();
    for pid in tree(root)? {
        // One that ends meanwhile has nothing to tell.
        let Ok(tasks) = Process::new(pid).and_then(|process| process.tasks()) else {
            continue;
        };
        for task in tasks.flatten() {
            let folder = format!("/proc/{pid}/task/{}", task.tid);
            let read =
                |name| std::fs::read_to_string(format!("{folder}/{name}")).unwrap_or_default();
            let Ok(stat) = task.stat() else { continue };
            let (name, state, used) = (&stat.comm, stat.state, stat.utime + stat.stime);
            let (waits, call) = (read("wchan"), read("syscall"));
            writeln!(
                lines,
                "{pid}/{} {name} {state} {used} ticks, in {waits} {}",
                task.tid,
                call.trim()
            )?;
        }
    }
    Ok(lines)
}

/// Memory of a process and all below it.
///
/// # Errors
/// If the process is not there, or may not be looked at.
pub fn memory_below(root: u32) -> Result<Memory> {
    let mut sum = Memory::default();
    for pid in tree(root)? {
        let maps = Process::new(pid)?.smaps_rollup()?.memory_map_rollup;
        for map in &maps {
            let bytes = |name: &str| map.extension.map.get(name).copied().unwrap_or_default();
            sum.resident += bytes("Rss");
            sum.private += bytes("Private_Clean") + bytes("Private_Dirty");
        }
    }
    Ok(sum)
}

/// Memory of a process that is its own and not a file's, in bytes.
pub fn memory(pid: u32) -> Result<u64> {
    let status = Process::new(i32::try_from(pid)?)?.status()?;
    Ok(status
        .rssanon
        .context("this system does not tell RssAnon")?
        * 1024)
}

/// Bytes that a process has caused to be written to storage, ever.
pub fn written(pid: u32) -> Result<u64> {
    Ok(Process::new(i32::try_from(pid)?)?.io()?.write_bytes)
}
