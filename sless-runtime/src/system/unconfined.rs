//! A system without a sandbox.

use std::path::{Path, PathBuf};

use crate::config::{HostConfig, Language};
use crate::confine::ConfinedCommand;
use crate::sandbox::{Abilities, Confinement, Sandbox, SandboxReport};

const WHY: &str = "only Linux has it";

/// What is done to a child between fork and exec.
#[derive(Debug)]
pub(crate) struct Prepared {
    address_space: Option<u64>,
}

pub(crate) fn abilities() -> Abilities {
    let lacking = || WHY.to_owned();
    Abilities {
        landlock: Err(lacking()),
        filter: Err(lacking()),
        namespaces: Err(lacking()),
        processes: Err(lacking()),
        memory: Err(lacking()),
    }
}

pub(crate) fn prepare(config: &HostConfig, _: &Path) -> Result<Prepared, String> {
    if let Sandbox::Confined(confinement) = &config.sandbox {
        check(confinement)?;
    }
    let limit = config.memory_limit;
    Ok(Prepared {
        address_space: limit.filter(|_| config.language == Language::Python),
    })
}

pub(crate) fn prepare_command(
    _: &ConfinedCommand,
    _: &[PathBuf],
    _: Vec<&Path>,
    confinement: &Confinement,
) -> Result<Prepared, String> {
    check(confinement)?;
    Ok(Prepared {
        address_space: None,
    })
}

fn check(confinement: &Confinement) -> Result<(), String> {
    if !confinement.required {
        return Ok(());
    }
    let lacking = SandboxReport::of(&abilities()).lacking().count();
    Err(format!("this system lacks {lacking} protections: {WHY}"))
}

pub(crate) fn kill_left(_: u32) {}

#[cfg(not(unix))]
pub(crate) fn confine(_: &mut tokio::process::Command, _: Prepared) -> Watch {
    Watch
}

/// Looks at how the start went.
#[derive(Debug)]
pub(crate) struct Watch;

impl Watch {
    pub(crate) fn outcome<T>(self, started: std::io::Result<T>) -> std::io::Result<T> {
        started
    }
}

#[cfg(unix)]
impl Prepared {
    pub(crate) fn watch(&mut self) -> Watch {
        Watch
    }

    pub(crate) fn enter(&self) -> std::io::Result<()> {
        use rustix::process::{Resource, Rlimit, setrlimit};
        let Some(bytes) = self.address_space else {
            return Ok(());
        };
        let limit = Rlimit {
            current: Some(bytes),
            maximum: Some(bytes),
        };
        Ok(setrlimit(Resource::As, limit)?)
    }
}
