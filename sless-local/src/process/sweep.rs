//! Processes that a killed server left behind.

use std::fs;

use super::kill::kill;

/// The variable by which everything that is started for a data folder is found.
pub(crate) const MARK: &str = "SLESS_INSTANCE";

/// Kills every process that was started for this instance, and answers how many. Where the system
/// does not show the environment of processes (anything but Linux), it finds none.
pub(crate) fn kill_leftovers(instance: &str) -> usize {
    let mark = format!("{MARK}={instance}");
    let Ok(processes) = fs::read_dir("/proc") else {
        return 0;
    };
    let own = std::process::id();
    let mut killed = 0;
    for entry in processes.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // A process that ends meanwhile, or is somebody else's, cannot be read and is none of ours.
        let Ok(environment) = fs::read(entry.path().join("environ")) else {
            continue;
        };
        let marked = environment
            .split(|byte| *byte == 0)
            .any(|line| line == mark.as_bytes());
        if !marked || pid == own {
            continue;
        }
        if kill(pid) {
            killed += 1;
        }
    }
    killed
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
