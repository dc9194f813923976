//! `dev`: each folder is a function, deployed at the start and again whenever it changes.
//!
//! [`prepare`] looks at folders and settings before anything is opened, so that what is wrong with
//! them is told at once; [`Session`] then works beside a running [`App`](crate::App).

mod deploy;
mod error;
mod example;
mod print;
mod session;
mod settings;

pub use error::DevError;
pub use session::Session;
pub use settings::{DevOptions, Prepared, prepare};
pub use sless_source::{FolderError, ManifestError};

/// The namespace of what `dev` deploys.
pub const NAMESPACE: &str = "dev";
