//! Conformance suites for backends of sless: one per trait, one named test per clause.
//!
//! You wrote a backend: a [`Storage`](sless_core::Storage), a [`Scheduler`](sless_core::Scheduler),
//! any trait of `sless-core`. Its contract stands in `docs/contracts`, clause by clause. Here is the
//! suite that holds your backend to it.
//!
//! # In five minutes
//! Add the crate to your dev-dependencies. In a file of your `tests` folder, give one macro a way to
//! make your backend:
//!
//! ```
//! use std::sync::Arc;
//! use sless_conformance::Volatile;
//! use sless_core::{SystemClock, memory::MemoryStorage};
//!
//! fn my_storage() -> MemoryStorage {
//!     MemoryStorage::new(Arc::new(SystemClock))
//! }
//!
//! sless_conformance::storage!(Volatile::storage(my_storage()));
//! # fn main() {} // What the macro makes are tests: `cargo test` finds them.
//! ```
//!
//! `cargo test` then shows a test for each clause. One that fails names its clause and says what was
//! seen:
//!
//! ```text
//! storage-21 is violated: the order of a listing: got ["A/x", …], expected ["A/x", …]
//! ```
//!
//! | backend | macro | harness |
//! |---|---|---|
//! | `Storage` | [`storage!`] | [`StorageHarness`](storage::StorageHarness), [`Volatile`] |
//! | `Catalog` | [`catalog!`] | [`CatalogHarness`](catalog::CatalogHarness), [`Volatile`] |
//! | `Builder` | [`builder!`] | [`BuilderHarness`](builder::BuilderHarness) |
//! | `Scheduler` | [`scheduler!`] | [`SchedulerHarness`](scheduler::SchedulerHarness) |
//! | `Dispatcher` | [`dispatcher!`] | [`DispatcherHarness`](dispatcher::DispatcherHarness) |
//! | `Validator` | [`validator!`] | [`ValidatorHarness`](validator::ValidatorHarness) |
//! | `InvocationLog` | [`invocation_log!`] | [`InvocationLogHarness`](invocation_log::InvocationLogHarness), [`Volatile`] |
//! | `Lease` | [`lease!`] | [`LeaseHarness`](lease::LeaseHarness), [`Volatile`] |
//!
//! # A harness of your own
//! A harness makes the backend, and tells the suite what it cannot know: how to crash the backend and
//! open it again, how its time passes, what it can do. Each test makes a new one, so that tests run
//! side by side. The expression may `await`:
//!
//! ```
//! # use std::sync::{Arc, Mutex, PoisonError};
//! # use async_trait::async_trait;
//! # use sless_conformance::{Harness, storage::StorageHarness};
//! # use sless_core::{Result, Storage, SystemClock, memory::MemoryStorage};
//! # async fn open(_: &std::path::Path) -> Result<MemoryStorage> {
//! #     Ok(MemoryStorage::new(Arc::new(SystemClock)))
//! # }
//! #[derive(Debug)]
//! struct Files {
//!     folder: std::path::PathBuf,
//!     storage: Mutex<Option<Arc<dyn Storage>>>,
//! }
//!
//! impl Harness for Files {} // On the machine's clock.
//!
//! #[async_trait]
//! impl StorageHarness for Files {
//!     async fn storage(&self) -> Result<Arc<dyn Storage>> {
//!         let known = self.storage.lock().unwrap_or_else(PoisonError::into_inner).clone();
//!         if let Some(storage) = known {
//!             return Ok(storage);
//!         }
//!         let opened: Arc<dyn Storage> = Arc::new(open(&self.folder).await?);
//!         *self.storage.lock().unwrap_or_else(PoisonError::into_inner) = Some(opened.clone());
//!         Ok(opened)
//!     }
//!
//!     async fn reopen(&self) -> Result<bool> {
//!         // The next call of `storage` opens another one over the same folder.
//!         *self.storage.lock().unwrap_or_else(PoisonError::into_inner) = None;
//! #       return Ok(false);
//!         Ok(true)
//!     }
//! }
//! # fn main() {}
//! ```
//!
//! Time matters to a scheduler, a dispatcher, a lease. A backend on a
//! [`VirtualClock`](sless_core::VirtualClock) says so in its [`Harness`], and asks for a runtime of one
//! thread, on which that clock is exact: `lease!(flavor = "current_thread", …)`. Without `flavor`, a
//! test has two threads, which shows what goes wrong between them.
//!
//! # What a suite needs
//! A backend that needs a service says so with an attribute, which goes to every test of the suite:
//!
//! ```
//! # use std::sync::Arc;
//! # use sless_conformance::Volatile;
//! # use sless_core::{SystemClock, memory::MemoryStorage};
//! # fn bucket() -> MemoryStorage { MemoryStorage::new(Arc::new(SystemClock)) }
//! sless_conformance::storage!(
//!     #[ignore = "needs S3: see testing/s3"]
//!     Volatile::streaming_storage(bucket())
//! );
//! # fn main() {}
//! ```
//!
//! Two suites of one trait stand in two modules. A clause uses names of its own, so that tests can
//! share a service, and removes what it made. It polls for what has to happen, as long as
//! [`Harness::patience`] allows, and looks on for [`Harness::quiet`] where something must not happen.
//!
//! Where a backend lacks a capability, and says so, the suite asks for the refusal instead.
//!
//! # Clauses as data
//! `clauses()` of each module gives the same clauses as values, to make a report of, or to see that a
//! clause finds what it should: this crate's own tests run them on backends with one defect each.
//!
//! ```
//! # use std::sync::Arc;
//! # use sless_conformance::{Volatile, storage};
//! # use sless_core::{SystemClock, memory::MemoryStorage};
//! # #[tokio::main]
//! # async fn main() {
//! let harness = Volatile::storage(MemoryStorage::new(Arc::new(SystemClock)));
//! let first = &storage::clauses()[0];
//! assert_eq!((first.id, first.name), ("storage-1", "what_was_put_is_read_back"));
//! assert!((first.run)(&harness).await.is_ok());
//! # }
//! ```
//!
//! A whole third-party crate, with a storage and a scheduler, is in `examples/third-party-backend`.

mod bytes;
mod clause;
mod fixture;
mod harness;
mod held;
mod suite;
mod unique;
mod volatile;
mod wheel;

pub mod builder;
pub mod catalog;
pub mod dispatcher;
pub mod invocation_log;
pub mod lease;
pub mod scheduler;
pub mod storage;
pub mod validator;

pub use clause::{Clause, Outcome, Violation};
pub use fixture::{Fixture, FixtureCall, FixtureError, FixtureFunction, WriteLine};
pub use harness::{CLAUSE_TIME_MAX, Harness};
pub use volatile::Volatile;

#[doc(hidden)]
pub use harness::run;
