//! What keeps a worker apart from the rest of the machine: as plain data, and as a report of what of it
//! this machine can enforce.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::system;

/// Whether a worker is confined.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Sandbox {
    /// It may do what the user of this process may do.
    #[default]
    Off,
    /// It reads its code, its dependencies, its interpreter and the system's libraries, writes to its
    /// [`temp_dir`](crate::HostConfig::temp_dir) and to memory, uses the network, and that is all: as far
    /// as the machine can enforce it, which [`SandboxReport`] tells.
    Confined(Confinement),
}

/// How a process is confined. All sizes are in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Confinement {
    /// Nothing is started where the machine lacks a protection, instead of doing without it.
    pub required: bool,
    /// What may be read and executed beyond what the worker is made of. Each must exist.
    pub read: Vec<PathBuf>,
    /// What may be written beyond `temp_dir`. Each must exist.
    pub write: Vec<PathBuf>,
    /// Processes and threads of one worker and of all that it starts. 512 by default.
    pub processes: u32,
    /// Open files of one process. 4,096 by default.
    pub open_files: u64,
    /// The longest file that it may write. 512 MiB by default.
    pub file_bytes: u64,
    /// The memory of one process where the worker has no
    /// [`memory_limit`](crate::HostConfig::memory_limit). `None`, the default, means the half of what
    /// the machine has.
    pub memory_bytes: Option<u64>,
    /// What `/tmp` and `/dev/shm` hold, each: they are in memory, and each worker has its own. 64 MiB by
    /// default.
    pub scratch_bytes: u64,
}

impl Default for Confinement {
    fn default() -> Self {
        Self {
            required: false,
            read: Vec::new(),
            write: Vec::new(),
            processes: 512,
            open_files: 4096,
            file_bytes: 512 << 20,
            memory_bytes: None,
            scratch_bytes: 64 << 20,
        }
    }
}

/// What one protection comes to on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Enforcement {
    /// The kernel enforces it.
    Enforced,
    /// It holds with an exception, in a sentence. It is the same everywhere.
    Partly(String),
    /// It does not hold here, with the reason.
    Lacking(String),
}

/// One protection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Protection {
    /// A machine word.
    pub name: &'static str,
    /// What is kept away.
    pub against: &'static str,
    /// What it comes to here.
    pub enforcement: Enforcement,
}

impl Protection {
    /// A protection that this crate does not know of, for a report of its own kind.
    pub fn new(name: &'static str, against: &'static str, enforcement: Enforcement) -> Self {
        Self {
            name,
            against,
            enforcement,
        }
    }
}

/// Every protection, and what it comes to on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SandboxReport {
    /// In a fixed order.
    pub protections: Vec<Protection>,
}

impl SandboxReport {
    /// Looks at this machine, which starts a process for a moment. The answer is kept: it is the same as
    /// long as this process lives. Blocks for some milliseconds the first time.
    pub fn of_this_machine() -> Self {
        Self::of(&system::abilities())
    }

    /// The protections that do not hold here.
    pub fn lacking(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let each = self.protections.iter();
        each.filter_map(|protection| match &protection.enforcement {
            Enforcement::Lacking(why) => Some((protection.name, why.as_str())),
            _ => None,
        })
    }

    pub(crate) fn of(abilities: &Abilities) -> Self {
        let Abilities {
            landlock,
            filter,
            namespaces,
            processes,
            memory,
        } = abilities;
        let abi = landlock.as_ref().copied().unwrap_or(0);
        let no_landlock = landlock.as_ref().err();
        let no_namespaces = namespaces.as_ref().err();
        let first = |found: &[Option<&String>]| match found.iter().flatten().next() {
            Some(why) => Enforcement::Lacking((*why).clone()),
            None => Enforcement::Enforced,
        };
        // Two walls of which one is enough.
        let either = |one: Option<&String>, other: Option<&String>| match (one, other) {
            (Some(one), Some(other)) => Enforcement::Lacking(format!("{one}; {other}")),
            _ => Enforcement::Enforced,
        };
        let old = (abi < SIGNALS_ABI).then(|| {
            no_landlock.cloned().unwrap_or_else(|| {
                format!(
                    "Landlock has version {abi} here, and keeps signals apart from {SIGNALS_ABI}"
                )
            })
        });
        let linux = cfg!(target_os = "linux");
        let elsewhere = (!linux).then(|| "only Linux has it".to_owned());
        let rows = [
            (
                "privileges",
                "more rights, such as by a set-user-ID program; capabilities",
                first(&[elsewhere.as_ref()]),
            ),
            (
                "files",
                "reading and writing files of other functions, of the server and of the user",
                either(no_landlock, no_namespaces),
            ),
            (
                "attributes",
                "changing modes, times and attributes of files of the same user, and seeing that they exist",
                first(&[no_namespaces]),
            ),
            (
                "processes",
                "reading, tracing and changing other processes",
                match filter {
                    Ok(()) => either(no_landlock, no_namespaces),
                    Err(why) => Enforcement::Lacking(why.clone()),
                },
            ),
            (
                "signals",
                "signals to other processes of the same user",
                first(&[old.as_ref()]),
            ),
            (
                "sockets",
                "Unix sockets of others, with a path or abstract; raw and packet sockets",
                first(&[filter.as_ref().err()]),
            ),
            (
                "system_calls",
                "namespaces, mounts, modules, BPF, io_uring, keys and what else reaches far into the kernel",
                first(&[filter.as_ref().err()]),
            ),
            (
                "process_count",
                "fork bombs",
                first(&[processes.as_ref().err()]),
            ),
            (
                "memory",
                "one process that takes all memory",
                first(&[elsewhere.as_ref()]),
            ),
            (
                "memory_total",
                "all processes of a function together, and memory that belongs to none",
                first(&[memory.as_ref().err()]),
            ),
            (
                "file_size",
                "one file that fills the disk",
                first(&[elsewhere.as_ref()]),
            ),
        ];
        let protections = rows.map(|(name, against, enforcement)| Protection {
            name,
            against,
            enforcement,
        });
        Self {
            protections: protections.into(),
        }
    }
}

