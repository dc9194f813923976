//! Why a folder is not one of a function, in words for whoever typed the command.

use std::{io, path::PathBuf};

use crate::manifest::{FILE, ManifestError};

/// Why a folder is not one of a function.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// It is not there, or cannot be read.
    #[error("{} cannot be read: {source}; expected a folder with the code of a function", path.display())]
    Unreadable {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is a file.
    #[error("{} is a file: expected a folder with the code of a function", path.display())]
    NotAFolder {
        /// The file.
        path: PathBuf,
    },
    /// Nothing tells which language it is.
    #[error("{} holds no function: none of {looked_for} is there", path.display())]
    NoHandler {
        /// The folder.
        path: PathBuf,
        /// The files looked for.
        looked_for: String,
    },
    /// There are handlers of several languages.
    #[error(
        "{} holds both {first} and {second}: expected `runtime` in {FILE} to say which one is meant",
        path.display()
    )]
    TwoHandlers {
        /// The folder.
        path: PathBuf,
        /// The handler of one language.
        first: &'static str,
        /// The handler of another one.
        second: &'static str,
    },
    /// No name can be made of the folder's.
    #[error(
        "no function can be named after {}: expected a letter or digit in the folder's name, or \
         `name` in {FILE}", path.display()
    )]
    NoName {
        /// The folder.
        path: PathBuf,
    },
    /// Its manifest is wrong.
    #[error("{}:{source}", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// What is wrong, and where.
        source: ManifestError,
    },
    /// What was given in the place of the manifest's values cannot be used.
    #[error("{0}")]
    Override(#[from] crate::wire::FieldError),
    /// A file that says what to ignore cannot be understood. Nothing is taken then: what it was to
    /// keep back could be a secret.
    #[error("{}: an ignore file is wrong: {message}", path.display())]
    Ignore {
        /// The folder.
        path: PathBuf,
        /// Which file and line, and what is wrong.
        message: String,
    },
    /// Its files cannot be taken.
    #[error("{}: {}", path.display(), source.message())]
    Source {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: sless_core::Error,
    },
}

impl FolderError {
    /// Whether all that is wrong is that the folder holds no code.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Source { source, .. } if source.reason() == "source_empty")
    }

    pub(crate) fn unreadable(path: impl Into<PathBuf>, source: io::Error) -> Self {
        let path = path.into();
        Self::Unreadable { path, source }
    }
}
