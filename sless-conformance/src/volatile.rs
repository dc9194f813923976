//! The harness for what keeps nothing.

use std::sync::Arc;

use async_trait::async_trait;
use sless_core::{Catalog, Result, Storage};

use crate::{Harness, catalog::CatalogHarness, storage::StorageHarness};

/// A harness for a backend that keeps nothing over a restart and runs on the machine's clock.
///
/// A backend that keeps its data, or that has its own clock, needs a harness of its own.
#[derive(Debug)]
pub struct Volatile<T: ?Sized>(Arc<T>);

impl Volatile<dyn Storage> {
    /// Of a storage.
    pub fn storage(storage: impl Storage) -> Self {
        Self(Arc::new(storage))
    }
}

impl Volatile<dyn Catalog> {
    /// Of a catalog.
    pub fn catalog(catalog: impl Catalog) -> Self {
        Self(Arc::new(catalog))
    }
}

impl<T: ?Sized + std::fmt::Debug + Send + Sync> Harness for Volatile<T> {}

#[async_trait]
impl StorageHarness for Volatile<dyn Storage> {
    async fn storage(&self) -> Result<Arc<dyn Storage>> {
        Ok(self.0.clone())
    }

    async fn reopen(&self) -> Result<bool> {
        Ok(false)
    }

    fn keeps_bodies_outside(&self) -> bool {
        false
    }
}

#[async_trait]
impl CatalogHarness for Volatile<dyn Catalog> {
    async fn catalog(&self) -> Result<Arc<dyn Catalog>> {
        Ok(self.0.clone())
    }

    async fn reopen(&self) -> Result<bool> {
        Ok(false)
    }

    async fn forget_history(&self) -> Result<bool> {
        Ok(false)
    }
}
