//! The policy for packages of others: `deny.toml`.

use anyhow::Result;

use super::Outcome;
use crate::{
    process::{Command, Shell},
    tools,
    workspace::Workspace,
};

pub(super) fn deny(_: &Workspace, shell: &mut Shell) -> Result<Outcome> {
    let deny = Command::new(tools::CARGO_DENY.ensure(shell)?);
    // Advisories are left out here; deny.toml says why.
    let deny = deny.args(["--workspace", "--all-features", "--log-level", "warn"]);
    shell.run(&deny.args(["check", "bans", "licenses", "sources"]))?;
    Ok(Outcome::Passed)
}
