//! Processes that a killed server left behind.

use std::{
    collections::BTreeSet,
    fs, thread,
    time::{Duration, Instant},
};

use super::kill::kill;

/// The variable by which everything that is started for a data folder is found.
pub(crate) const MARK: &str = "SLESS_INSTANCE";

/// How long the end of killed processes is waited for: the kernel may be at work for them.
const END_WAIT: Duration = Duration::from_secs(5);

/// How often it is looked whether they have ended.
const LOOK: Duration = Duration::from_millis(2);

/// Kills every process that was started for this instance, waits until they have ended, and answers how
/// many they were. Where the system does not show the environment of processes (anything but Linux), it
/// finds none.
pub(crate) fn kill_leftovers(instance: &str) -> usize {
    let mark = format!("{MARK}={instance}");
    let until = Instant::now() + END_WAIT;
    let mut killed = BTreeSet::new();
    loop {
        // Again and again: one that was being started while the others were looked at, or that still
        // writes, must not be there once the folders are tidied.
        let found = marked(mark.as_bytes());
        if found.is_empty() {
            return killed.len();
        }
        if Instant::now() > until {
            tracing::warn!(?found, "processes that an earlier server left do not end");
            return killed.len();
        }
        killed.extend(found.into_iter().filter(|pid| kill(*pid)));
        thread::sleep(LOOK);
    }
}

/// The processes with this variable in their environment, this one aside. One that has ended shows none.
fn marked(mark: &[u8]) -> Vec<u32> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let own = std::process::id();
    let mut found = Vec::new();
    for entry in processes.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // A process that ends meanwhile, or is somebody else's, cannot be read and is none of ours.
        let Ok(environment) = fs::read(entry.path().join("environ")) else {
            continue;
        };
        let is_marked = environment
            .split(|byte| *byte == 0)
            .any(|line| line == mark);
        if is_marked && pid != own {
            found.push(pid);
        }
    }
    found
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn only_processes_of_the_instance_are_killed() {
        let start = |instance: &str| {
            Command::new("sleep")
                .arg("60")
                .env(MARK, instance)
                .spawn()
                .expect("sleep starts")
        };
        let instance = uuid::Uuid::new_v4().to_string();
        let (mut ours, mut other) = (start(&instance), start("somebody-else"));
        // Until the child has become `sleep`, its environment is still that of this process.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while kill_leftovers(&instance) == 0 {
            assert!(std::time::Instant::now() < deadline, "not found");
            std::thread::yield_now();
        }
        assert!(!ours.wait().expect("ended").success());
        assert!(other.try_wait().expect("asked").is_none());
        other.kill().expect("killed");
        other.wait().expect("ended");
    }
}
