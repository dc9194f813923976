//! Where things are: the checkout, its packages, the target folder.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use cargo_metadata::{Metadata, MetadataCommand, Package};

/// The checkout that this program was built from.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// The folder of the root `Cargo.toml`.
    pub(crate) root: PathBuf,
    metadata: Metadata,
}

impl Workspace {
    /// Asks cargo for the packages of this workspace, without their dependencies.
    pub(crate) fn load() -> Result<Self> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = manifest
            .parent()
            .context("xtask is not inside a workspace")?;
        if !root.join("Cargo.toml").is_file() {
            bail!(
                "{} is gone: this program belongs to another checkout",
                root.join("Cargo.toml").display()
            );
        }
        // Whatever folder the command was started in, the steps see the root.
        std::env::set_current_dir(root)
            .with_context(|| format!("cannot enter {}", root.display()))?;
        let metadata = MetadataCommand::new()
            .no_deps()
            .exec()
            .context("cannot read the workspace with `cargo metadata`")?;
        Ok(Self {
            root: root.to_path_buf(),
            metadata,
        })
    }

    /// The members, by name.
    pub(crate) fn members(&self) -> Vec<&Package> {
        let mut members = self.metadata.workspace_packages();
        members.sort_by(|a, b| a.name.cmp(&b.name));
        members
    }

    /// One member.
    pub(crate) fn member(&self, name: &str) -> Result<&Package> {
        self.members()
            .into_iter()
            .find(|package| package.name == name)
            .with_context(|| format!("the workspace has no member named {name}"))
    }

    /// Where a chore keeps what it needs until it ends.
    pub(crate) fn state(&self, chore: &str) -> PathBuf {
        let folder = self.metadata.target_directory.join("xtask").join("state");
        folder.join(chore).into_std_path_buf()
    }

    /// Where the output of a step is kept until its next run.
    pub(crate) fn log(&self, step: &str) -> PathBuf {
        let folder = self.metadata.target_directory.join("xtask");
        folder.join(format!("{step}.log")).into_std_path_buf()
    }
}
