//! The suites of the traits, each clause on a data folder of its own.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use sless_conformance::{
    Harness, catalog::CatalogHarness, dispatcher::DispatcherHarness,
    invocation_log::InvocationLogHarness, lease::LeaseHarness, storage::StorageHarness,
};
use sless_core::{
    Catalog, Dispatcher, Error, InvocationLog, Lease, Namespace, Publish, Result, Storage,
};
use sless_local::{Local, LocalConfig, ToolsConfig};
use tempfile::TempDir;

/// The backends of one data folder, which can be closed and opened again.
#[derive(Debug)]
pub(super) struct Folder {
    folder: TempDir,
    local: Mutex<Option<Local>>,
}

impl Folder {
    pub(super) async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let local = open(folder.path()).await.expect("a fresh folder opens");
        Self {
            folder,
            local: Mutex::new(Some(local)),
        }
    }

    pub(super) fn with<T>(&self, pick: impl FnOnce(&Local) -> T) -> Result<T> {
        let local = self.local.lock().unwrap_or_else(PoisonError::into_inner);
        local
            .as_ref()
            .map(pick)
            .ok_or_else(|| Error::internal("the folder is closed"))
    }

    /// Drops everything without a shutdown, and opens it again.
    pub(super) async fn reopen(&self) -> Result<bool> {
        let before = self
            .local
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        drop(before);
        let opened = open(self.folder.path()).await?;
        self.local
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .replace(opened);
        Ok(true)
    }
}

/// Opens the folder; what still ends of an earlier owner in this process is waited for.
async fn open(path: &Path) -> Result<Local> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let mut config = LocalConfig::new(path);
        config.tools = ToolsConfig::default().with_environment(std::env::vars());
        match Local::open(config).await {
            Err(error) if error.reason() == "data_dir_in_use" && Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            other => return other,
        }
    }
}

impl Harness for Folder {}

#[async_trait]
impl StorageHarness for Folder {
    async fn storage(&self) -> Result<Arc<dyn Storage>> {
        self.with(|local| local.storage().clone() as Arc<dyn Storage>)
    }

    async fn reopen(&self) -> Result<bool> {
        Self::reopen(self).await
    }
}

#[async_trait]
impl CatalogHarness for Folder {
    async fn catalog(&self) -> Result<Arc<dyn Catalog>> {
        self.with(|local| local.catalog().clone() as Arc<dyn Catalog>)
    }

    async fn reopen(&self) -> Result<bool> {
        Self::reopen(self).await
    }

    async fn forget_history(&self) -> Result<bool> {
        let file = self.folder.path().join("db/catalog.db");
        let connection = rusqlite::Connection::open(file).expect("the catalog's file");
        connection
            .busy_timeout(Duration::from_secs(10))
            .expect("set");
        connection
            .execute("DELETE FROM changes", [])
            .expect("deleted");
        Ok(true)
    }
}

#[async_trait]
impl DispatcherHarness for Folder {
    async fn dispatcher(&self) -> Result<Arc<dyn Dispatcher>> {
        self.with(|local| local.dispatcher().clone() as Arc<dyn Dispatcher>)
    }

    async fn publisher(&self) -> Result<Arc<dyn Publish>> {
        self.with(|local| local.dispatcher().clone() as Arc<dyn Publish>)
    }

    async fn reopen(&self) -> Result<bool> {
        Self::reopen(self).await
    }

    fn separates_namespaces(&self) -> bool {
        true
    }

    fn message_bytes_max(&self) -> Option<usize> {
        Some(LocalConfig::new("").queue.message_bytes)
    }

    async fn remove_queue(&self, _: &Namespace, _: &str) -> Result<()> {
        Ok(()) // It goes with the folder.
    }
}

#[async_trait]
impl InvocationLogHarness for Folder {
    async fn invocation_log(&self) -> Result<Arc<dyn InvocationLog>> {
        self.with(|local| local.invocations().clone() as Arc<dyn InvocationLog>)
    }

    async fn reopen(&self) -> Result<bool> {
        Self::reopen(self).await
    }
}

#[async_trait]
impl LeaseHarness for Folder {
    async fn lease(&self) -> Result<Arc<dyn Lease>> {
        self.with(|local| local.lease().clone() as Arc<dyn Lease>)
    }

    async fn another(&self) -> Result<Arc<dyn Lease>> {
        LeaseHarness::lease(self).await // One process owns a data folder.
    }
}

mod dispatcher {
    sless_conformance::dispatcher!(super::Folder::new().await);
}

mod invocation_log {
    sless_conformance::invocation_log!(super::Folder::new().await);
}

mod lease {
    sless_conformance::lease!(super::Folder::new().await);
}

mod storage {
    sless_conformance::storage!(super::Folder::new().await);
}

mod catalog {
    sless_conformance::catalog!(super::Folder::new().await);
}
