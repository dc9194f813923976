//! [`LocalStorage`]: objects as files.

use std::{fs, io, path::Path};

use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::local::LocalFileSystem;
use sless_core::{
    ByteStream, Fetched, GetOptions, ObjectInfo, PutOptions, Result, Storage, StorageCapabilities,
    StorageKey, Stored,
};
use sless_object_store::{FileLayout, ObjectStoreOptions, ObjectStoreStorage, STAGING};

use crate::{
    StorageConfig,
    data_dir::DataDir,
    error::{BACKEND, Fault},
};

/// A [`Storage`] in the folder `storage`, one file for each object.
///
/// A body is written to a file beside its place, synced, moved there, and the folder is synced: what
/// was acknowledged survives a power cut, and at no moment is there half an object. What a killed
/// process has left of unfinished bodies is removed at the next start. Media types are not kept.
#[derive(Debug)]
pub struct LocalStorage(ObjectStoreStorage<LocalFileSystem>);

impl LocalStorage {
    /// Opens the storage of a data folder, and removes what interrupted bodies have left. Touches the
    /// file system.
    pub fn open(dir: &DataDir, config: &StorageConfig) -> Result<Self> {
        let root = dir.storage();
        sweep(&root)?;
        let store = LocalFileSystem::new_with_prefix(&root)
            .map_err(|error| Fault::io("opening", &root)(error.into()))?
            .with_fsync(true)
            .with_automatic_cleanup(true);
        let mut options = ObjectStoreOptions::default();
        options.backend = BACKEND;
        options.object_bytes = config.object_bytes;
        options.part_bytes = config.part_bytes;
        options.list_objects = config.list_objects;
        options.if_absent = true;
        options.whole_seconds = false;
        Ok(Self(ObjectStoreStorage::with_layout(
            store, options, FileLayout,
        )))
    }
}

/// Removes the files of interrupted bodies: all whose name has the mark of the store's unfinished
/// files, which no key's file has, and all of the folder for staging.
fn sweep(root: &Path) -> Result<(), Fault> {
    let staging = root.join(STAGING);
    match fs::remove_dir_all(&staging) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Fault::io("removing", &staging)(error));
        }
        _ => {}
    }
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(Fault::io("reading", &folder))? {
            let entry = entry.map_err(Fault::io("reading", &folder))?;
            let path = entry.path();
            if entry
                .file_type()
                .map_err(Fault::io("reading", &path))?
                .is_dir()
            {
                folders.push(path);
            } else if entry.file_name().as_encoded_bytes().contains(&b'#') {
                fs::remove_file(&path).map_err(Fault::io("removing", &path))?;
            }
        }
    }
    Ok(())
}

#[async_trait]
impl Storage for LocalStorage {
    fn capabilities(&self) -> StorageCapabilities {
        self.0.capabilities()
    }

    async fn put(
        &self,
        key: &StorageKey,
        body: ByteStream,
        options: &PutOptions,
    ) -> Result<Stored> {
        self.0.put(key, body, options).await
    }

    async fn get(&self, key: &StorageKey, options: &GetOptions) -> Result<Fetched> {
        self.0.get(key, options).await
    }

    async fn head(&self, key: &StorageKey) -> Result<ObjectInfo> {
        self.0.head(key).await
    }

    async fn delete(&self, key: &StorageKey) -> Result<()> {
        self.0.delete(key).await
    }

    fn list(&self, prefix: &str) -> BoxStream<'static, Result<ObjectInfo>> {
        self.0.list(prefix)
    }
}

#[cfg(test)]
mod tests;
