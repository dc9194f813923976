//! A folder with a configuration, and Terraform in it: what tests of providers share.

// It exists for tests: what is not as expected ends them.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)]

mod workspace;

pub use workspace::{DEADLINE, Running, Said, Workspace, is_running, providers_of};
