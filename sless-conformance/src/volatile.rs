//! The harness for what keeps nothing.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use sless_core::{Catalog, InvocationLog, Lease, Result, Storage};

use crate::{
    Harness, catalog::CatalogHarness, invocation_log::InvocationLogHarness, lease::LeaseHarness,
    storage::StorageHarness,
};

/// A harness for a backend that keeps nothing over a restart and runs on the machine's clock: the
/// shortest way to a first run of a suite.
///
/// The clauses on crashes are not checked then. A backend that keeps its data, or that has a clock
/// of its own, needs a harness of its own.
#[derive(Debug)]
pub struct Volatile<T: ?Sized> {
    backend: Arc<T>,
    outside: bool,
}

impl Volatile<dyn Storage> {
    /// Of a storage that keeps its bodies in the memory of this process.
    pub fn storage(storage: impl Storage) -> Self {
        Self {
            backend: Arc::new(storage),
            outside: false,
        }
    }

    /// Of a storage that keeps its bodies elsewhere: they have to stream.
    pub fn streaming_storage(storage: impl Storage) -> Self {
        Self {
            backend: Arc::new(storage),
            outside: true,
        }
    }
}

impl Volatile<dyn Catalog> {
    /// Of a catalog.
    pub fn catalog(catalog: impl Catalog) -> Self {
        Self {
            backend: Arc::new(catalog),
            outside: false,
        }
    }
}

impl Volatile<dyn InvocationLog> {
    /// Of an invocation log.
    pub fn invocation_log(log: impl InvocationLog) -> Self {
        Self {
            backend: Arc::new(log),
            outside: false,
        }
    }
}

impl Volatile<dyn Lease> {
    /// Of a lease between the parts of one process.
    pub fn lease(lease: impl Lease) -> Self {
        Self {
            backend: Arc::new(lease),
            outside: false,
        }
    }
}

impl<T: ?Sized + fmt::Debug + Send + Sync> Harness for Volatile<T> {}

#[async_trait]
impl StorageHarness for Volatile<dyn Storage> {
    async fn storage(&self) -> Result<Arc<dyn Storage>> {
        Ok(self.backend.clone())
    }

    async fn reopen(&self) -> Result<bool> {
        Ok(false)
    }

    fn keeps_bodies_outside(&self) -> bool {
        self.outside
    }
}

#[async_trait]
impl CatalogHarness for Volatile<dyn Catalog> {
    async fn catalog(&self) -> Result<Arc<dyn Catalog>> {
        Ok(self.backend.clone())
    }

    async fn reopen(&self) -> Result<bool> {
        Ok(false)
    }

    async fn forget_history(&self) -> Result<bool> {
        Ok(false)
    }
}

#[async_trait]
impl InvocationLogHarness for Volatile<dyn InvocationLog> {
    async fn invocation_log(&self) -> Result<Arc<dyn InvocationLog>> {
        Ok(self.backend.clone())
    }

    async fn reopen(&self) -> Result<bool> {
        Ok(false)
    }
}

#[async_trait]
impl LeaseHarness for Volatile<dyn Lease> {
    async fn lease(&self) -> Result<Arc<dyn Lease>> {
        Ok(self.backend.clone())
    }

    async fn another(&self) -> Result<Arc<dyn Lease>> {
        Ok(self.backend.clone())
    }
}
