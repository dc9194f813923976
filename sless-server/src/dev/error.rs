//! Why folders cannot be deployed, in words for whoever typed the command.

use std::{io, net::SocketAddr, path::PathBuf};

use sless_source::{FILE, FolderError};

/// Why `dev` does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DevError {
    /// A folder is not one of a function.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Two folders are one function.
    #[error(
        "{} and {} are both named `{name}`: expected a name of its own for each, in {FILE}",
        first.display(), second.display()
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
