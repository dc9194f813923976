//! The sandbox of a process on Linux: what is prepared before a fork, and entered between fork and exec.
//!
//! Several walls, one inside the other, so that what one does not know the next one stops. The outermost
//! is a user namespace with a root folder that holds nothing else than what the process may see; then no
//! capabilities and no way to new ones; then Landlock, which also keeps signals and abstract sockets
//! apart; then a filter of system calls. Limits and, where it can be had, a control group bound what may
//! be used. A machine that lacks a part does without it, and [`abilities`] says why.

mod calls;
mod copies;
mod filter;
mod groups;
mod landlock;
mod left;
mod limits;
mod namespaces;
mod places;
mod trace;
mod turn;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tokio::process::Child;

use self::filter::{Apart, Filter};
use self::groups::{Group, Groups};
use self::landlock::Rules;
use self::limits::{Limits, Memory};
use self::namespaces::Plan;
use self::places::Parts;
use self::trace::{Stage, Told, Trace};
use crate::config::{HostConfig, Language};
use crate::confine::ConfinedCommand;
use crate::sandbox::{Abilities, Confinement, SIGNALS_ABI, Sandbox, SandboxReport};

pub(crate) use self::copies::Separation;
pub(crate) use self::left::{kill_left, kill_strays};
pub use self::turn::{Turn, give_turn};

/// What this machine was found to be able to.
struct Machine {
    abilities: Abilities,
    groups: Groups,
    filter: Result<Filter, String>,
}

fn machine() -> &'static Machine {
    static MACHINE: OnceLock<Machine> = OnceLock::new();
    MACHINE.get_or_init(|| {
        let landlock = calls::landlock_version().map_err(|error| format!("no Landlock: {error}"));
        let namespaces = try_namespaces(landlock.is_ok());
        let groups = Groups::find();
        let root = rustix::process::geteuid().is_root();
        let filter = Filter::new(Apart {
            sockets: namespaces.is_ok() && landlock.as_ref().is_ok_and(|abi| *abi >= SIGNALS_ABI),
            memory: groups.memory.is_some(),
        });
        let no_group = |what: &str| format!("no control group for {what} can be made");
        let processes = match (&groups.processes, &namespaces) {
            (Some(_), _) => Ok(()),
            (None, Ok(())) if !root => Ok(()),
            (None, Ok(())) => {
                let why = "and the kernel exempts root from its limit on processes";
                Err(format!("{}, {why}", no_group("processes")))
            }
            (None, Err(why)) => Err(format!("{}, and {why}", no_group("processes"))),
        };
        let memory = groups.memory.as_ref().map(|_| ());
        Machine {
            abilities: Abilities {
                landlock,
                filter: filter.as_ref().map(|_| ()).map_err(Clone::clone),
                namespaces,
                processes,
                memory: memory.ok_or_else(|| no_group("memory")),
            },
            groups,
            filter,
        }
    })
}

/// What this machine can do. Blocks for some milliseconds the first time.
pub(crate) fn abilities() -> Abilities {
    machine().abilities.clone()
}

/// Enters a root folder in a child that does nothing else.
fn try_namespaces(whole_proc: bool) -> Result<(), String> {
    let failed = |error: io::Error| format!("it cannot be tried: {error}");
    let places = places::places(&Parts::default())?;
    let plan = Plan::new(&places, Path::new("/"), 1 << 20, whole_proc);
    let (trace, told) = trace::trace().map_err(failed)?;
    calls::in_child(|| {
        if plan.enter(&trace).is_ok() {
            trace.done();
        }
    })
    .map_err(failed)?;
    drop(trace);
    told.read()
        .unwrap_or_else(|| Err("entering a user namespace ended a process".to_owned()))
}

/// What is done to a child between fork and exec.
#[derive(Debug)]
pub(crate) struct Prepared {
    limits: Limits,
    confined: Option<Confined>,
}

#[derive(Debug)]
struct Confined {
    group: Option<Group>,
    plan: Option<Plan>,
    rules: Option<Rules>,
    filter: Option<&'static Filter>,
    trace: Trace,
    told: Option<Told>,
}

/// What a process is, for its sandbox.
struct Subject<'a> {
    /// Its working folder.
    folder: &'a Path,
    /// Programs that it consists of.
    programs: Vec<PathBuf>,
    /// What it reads, beyond programs and the system.
    read: Vec<&'a Path>,
    /// What it writes.
    write: Vec<&'a Path>,
    memory: Memory,
}

/// Prepares for the worker of a function, whose own program is in the folder `program`. An error is a
/// sentence.
pub(crate) fn prepare(config: &HostConfig, program: &Path) -> Result<Prepared, String> {
    let memory = match (config.memory_limit, config.language) {
        (Some(bytes), Language::Python) => Memory::AddressSpace(bytes),
        (Some(bytes), Language::Node) => Memory::Heap(bytes),
        (None, _) => Memory::Unsaid,
    };
    let Sandbox::Confined(confinement) = &config.sandbox else {
        return Ok(Prepared {
            limits: Limits::plain(memory),
            confined: None,
        });
    };
    let mut programs = vec![locate(config.interpreter(), &config.path)];
    programs.extend(
        config
            .command_prefix
            .first()
            .map(|first| locate(first.as_ref(), &config.path)),
    );
    let mut read = vec![config.code_dir.as_path(), program];
    let there = config
        .dependency_dirs
        .iter()
        .filter(|folder| folder.exists());
    read.extend(there.map(PathBuf::as_path));
    let subject = Subject {
        folder: &config.code_dir,
        programs,
        read,
        write: vec![&config.temp_dir],
        memory,
    };
    confine(subject, confinement)
}

