//! Steps that are one cargo command, or one per package.

use anyhow::Result;

use super::Outcome;
use crate::{
    process::{Command, Shell},
    tools,
    workspace::Workspace,
};

/// What every run of clippy ends with.
const DENY_WARNINGS: [&str; 3] = ["--", "-D", "warnings"];

pub(super) fn fmt(_: &Workspace, shell: &mut Shell) -> Result<Outcome> {
    shell.run(&Command::cargo("fmt").args(["--all", "--check"]))?;
    Ok(Outcome::Passed)
}

pub(super) fn clippy(_: &Workspace, shell: &mut Shell) -> Result<Outcome> {
    let clippy = Command::cargo("clippy").args(["--workspace", "--all-targets", "--all-features"]);
    shell.run(&clippy.args(DENY_WARNINGS))?;
    Ok(Outcome::Passed)
}

pub(super) fn features(_: &Workspace, shell: &mut Shell) -> Result<Outcome> {
    // Each crate alone, so that a feature that only a sibling turns on is found. Libraries and programs
    // only: the tests of all crates are linted together, and so are all features.
    let hack = tools::CARGO_HACK.ensure(shell)?;
    let hack = Command::new(hack)
        .args(["hack", "clippy", "--workspace", "--each-feature"])
        .args(["--exclude-features", "default", "--exclude-all-features"]);
    shell.run(&hack.args(DENY_WARNINGS))?;
    Ok(Outcome::Passed)
}

pub(super) fn doctests(_: &Workspace, shell: &mut Shell) -> Result<Outcome> {
    let test =
        Command::cargo("test").args(["--workspace", "--all-features", "--doc", "--no-fail-fast"]);
    shell.run(&test)?;
    Ok(Outcome::Passed)
}

pub(super) fn docs(_: &Workspace, shell: &mut Shell) -> Result<Outcome> {
    let doc = Command::cargo("doc").args(["--workspace", "--all-features", "--no-deps"]);
    shell.run(&doc.env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok(Outcome::Passed)
}
