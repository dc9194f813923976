//! Decorators: what can be put around any backend.
//!
//! A decorator is a [`Decorated`] backend: the backend, and something that stands [`Around`] each of
//! its calls. There are five, and an embedder can write others:
//!
//! | decorator | does |
//! |---|---|
//! | [`Retry`] | repeats what failed for a passing reason |
//! | [`Timeout`] | ends calls that take too long |
//! | [`Limit`] | lets so many calls through at once |
//! | [`Trace`] | tells `tracing` of each call |
//! | [`Fault`] | makes calls fail, hang or wait, for tests |
//!
//! All apply to [`Catalog`](crate::Catalog), [`Storage`](crate::Storage),
//! [`Builder`](crate::Builder), [`Scheduler`](crate::Scheduler), [`Validator`](crate::Validator),
//! [`Dispatcher`](crate::Dispatcher), [`Publish`](crate::Publish),
//! [`InvocationLog`](crate::InvocationLog) and [`Lease`](crate::Lease), and so do `Arc` and `Box`.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use sless_core::{
//!     SystemClock, Storage, bytes_stream, StorageKey,
//!     decorate::{Retry, RetryConfig, Timeout, TimeoutConfig},
//!     memory::MemoryStorage,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> sless_core::Result<()> {
//! let clock = Arc::new(SystemClock);
//! let storage = MemoryStorage::new(clock.clone());
//! // Each attempt has five seconds.
//! let storage = Timeout::new(storage, TimeoutConfig::new(Duration::from_secs(5)), clock.clone());
//! let storage = Retry::new(storage, RetryConfig::default(), clock);
//! let key = StorageKey::new("functions/a")?;
//! storage.put(&key, bytes_stream("content"), &Default::default()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Order
//! The outermost acts first. From the inside out, what mostly is wanted is: `Fault`, `Trace` (each
//! attempt is told), `Limit` (each attempt takes a place), `Timeout` (each attempt has its time, the
//! wait for a place included), `Retry`.
//!
//! # Cancellation
//! Dropping a call's future drops the call of the backend at once, wherever a decorator is: none
//! spawns a task. What the backend promises for a dropped future so holds for the decorated one.
//!
//! # What is passed through untouched
//! `capabilities`, `identity` and `changes` (save that [`Fault`] can lose hints); log streams; and
//! calls of functions through an [`Invoke`](crate::Invoke), save for [`Trace`] and [`Fault`]: a call
//! has a deadline of its own, is counted by the scheduler, and is not safe to repeat.

mod decorated;
mod each;
mod fault;
mod fault_rule;
mod forward;
mod limit;
mod operation;
mod retry;
#[cfg(test)]
mod tests;
mod timeout;
mod trace;

pub use self::{
    decorated::{Around, Decorated},
    fault::{Fault, Faults},
    fault_rule::FaultRule,
    limit::{Limit, LimitConfig, Limits},
    operation::Operation,
    retry::{Retries, Retry, RetryConfig},
    timeout::{Timeout, TimeoutConfig, Timeouts},
    trace::{Trace, Traces},
};
