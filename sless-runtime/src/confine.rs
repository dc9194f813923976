//! Confines commands that are no workers.

use std::io;
use std::path::{Path, PathBuf};

use tokio::process::{Child, Command};

use crate::sandbox::Confinement;
use crate::system;

/// What a command is, for its sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfinedCommand {
    /// Its working folder, which it may write to.
    pub folder: PathBuf,
    /// Programs that it consists of: a path, or a name that is looked up in `path`. Their installations
    /// are read.
    pub programs: Vec<PathBuf>,
    /// In the form of the variable `PATH`.
    pub path: String,
    /// What else it reads, where it is there.
    pub read: Vec<PathBuf>,
    /// What else it writes. Each must exist.
    pub write: Vec<PathBuf>,
}

impl ConfinedCommand {
    /// A command that needs nothing but its folder and the system.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            ..Self::default()
        }
    }

    /// Prepares the sandbox, which the child enters before it runs anything. Give what
    /// [`Command::spawn`] answers to [`Confining::started`].
    ///
    /// # Errors
    /// A sentence that says what is lacking or not there.
    pub fn confine(
        &self,
        command: &mut Command,
        confinement: &Confinement,
    ) -> Result<Confining, String> {
        let there = |paths: &[PathBuf]| -> Vec<PathBuf> {
            paths.iter().filter(|path| path.exists()).cloned().collect()
        };
        let read = there(&self.read);
        let folder: &Path = &self.folder;
        let mut write = vec![folder];
        write.extend(self.write.iter().map(PathBuf::as_path));
        let prepared = system::prepare_command(self, &read, write, confinement)?;
        Ok(Confining(system::confine(command, prepared)))
    }
}

/// A command that is confined and about to be started.
#[derive(Debug)]
pub struct Confining(system::Watch);

impl Confining {
    /// The child, or an error that says which part of the sandbox refused.
    ///
    /// # Errors
    /// That of the start.
    pub fn started(self, command: Command, started: io::Result<Child>) -> io::Result<Child> {
        // With it go all ends of what the child had to tell.
        drop(command);
        self.0.outcome(started)
    }
}

/// Ends what a confined command has started and left behind. Give the number of its process once it has
/// ended.
pub fn end_confined(process: u32) {
    system::kill_left(process);
}
