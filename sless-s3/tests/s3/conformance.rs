//! The suite of `Storage`, with and without a promise of `IfAbsent`.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use sless_conformance::{Harness, storage::StorageHarness};
use sless_core::{Result, Storage};
use sless_s3::{S3Config, S3IfAbsent, S3Storage};

use crate::service;

#[derive(Debug)]
struct Bucket {
    config: S3Config,
    opened: Mutex<Option<Arc<dyn Storage>>>,
}

impl Bucket {
    fn new(if_absent: S3IfAbsent) -> Self {
        let mut config = service::config();
        config.if_absent = if_absent;
        Self {
            config,
            opened: Mutex::default(),
        }
    }

    fn opened(&self) -> std::sync::MutexGuard<'_, Option<Arc<dyn Storage>>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Harness for Bucket {}

#[async_trait]
impl StorageHarness for Bucket {
    async fn storage(&self) -> Result<Arc<dyn Storage>> {
        if let Some(storage) = self.opened().clone() {
            return Ok(storage);
        }
        let storage = Arc::new(S3Storage::connect(self.config.clone()).await?);
        Ok(self.opened().insert(storage).clone())
    }

    async fn reopen(&self) -> Result<bool> {
        *self.opened() = None;
        Ok(true)
    }
}

mod probed {
    use super::{Bucket, S3IfAbsent};

    sless_conformance::storage!(
        #[ignore = "needs S3: testing/s3/up"]
        Bucket::new(S3IfAbsent::Probe)
    );
}

mod without_if_absent {
    use super::{Bucket, S3IfAbsent};

    sless_conformance::storage!(
        #[ignore = "needs S3: testing/s3/up"]
        Bucket::new(S3IfAbsent::No)
    );
}
