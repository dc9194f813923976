//! Why folders cannot be deployed, in words for whoever typed the command.

use std::{io, net::SocketAddr, path::PathBuf};

use super::manifest::{self, ManifestError};

/// Why `dev` does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DevError {
    /// A folder is not one of a function.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Two folders are one function.
    #[error(
        "{} and {} are both named `{name}`: expected a name of its own for each, in {}",
        first.display(), second.display(), manifest::FILE
    )]
    SameName {
        /// The name.
        name: String,
        /// A folder.
        first: PathBuf,
        /// Another one.
        second: PathBuf,
    },
    /// The system names no folder for caches.
    #[error("this system names no folder for caches: set SLESS_DATA_DIR to a folder for builds")]
    NoCache,
    /// The port is in use.
    #[error("{address} is in use by another program: choose another port with --port")]
    PortTaken {
        /// The address.
        address: SocketAddr,
    },
    /// The same folders are being served.
    #[error(
        "{owner}; another `sless-server dev` has these folders: stop it, or set SLESS_DATA_DIR to a \
         folder of its own for this one"
    )]
    InUse {
        /// What the data folder says.
        owner: String,
    },
    /// What is left of an earlier run cannot be removed.
    #[error("functions of an earlier run cannot be removed")]
    Cleanup(#[source] sless_core::Error),
    /// A token cannot be left for the user.
    #[error("the token for the REST API cannot be made")]
    Token(#[from] crate::auth::KeyFileError),
    /// The token cannot be written.
    #[error("{} cannot be written", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

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
        "{} holds both {first} and {second}: expected `runtime` in {} to say which one is meant",
        path.display(), manifest::FILE
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
         `name` in {}", path.display(), manifest::FILE
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
    /// Its files cannot be taken.
    #[error("{}: {}", path.display(), source.message())]
    Source {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: sless_core::Error,
    },
}
