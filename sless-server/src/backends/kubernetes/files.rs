//! Sources in files of this machine: for a cluster with one process of sless, and no S3 store.

use std::sync::Arc;

use async_trait::async_trait;
use sless_core::Error;
use sless_local::{DataDir, LocalStorage, StorageConfig};

use super::super::{Assembled, Part};
use crate::{StartError, settings::Settings};

/// Puts files of the data folder in the place of the storage. The folder is this process's alone.
pub(super) async fn put_in(settings: &Settings, opened: &mut Assembled) -> Result<(), StartError> {
    let folder = settings.data_dir.clone();
    let opening = tokio::task::spawn_blocking(move || {
        let dir = DataDir::open(folder)?;
        let storage = LocalStorage::open(&dir, &StorageConfig::default())?;
        Ok::<_, Error>((dir, storage))
    });
    let (dir, storage) = opening.await.map_err(|panicked| {
        Error::internal("opening SLESS_DATA_DIR broke off").with_source(panicked)
    })??;
    tracing::warn!(
        folder = %dir.path().display(),
        "S3_BUCKET is not set: sources are in files, and this has to be the only process"
    );
    opened.backends.storage = Arc::new(storage);
    opened.add(FilesPart { _dir: dir });
    Ok(())
}

/// Holds the data folder.
#[derive(Debug)]
struct FilesPart {
    _dir: DataDir,
}

#[async_trait]
impl Part for FilesPart {
    fn name(&self) -> &'static str {
        "storage"
    }

    /// They are there as long as the process is.
    fn state(&self) -> Result<(), String> {
        Ok(())
    }

    fn is_vital(&self) -> bool {
        true
    }

    async fn shutdown(&self) {}
}
