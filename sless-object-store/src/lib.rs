//! [`Storage`](sless_core::Storage) on any [`object_store`](object_store::ObjectStore): Google, Azure,
//! plain files, memory, and whatever else implements it.
//!
//! Make the store with the crate `object_store` and its features, and say what it can do:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> sless_core::Result<()> {
//! use object_store::memory::InMemory;
//! use sless_core::{PutOptions, Storage as _, StorageKey, bytes_stream};
//! use sless_object_store::{ObjectStoreOptions, ObjectStoreStorage};
//!
//! let mut options = ObjectStoreOptions::default();
//! options.backend = "memory";
//! options.if_absent = true;
//! let storage = ObjectStoreStorage::new(InMemory::new(), options);
//! let key = StorageKey::new("a/b")?;
//! let stored = storage.put(&key, bytes_stream("body"), &PutOptions::default()).await?;
//! assert_eq!(stored.size, 4);
//! # Ok(())
//! # }
//! ```
//!
//! With the feature `presign`, a store that is a `Signer` makes a [`Presign`](sless_core::Presign).
//!
//! For S3 there is the crate `sless-s3`, which knows more of it: it aborts what was dropped, tells one
//! failure from another, and asks the store what it can do.

mod body;
mod fault;
mod layout;
mod options;
mod parts;
mod points;
#[cfg(feature = "presign")]
mod presign;
mod storage;

/// The moments at which a test may end the process.
pub const FAULT_POINTS: &[sless_core::FaultPoint] = points::ALL;

pub use self::{
    layout::{FileLayout, KeyLayout, Layout},
    options::ObjectStoreOptions,
    storage::{ObjectStoreStorage, STAGING},
};
