//! `dev`: each folder is a function, deployed at the start and again whenever it changes.
//!
//! [`prepare`] looks at folders and settings before anything is opened, so that what is wrong with
//! them is told at once; [`Session`] then works beside a running [`App`](crate::App).

mod deploy;
mod error;
mod example;
mod folder;
mod manifest;
mod print;
mod session;
mod settings;
mod watch;

pub use error::{DevError, FolderError};
pub use manifest::ManifestError;
pub use session::Session;
pub use settings::{DevOptions, Prepared, prepare};

/// The namespace of what `dev` deploys.
pub const NAMESPACE: &str = "dev";
