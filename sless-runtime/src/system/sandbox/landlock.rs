//! Rulesets of Landlock.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError, Scope,
};

use super::calls;
use super::namespaces::SCRATCH;
use super::places::{Access, Place, text};

/// Made before the fork, entered after it.
#[derive(Debug)]
pub(super) struct Rules {
    ruleset: OwnedFd,
    /// What can only be named once the process is there: itself in `/proc`, and its folders in memory.
    late: Vec<(std::ffi::CString, u64)>,
}

/// The newest version that this program knows, of those that the kernel has.
fn abi(version: u32) -> ABI {
    match version {
        0 => ABI::Unsupported,
        1 => ABI::V1,
        2 => ABI::V2,
        3 => ABI::V3,
        4 => ABI::V4,
        5 => ABI::V5,
        6 => ABI::V6,
        _ => ABI::V7,
    }
}

fn rights(access: Access, abi: ABI) -> BitFlags<AccessFs> {
    let devices = AccessFs::MakeChar | AccessFs::MakeBlock;
    match access {
        Access::Read => AccessFs::from_read(abi),
        Access::Device => AccessFs::ReadFile | AccessFs::WriteFile,
        Access::Write => AccessFs::from_all(abi) & !devices,
    }
}

impl Rules {
    /// `scratch` says whether the process gets folders in memory of its own.
    pub(super) fn new(places: &[Place], version: u32, scratch: bool) -> Result<Self, String> {
        let abi = abi(version);
        let failed = |error: RulesetError| format!("Landlock: {error}");
        let mut ruleset = Ruleset::default()
            .handle_access(AccessFs::from_all(abi))
            .map_err(failed)?;
        let scopes = Scope::from_all(abi);
        if !scopes.is_empty() {
            ruleset = ruleset.scope(scopes).map_err(failed)?;
        }
        let mut ruleset = ruleset.create().map_err(failed)?;
        for place in places {
            let mut allowed = rights(place.access, abi);
            if !place.source.is_dir() {
                allowed &= AccessFs::from_file(abi);
            }
            // It was there a moment ago; what has gone is not reached either.
            let Ok(path) = PathFd::new(&place.source) else {
                continue;
            };
            ruleset = ruleset
                .add_rule(PathBeneath::new(path, allowed))
                .map_err(failed)?;
        }
        let mut late = vec![(text("/proc/self"), rights(Access::Read, abi).bits())];
        if scratch {
            let all = rights(Access::Write, abi).bits();
            late.extend(SCRATCH.map(|folder| (text(folder), all)));
        }
        let ruleset: Option<OwnedFd> = ruleset.into();
        let ruleset = ruleset.ok_or("Landlock is not there any more")?;
        Ok(Self { ruleset, late })
    }

    /// Called in the child.
    pub(super) fn enter(&self) -> io::Result<()> {
        let ruleset = self.ruleset.as_fd();
        for (path, allowed) in &self.late {
            calls::allow_below(ruleset, path, *allowed)?;
        }
        calls::no_new_privileges()?;
        calls::restrict_self(ruleset)
    }
}
