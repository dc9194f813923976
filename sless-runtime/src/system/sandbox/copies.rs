//! What a process needs that was forked from a confined one, beside what it has inherited.

use super::groups::{Group, Groups};
use super::limits;
use crate::config::HostConfig;
use crate::sandbox::Sandbox;

/// A control group of its own: it would share that of the process that forked it.
#[derive(Debug)]
pub(crate) struct Separation {
    processes: u32,
    memory: u64,
}

impl Separation {
    /// `None` where processes have no groups.
    pub(crate) fn of(config: &HostConfig) -> Option<Self> {
        let Sandbox::Confined(confinement) = &config.sandbox else {
            return None;
        };
        let unsaid = || limits::unsaid(confinement);
        (super::machine().groups != Groups::default()).then(|| Self {
            processes: confinement.processes,
            memory: config.memory_limit.unwrap_or_else(unsaid),
        })
    }

    /// Moves a process there. The kernel takes some milliseconds for it, and a process that cannot be
    /// moved stays under the bounds of the one that forked it.
    pub(crate) fn apply(self, process: u32) {
        let group = Group::new(&super::machine().groups, self.processes, self.memory);
        if let Ok(group) = group {
            let _ = group.take(process);
        }
    }
}