/// Prepares for a command that is no worker.
pub(crate) fn prepare_command(
    command: &ConfinedCommand,
    read: &[PathBuf],
    write: Vec<&Path>,
    confinement: &Confinement,
) -> Result<Prepared, String> {
    let programs = command
        .programs
        .iter()
        .map(|program| locate(program, &command.path));
    let subject = Subject {
        folder: &command.folder,
        programs: programs.collect(),
        read: read.iter().map(PathBuf::as_path).collect(),
        write,
        memory: Memory::Unsaid,
    };
    confine(subject, confinement)
}

/// Prepares for any process.
fn confine(subject: Subject<'_>, confinement: &Confinement) -> Result<Prepared, String> {
    let machine = machine();
    let abilities = &machine.abilities;
    if confinement.required {
        let report = SandboxReport::of(abilities);
        let lacking: Vec<_> = report
            .lacking()
            .map(|(name, why)| format!("{name} ({why})"))
            .collect();
        if !lacking.is_empty() {
            return Err(format!(
                "this machine lacks protections: {}",
                lacking.join(", ")
            ));
        }
    }
    let mut parts = Parts {
        programs: subject.programs,
        read: subject.read,
        write: subject.write,
    };
    parts
        .read
        .extend(confinement.read.iter().map(PathBuf::as_path));
    parts
        .write
        .extend(confinement.write.iter().map(PathBuf::as_path));
    let places = places::places(&parts)?;
    let apart = abilities.namespaces.is_ok();
    let failed = |error: io::Error| format!("the sandbox could not be prepared: {error}");
    let (trace, told) = trace::trace().map_err(failed)?;
    let group = if machine.groups == Groups::default() {
        None
    } else {
        let memory = match subject.memory {
            Memory::AddressSpace(bytes) | Memory::Heap(bytes) => bytes,
            Memory::Unsaid => limits::unsaid(confinement),
        };
        let group = Group::new(&machine.groups, confinement.processes, memory);
        Some(group.map_err(|error| format!("no control group could be made: {error}"))?)
    };
    let rules = match abilities.landlock {
        Ok(version) => Some(Rules::new(&places, version, apart)?),
        Err(_) => None,
    };
    let scratch = confinement.scratch_bytes;
    Ok(Prepared {
        limits: Limits::confined(subject.memory, confinement, apart),
        confined: Some(Confined {
            group,
            plan: apart.then(|| Plan::new(&places, subject.folder, scratch, rules.is_some())),
            rules,
            filter: machine.filter.as_ref().ok(),
            trace,
            told: Some(told),
        }),
    })
}

/// Where a program is: a path, or a name that is looked up as `PATH` is.
fn locate(program: &Path, path: &str) -> PathBuf {
    if program.components().count() > 1 {
        return program.to_owned();
    }
    let mut folders = std::env::split_paths(path).map(|folder| folder.join(program));
    folders
        .find(|file| file.is_file())
        .unwrap_or_else(|| program.to_owned())
}

impl Prepared {
    /// For the parent, before all this goes to the child.
    pub(crate) fn watch(&mut self) -> Watch {
        let confined = self.confined.as_mut();
        Watch {
            apart: confined
                .as_ref()
                .is_some_and(|confined| confined.plan.is_some()),
            told: confined.and_then(|confined| confined.told.take()),
        }
    }

    /// Enters. Called in the child, whose only thread this is: nothing here allocates or locks.
    pub(crate) fn enter(&self) -> io::Result<()> {
        let Some(confined) = &self.confined else {
            return self.limits.enter();
        };
        let at = |stage| move |error| confined.trace.failed(stage, error);
        if let Some(group) = &confined.group {
            group.enter().map_err(at(Stage::Group))?;
        }
        if let Some(plan) = &confined.plan {
            plan.enter(&confined.trace)?;
        }
        self.limits.enter().map_err(at(Stage::Limits))?;
        calls::drop_capabilities().map_err(at(Stage::Capabilities))?;
        calls::no_new_privileges().map_err(at(Stage::Capabilities))?;
        if let Some(rules) = &confined.rules {
            rules.enter().map_err(at(Stage::Landlock))?;
        }
        if let Some(filter) = confined.filter {
            filter.enter().map_err(at(Stage::Filter))?;
        }
        Ok(())
    }
}

/// Looks at how the start went.
#[derive(Debug)]
pub(crate) struct Watch {
    told: Option<Told>,
    apart: bool,
}

impl Watch {
    /// The child, or why it did not start. The child's ends are closed here.
    pub(crate) fn outcome(self, started: io::Result<Child>) -> io::Result<Child> {
        match started {
            Ok(child) => {
                if let Some(process) = child.id().filter(|_| self.apart) {
                    left::remember(process);
                }
                Ok(child)
            }
            Err(error) => match self.told.and_then(Told::read) {
                Some(Err(why)) => Err(io::Error::other(format!("the sandbox refused: {why}"))),
                _ => Err(error),
            },
        }
    }
}
