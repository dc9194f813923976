//! Which processor the load runs on, and which one the server.
//!
//! Affinity belongs to a thread and is inherited by the threads and processes that it starts. So this
//! thread moves to the server's cores, starts it, and moves back.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// One core for the load, the rest for the server.
#[derive(Debug)]
pub struct Cores {
    load: CpuSet,
    server: CpuSet,
    all: CpuSet,
    pinned: bool,
}

impl Cores {
    /// Splits the cores that this process may use. With one core, or where the system refuses,
    /// nothing is pinned.
    pub fn split() -> Self {
        let all = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        let (mut load, mut server) = (CpuSet::new(), CpuSet::new());
        for core in (0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core)) {
            if load.count() == 0 {
                load.set(core);
            } else {
                server.set(core);
            }
        }
        let pinned = server.count() > 0 && sched_setaffinity(None, &load).is_ok();
        Self {
            load,
            server,
            all,
            pinned,
        }
    }

    /// In words, for a report.
    pub fn describe(&self) -> String {
        let all = self.all.count();
        if self.pinned {
            format!(
                "{all} cores: 1 for the load, {} for the server and its workers",
                all - 1
            )
        } else {
            format!("{all} cores, nothing is pinned")
        }
    }

    /// Runs something that starts processes, which then have the server's cores.
    pub fn for_server<T>(&self, start: impl FnOnce() -> T) -> T {
        if !self.pinned {
            return start();
        }
        // They were accepted before; where they are not now, the figures are those of no pinning.
        let _ = sched_setaffinity(None, &self.server);
        let started = start();
        let _ = sched_setaffinity(None, &self.load);
        started
    }
}
