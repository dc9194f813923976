//! The suites on the backends in memory: on the machine's clock and several threads, and on a
//! virtual clock and one.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use sless_conformance::{Harness, catalog::CatalogHarness, storage::StorageHarness};
use sless_core::{
    Catalog, Clock, Kind, Result, Storage, SystemClock, VirtualClock,
    memory::{MemoryCatalog, MemoryCatalogConfig, MemoryStorage},
};

/// A clock that passes by itself, or that the suite passes.
#[derive(Clone, Debug)]
pub(crate) enum Time {
    System,
    Virtual(VirtualClock),
}

impl Time {
    pub(crate) fn virtual_clock() -> Self {
        Self::Virtual(VirtualClock::default())
    }

    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        match self {
            Self::System => Arc::new(SystemClock),
            Self::Virtual(clock) => Arc::new(clock.clone()),
        }
    }

    async fn pass(&self, duration: Duration) {
        match self {
            Self::System => tokio::time::sleep(duration).await,
            Self::Virtual(clock) => clock.advance(duration).await,
        }
    }
}

/// A harness of a backend in memory.
#[derive(Debug)]
pub(crate) struct Memory<T> {
    time: Time,
    backend: T,
}

#[async_trait]
impl<T: std::fmt::Debug + Send + Sync> Harness for Memory<T> {
    fn clock(&self) -> Arc<dyn Clock> {
        self.time.clock()
    }

    async fn pass(&self, duration: Duration) {
        self.time.pass(duration).await;
    }
}

pub(crate) fn storage(time: Time) -> Memory<Arc<MemoryStorage>> {
    let backend = Arc::new(MemoryStorage::new(time.clock()));
    Memory { time, backend }
}

#[async_trait]
impl StorageHarness for Memory<Arc<MemoryStorage>> {
    async fn storage(&self) -> Result<Arc<dyn Storage>> {
        Ok(self.backend.clone())
    }

    async fn reopen(&self) -> Result<bool> {
        Ok(false)
    }

    fn keeps_bodies_outside(&self) -> bool {
        false
    }
}

/// How many changes the catalog remembers here: more than a clause makes between two looks.
const HISTORY: usize = 400;

pub(crate) fn catalog(time: Time) -> Memory<Arc<MemoryCatalog>> {
    let mut config = MemoryCatalogConfig::default();
    config.history = HISTORY;
    let backend = Arc::new(MemoryCatalog::with_config(time.clock(), config));
    Memory { time, backend }
}

#[async_trait]
impl CatalogHarness for Memory<Arc<MemoryCatalog>> {
    async fn catalog(&self) -> Result<Arc<dyn Catalog>> {
        Ok(self.backend.clone())
    }

    async fn reopen(&self) -> Result<bool> {
        Ok(false)
    }

    async fn forget_history(&self) -> Result<bool> {
        let query = sless_core::ListQuery::all(Kind::Function).with_limit(1);
        let page = self.backend.list(&query).await?;
        let Some(mut object) = page.items.into_iter().next() else {
            return Ok(false);
        };
        for number in 0..=HISTORY {
            object
                .metadata_mut()
                .labels
                .insert("number".to_owned(), number.to_string());
            object = self.backend.update(object).await?;
        }
        Ok(true)
    }
}

mod on_the_machines_clock {
    use super::Time;

    mod storage {
        use super::{super::storage, Time};
        sless_conformance::storage!(storage(Time::System));
    }

    mod catalog {
        use super::{super::catalog, Time};
        sless_conformance::catalog!(catalog(Time::System));
    }
}

mod on_a_virtual_clock {
    use super::Time;

    mod storage {
        use super::{super::storage, Time};
        sless_conformance::storage!(flavor = "current_thread", storage(Time::virtual_clock()));
    }

    mod catalog {
        use super::{super::catalog, Time};
        sless_conformance::catalog!(flavor = "current_thread", catalog(Time::virtual_clock()));
    }
}
