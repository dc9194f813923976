//! Backends that keep everything in the memory of this process.
//!
//! They are backends like any other: they pass the same conformance suites, and an embedder may use
//! them where losing everything with the process is fine. Functions are closures of the program
//! that embeds them, see [`MemoryScheduler`].
//!
//! # Time
//! Each takes a [`Clock`](crate::Clock) and waits through nothing else. Under a
//! [`VirtualClock`](crate::VirtualClock) on a current-thread runtime, the same calls give the same
//! results in the same order.
//!
//! # Tasks
//! [`MemoryBuilder`], [`MemoryScheduler`] and [`MemoryDispatcher`] work between calls. Each owns its
//! tasks, spawns them on the tokio runtime that calls it, and ends them when it is dropped.
//!
//! # Crashes
//! An engine can be dropped at any point and another one started over the same backends: share them
//! by `Arc`. For a crash of the whole process, those that own tasks have a method `restarted`, which
//! ends all work and answers a new backend over what a durable one would have kept.

mod builder;
mod catalog;
mod dispatcher;
mod invocations;
mod lease;
mod log;
mod scheduler;
mod storage;
mod tasks;
#[cfg(test)]
mod tests;
mod tick;
mod validator;

pub use builder::{BuildPlan, MemoryBuilder, MemoryBuilderConfig};
pub use catalog::{MemoryCatalog, MemoryCatalogConfig};
pub use dispatcher::{MemoryDispatcher, MemoryDispatcherConfig};
pub use invocations::{MemoryInvocationLog, MemoryInvocationLogConfig};
pub use lease::MemoryLease;
pub use scheduler::{
    HandlerContext, HandlerError, HandlerResult, MemoryScheduler, MemorySchedulerConfig,
};
pub use storage::{MemoryStorage, MemoryStorageConfig};
pub use validator::{MemoryValidator, NoopValidator};

#[cfg(test)]
pub(crate) use tests::workload as test_workload;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The name of these backends in errors and receipts.
const BACKEND: &str = "memory";

/// Locks, also after a panic: every change under these locks is complete before anything in it can
/// panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
