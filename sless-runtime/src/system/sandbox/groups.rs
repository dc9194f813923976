//! Control groups, where they can be had: as root, or where somebody has delegated a group to this user.
//!
//! A group is made for each process that is started, and removed once nobody is in it. In the first
//! version of control groups it is made below the group that this process is in; in the second one beside
//! it, since there a group that holds processes has no groups with limits below it. So a service manager
//! must put this process into a group below the one that it delegates (systemd: `Delegate=yes` and
//! `DelegateSubgroup=`).

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::calls;

const ROOT: &str = "/sys/fs/cgroup";
/// Memory that a function's processes may have together beyond the limit of one: what its runtime takes.
const BESIDE_LIMIT: u64 = 256 << 20;

/// Where groups can be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Groups {
    /// The folder to make groups in, that bound the number of processes.
    pub(super) processes: Option<PathBuf>,
    /// The folder to make groups in, that bound memory, and the file with the bound.
    pub(super) memory: Option<(PathBuf, &'static str)>,
}

impl Groups {
    /// Looks for them, and tries them out.
    pub(super) fn find() -> Self {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mut found = Self::named(Path::new(ROOT), &own);
        found.processes = found.processes.filter(|place| can_make(place, "pids.max"));
        found.memory = found.memory.filter(|(place, file)| can_make(place, file));
        let folders = found
            .processes
            .iter()
            .chain(found.memory.iter().map(|(place, _)| place));
        folders.for_each(|place| sweep_ended(place));
        found
    }

    /// What the lines of `/proc/self/cgroup` name.
    fn named(root: &Path, own: &str) -> Self {
        let mut found = Self::default();
        for line in own.lines() {
            let mut fields = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(path)) =
                (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            let path = path.trim_start_matches('/');
            if controllers.is_empty() {
                let group = root.join(path);
                let Some(beside) = group.parent().filter(|_| !path.is_empty()) else {
                    continue;
                };
                let given = fs::read_to_string(beside.join("cgroup.subtree_control"));
                let given = given.unwrap_or_default();
                let has = |name: &str| given.split_whitespace().any(|each| each == name);
                if has("pids") {
                    found.processes = Some(beside.to_owned());
                }
                if has("memory") {
                    found.memory = Some((beside.to_owned(), "memory.max"));
                }
                continue;
            }
            let place = root.join(controllers).join(path);
            match controllers {
                "pids" => found.processes = Some(place),
                "memory" => found.memory = Some((place, "memory.limit_in_bytes")),
                _ => {}
            }
        }
        found
    }
}

fn can_make(place: &Path, file: &str) -> bool {
    let trial = place.join(name());
    let made = fs::create_dir(&trial).is_ok();
    let usable = made && trial.join(file).exists() && trial.join("cgroup.procs").exists();
    if made {
        let _ = fs::remove_dir(&trial);
    }
    usable
}

/// Removes what processes that have ended did not remove.
fn sweep_ended(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let owner = entry.file_name().to_str().and_then(maker);
        if owner.is_some_and(|owner| !Path::new("/proc").join(owner.to_string()).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// The process that made a group of this [`name`]; none where others did.
fn maker(name: &str) -> Option<u32> {
    let (process, number) = name.strip_prefix("sless-")?.split_once('-')?;
    number.parse::<u64>().ok()?;
    process.parse().ok()
}

fn name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("sless-{}-{number}", std::process::id())
}

/// The group of one process and of all that it starts. Dropped, it is removed once it is empty.
#[derive(Debug)]
pub(super) struct Group {
    folders: Vec<PathBuf>,
    entrances: Vec<File>,
}

impl Group {
    /// `processes` and `memory` are what the group may have; memory in bytes.
    pub(super) fn new(groups: &Groups, processes: u32, memory: u64) -> io::Result<Self> {
        sweep();
        let mut group = Self {
            folders: Vec::new(),
            entrances: Vec::new(),
        };
        let name = name();
        if let Some(place) = &groups.processes {
            group.make(&place.join(&name), "pids.max", u64::from(processes))?;
        }
        if let Some((place, file)) = &groups.memory {
            group.make(
                &place.join(&name),
                file,
                memory.saturating_add(BESIDE_LIMIT),
            )?;
        }
        Ok(group)
    }

    fn make(&mut self, folder: &Path, file: &str, limit: u64) -> io::Result<()> {
        if !self.folders.iter().any(|known| known == folder) {
            fs::create_dir(folder)?;
            self.folders.push(folder.to_owned());
            // A thread that moves itself needs no lock of all groups, which takes a grace period of RCU; only
            // the first version has this file, and the child has one thread.
            let thread = folder.join("tasks");
            let process = folder.join("cgroup.procs");
            let entrance = if thread.exists() { thread } else { process };
            let entrance = File::options().write(true).open(entrance)?;
            self.entrances.push(entrance);
        }
        fs::write(folder.join(file), limit.to_string())
    }

    /// Moves a process here.
    pub(super) fn take(&self, process: u32) -> io::Result<()> {
        let process = process.to_string();
        let mut entrances = self.entrances.iter();
        entrances.try_for_each(|entrance| calls::write(entrance.as_fd(), process.as_bytes()))
    }

    /// Called in the child.
    pub(super) fn enter(&self) -> io::Result<()> {
        let mut entrances = self.entrances.iter();
        entrances.try_for_each(|entrance| calls::write(entrance.as_fd(), b"0"))
    }
}

/// Groups that were given up, and still have somebody in them.
static LEFT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

impl Drop for Group {
    fn drop(&mut self) {
        let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
        left.append(&mut self.folders);
        left.retain(|folder| !is_gone(folder));
    }
}

/// Removes the groups in which nobody is any more.
pub(super) fn sweep() {
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    left.retain(|folder| !is_gone(folder));
}

fn is_gone(folder: &Path) -> bool {
    match fs::remove_dir(folder) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_others_are_known_by_their_names() {
        assert_eq!(maker(&name()), Some(std::process::id()));
        for other in [
            "sless-test-kubernetes",
            "sless-1",
            "sless-1-a",
            "sless-a-1",
            "x",
        ] {
            assert_eq!(maker(other), None, "{other}");
        }
    }

    #[test]
    fn the_first_version_has_a_folder_for_each_controller() {
        let own = "12:pids:/user/x\n5:memory:/\n3:cpu,cpuacct:/user\n0::/unified\n";
        let found = Groups::named(Path::new("/nowhere"), own);
        assert_eq!(found.processes, Some("/nowhere/pids/user/x".into()));
        let memory = ("/nowhere/memory/".into(), "memory.limit_in_bytes");
        assert_eq!(found.memory, Some(memory));
    }

    #[test]
    fn the_second_version_is_used_beside_a_delegated_group() {
        let root = tempfile::tempdir().unwrap();
        let service = root.path().join("system.slice/sless.service");
        fs::create_dir_all(service.join("server")).unwrap();
        let control = service.join("cgroup.subtree_control");
        let own = "0::/system.slice/sless.service/server\n";
        fs::write(&control, "cpu memory pids\n").unwrap();
        let found = Groups::named(root.path(), own);
        assert_eq!(found.processes, Some(service.clone()));
        assert_eq!(found.memory, Some((service, "memory.max")));
        fs::write(&control, "cpu\n").unwrap();
        assert_eq!(Groups::named(root.path(), own), Groups::default());
        assert_eq!(Groups::named(root.path(), "0::/\n"), Groups::default());
    }
}
