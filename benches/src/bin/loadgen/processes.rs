//! What the system knows of the server and its workers.

use std::{collections::HashMap, time::Duration};

use anyhow::{Context as _, Result};
use procfs::process::{Process, all_processes};

/// Processor time, user and system.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cpu {
    /// Of the server's process.
    pub(crate) server: Duration,
    /// Of the processes that it started.
    pub(crate) workers: Duration,
}

impl Cpu {
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            server: self.server.saturating_sub(before.server),
            workers: self.workers.saturating_sub(before.workers),
        }
    }
}

/// The processor time of a server and all below it, in the system's steps of mostly 10 ms.
pub(crate) fn cpu(server: u32) -> Result<Cpu> {
    let server = i32::try_from(server)?;
    let mut times = HashMap::new();
    for process in all_processes()? {
        // Processes come and go while the list is read.
        if let Ok(stat) = process.and_then(|process| process.stat()) {
            times.insert(stat.pid, (stat.ppid, stat.utime + stat.stime));
        }
    }
    let below = |mut pid: i32| {
        while let Some((parent, _)) = times.get(&pid) {
            if *parent == server {
                return true;
            }
            pid = *parent;
        }
        false
    };
    let ticks = |ticks: u64| Duration::from_secs(ticks) / per_second();
    let workers = times
        .iter()
        .filter(|(pid, _)| below(**pid))
        .map(|(_, (_, time))| time)
        .sum();
    let (_, own) = times.get(&server).context("the server has ended")?;
    Ok(Cpu {
        server: ticks(*own),
        workers: ticks(workers),
    })
}

fn per_second() -> u32 {
    u32::try_from(procfs::ticks_per_second()).unwrap_or(100)
}

/// Memory of a process that is its own and not a file's, in bytes.
pub(crate) fn memory(pid: u32) -> Result<u64> {
    let status = Process::new(i32::try_from(pid)?)?.status()?;
    Ok(status
        .rssanon
        .context("this system does not tell RssAnon")?
        * 1024)
}

/// Bytes that a process has caused to be written to storage, ever.
pub(crate) fn written(pid: u32) -> Result<u64> {
    Ok(Process::new(i32::try_from(pid)?)?.io()?.write_bytes)
}
