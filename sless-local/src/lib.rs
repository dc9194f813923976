//! The backends of sless for one machine: SQLite, files, processes, an in-process queue.
//!
//! [`Local`] opens them all on one [`DataDir`]; each can also be opened alone and combined with others.
//! Everything that is kept is crash safe: a process may be killed at any moment.

mod artifacts;
mod blocking;
mod builder;
mod catalog;
mod config;
mod data_dir;
mod database;
mod dispatcher;
mod error;
mod invocations;
mod lease;
mod local;
mod logs;
mod points;
mod process;
mod records;
mod sandbox;
mod scheduler;
mod storage;

pub use builder::{BuilderConfig, LocalBuilder};
pub use catalog::LocalCatalog;
pub use config::{
    CatalogConfig, DatabaseConfig, InvocationsConfig, LocalConfig, QueueConfig, StorageConfig,
};
pub use data_dir::DataDir;
pub use dispatcher::LocalDispatcher;
pub use invocations::LocalInvocationLog;
pub use lease::LocalLease;
pub use local::Local;
pub use logs::LogsConfig;
pub use process::ToolsConfig;
pub use sandbox::{SandboxConfig, SandboxMode};
pub use scheduler::{LocalScheduler, SchedulerConfig};
pub use sless_runtime::{Confinement, Enforcement, Protection, SandboxReport};
pub use storage::LocalStorage;

pub(crate) use blocking::blocking;

/// The moments at which a test may end the process, those of the storage included.
pub fn fault_points() -> impl Iterator<Item = sless_core::FaultPoint> {
    points::ALL
        .iter()
        .chain(sless_object_store::FAULT_POINTS)
        .copied()
}

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
