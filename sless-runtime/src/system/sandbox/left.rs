//! What a process leaves behind when it ends: it may have started others that left its group, but not its
//! user namespace.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process};

/// The user namespaces of processes that were confined, by the number of the first process.
static STARTED: Mutex<Option<HashMap<u32, PathBuf>>> = Mutex::new(None);

/// One that forks while it is looked for may be found the next time.
const ROUNDS: u32 = 20;

fn started() -> MutexGuard<'static, Option<HashMap<u32, PathBuf>>> {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Which user namespace a process is in.
fn namespace(process: &Path) -> Option<PathBuf> {
    fs::read_link(process.join("ns/user")).ok()
}

fn folder(process: u32) -> PathBuf {
    Path::new("/proc").join(process.to_string())
}

/// Remembers a process that has just been started, in a user namespace of its own.
pub(super) fn remember(process: u32) {
    let Some(found) = namespace(&folder(process)) else {
        return;
    };
    let mut started = started();
    let started = started.get_or_insert_default();
    // Those whose end nobody told.
    started.retain(|other, _| folder(*other).exists());
    started.insert(process, found);
}

/// Kills whatever a process that has ended has started, where it was confined.
pub(crate) fn kill_left(process: u32) {
    let Some(wanted) = started()
        .as_mut()
        .and_then(|started| started.remove(&process))
    else {
        return;
    };
    kill_all(&wanted, None);
}

/// Kills whatever is in the user namespace of a process that goes on, save that process.
pub(crate) fn kill_strays(process: u32) {
    let wanted = started()
        .as_ref()
        .and_then(|started| started.get(&process).cloned());
    if let Some(wanted) = wanted {
        kill_all(&wanted, i32::try_from(process).ok());
    }
}

fn kill_all(wanted: &Path, spared: Option<i32>) {
    for _ in 0..ROUNDS {
        let Ok(entries) = fs::read_dir("/proc") else {
            return;
        };
        let mut killed = false;
        for entry in entries.flatten() {
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.parse().ok());
            let number = number.filter(|number| Some(*number) != spared);
            let Some(pid) = number.and_then(Pid::from_raw) else {
                continue;
            };
            // One that has ended, and is not reaped, shows none.
            if namespace(&entry.path()).is_some_and(|found| found == wanted) {
                killed |= kill_process(pid, Signal::KILL).is_ok();
            }
        }
        if !killed {
            return;
        }
        std::thread::yield_now();
    }
}