impl fmt::Display for SandboxReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, protection) in self.protections.iter().enumerate() {
            let between = if at > 0 { ", " } else { "" };
            let name = protection.name;
            match &protection.enforcement {
                Enforcement::Enforced => write!(f, "{between}{name}: enforced")?,
                Enforcement::Partly(how) => write!(f, "{between}{name}: partly ({how})")?,
                Enforcement::Lacking(why) => write!(f, "{between}{name}: lacking ({why})")?,
            }
        }
        Ok(())
    }
}

/// The version of Landlock that keeps signals and abstract sockets apart.
pub(crate) const SIGNALS_ABI: u32 = 6;

/// What a machine can do, or why it cannot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// Landlock, with its version.
    pub(crate) landlock: Result<u32, String>,
    /// A filter of system calls.
    pub(crate) filter: Result<(), String>,
    /// A user namespace with a root folder of its own.
    pub(crate) namespaces: Result<(), String>,
    /// A bound on the number of processes.
    pub(crate) processes: Result<(), String>,
    /// A bound on the memory of several processes together.
    pub(crate) memory: Result<(), String>,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn able() -> Abilities {
        Abilities {
            landlock: Ok(7),
            filter: Ok(()),
            namespaces: Ok(()),
            processes: Ok(()),
            memory: Ok(()),
        }
    }

    fn lacking(abilities: &Abilities) -> Vec<&'static str> {
        let report = SandboxReport::of(abilities);
        report.lacking().map(|(name, _)| name).collect()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn each_ability_that_is_lacking_takes_its_protections_with_it() {
        let no = || Err("no such thing".to_owned());
        type Lose = fn(&mut Abilities, Result<(), String>);
        let cases: [(&str, Lose, &[&str]); 7] = [
            ("nothing", |_, _| {}, &[]),
            (
                "landlock",
                |it, no| it.landlock = no.map(|()| 0),
                &["signals"],
            ),
            (
                "filter",
                |it, no| it.filter = no,
                &["processes", "sockets", "system_calls"],
            ),
            ("namespaces", |it, no| it.namespaces = no, &["attributes"]),
            ("processes", |it, no| it.processes = no, &["process_count"]),
            ("memory", |it, no| it.memory = no, &["memory_total"]),
            (
                "both walls around files",
                |it, no| {
                    it.landlock = no.clone().map(|()| 0);
                    it.namespaces = no;
                },
                &["files", "attributes", "processes", "signals"],
            ),
        ];
        for (what, change, expected) in cases {
            let mut abilities = able();
            change(&mut abilities, no());
            assert_eq!(lacking(&abilities), expected, "without {what}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_old_landlock_is_named_with_its_version() {
        let abilities = Abilities {
            landlock: Ok(4),
            ..able()
        };
        let report = SandboxReport::of(&abilities);
        let (name, why) = report.lacking().next().unwrap();
        assert_eq!(name, "signals");
        assert!(why.contains("version 4"), "{why}");
        assert!(report.to_string().contains("files: enforced, "), "{report}");
    }

    #[test]
    fn a_sandbox_is_off_unless_asked_for() {
        assert_eq!(Sandbox::default(), Sandbox::Off);
        let given: Sandbox = serde_json::from_str(r#"{"confined":{"processes":9}}"#).unwrap();
        let expected = Confinement {
            processes: 9,
            ..Confinement::default()
        };
        assert_eq!(given, Sandbox::Confined(expected));
    }
}
