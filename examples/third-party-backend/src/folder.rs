//! A [`Storage`] on a plain folder.

use std::{
    io::{ErrorKind as Io, SeekFrom},
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use futures::{StreamExt as _, TryStreamExt as _, stream::BoxStream};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use sless_core::{
    ByteStream, Digest, Error, ErrorKind, Fetched, GetOptions, ObjectInfo, PutMode, PutOptions,
    Result, Storage, StorageCapabilities, StorageKey, Stored,
};
use tokio::{
    fs::{self, File},
    io::{AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _},
};
use tokio_util::io::ReaderStream;

const BACKEND: &str = "folder";

/// A [`Storage`] on a plain folder.
///
/// Objects are files below `objects`; what is being written is below `partial`, on the same file
/// system, and is renamed when it is whole. One process at a time may use a folder.
#[derive(Clone, Debug)]
pub struct FolderStorage {
    objects: PathBuf,
    partial: PathBuf,
}

impl FolderStorage {
    /// Opens a folder, makes it where it is not there, and removes what a crash left half written.
    ///
    /// # Errors
    /// `Internal` if the folder cannot be used.
    pub async fn open(folder: impl AsRef<Path>) -> Result<Self> {
        let (objects, partial) = (
            folder.as_ref().join("objects"),
            folder.as_ref().join("partial"),
        );
        let made = async {
            match fs::remove_dir_all(&partial).await {
                Err(error) if error.kind() != Io::NotFound => return Err(error),
                _ => {}
            }
            fs::create_dir_all(&partial).await?;
            fs::create_dir_all(&objects).await
        };
        made.await.map_err(|error| failed("open", error))?;
        Ok(Self { objects, partial })
    }

    fn path(&self, key: &StorageKey) -> PathBuf {
        self.objects.join(key.as_str())
    }

    async fn write(&self, file: &mut File, mut body: ByteStream) -> Result<Stored> {
        let mut hash = Sha256::new();
        let mut size = 0;
        while let Some(chunk) = body.next().await {
            let chunk = chunk?;
            hash.update(&chunk);
            size += chunk.len() as u64;
            file.write_all(&chunk)
                .await
                .map_err(|error| failed("put", error))?;
        }
        // On the disk before it is visible, so that a crash leaves it whole or not at all.
        file.sync_all()
            .await
            .map_err(|error| failed("put", error))?;
        Ok(Stored {
            size,
            digest: Digest::from_bytes(hash.finalize().into()),
        })
    }

    async fn publish(&self, partial: &Path, key: &StorageKey, mode: PutMode) -> Result<()> {
        let path = self.path(key);
        let placed = async {
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).await?;
            }
            match mode {
                PutMode::Overwrite => fs::rename(partial, &path).await,
                // A link fails where the name is taken; the temporary name is removed later.
                PutMode::IfAbsent => fs::hard_link(partial, &path).await,
            }
        };
        placed.await.map_err(|error| match error.kind() {
            Io::AlreadyExists if mode == PutMode::IfAbsent => {
                Error::new(ErrorKind::AlreadyExists, format!("object {key} exists"))
            }
            _ => failed("put", error),
        })
    }
}

/// A temporary file, which goes when this is dropped: also when the future of a put is.
struct Partial(PathBuf);

impl Drop for Partial {
    fn drop(&mut self) {
        // It is gone where it was renamed. What cannot be removed now, the next start removes.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn failed(operation: &'static str, error: std::io::Error) -> Error {
    Error::internal(format!("the folder cannot be used: {operation}")).with_source(error)
}

fn absent(key: &StorageKey, error: std::io::Error) -> Error {
    match error.kind() {
        // A file where the key has a folder, or the reverse: there is no such object either way.
        Io::NotFound | Io::NotADirectory | Io::IsADirectory => {
            Error::not_found(format!("no object {key}"))
        }
        _ => failed("read", error),
    }
}

fn info(key: &StorageKey, metadata: &std::fs::Metadata) -> Result<ObjectInfo> {
    if !metadata.is_file() {
        return Err(Error::not_found(format!("no object {key}")));
    }
    let modified = metadata.modified().map_err(|error| failed("read", error))?;
    let modified_at = Timestamp::try_from(modified).unwrap_or(Timestamp::MIN);
    Ok(ObjectInfo {
        key: key.clone(),
        size: metadata.len(),
        modified_at,
    })
}

#[async_trait]
impl Storage for FolderStorage {
    fn capabilities(&self) -> StorageCapabilities {
        StorageCapabilities::default().with_if_absent(true)
    }

    async fn put(
        &self,
        key: &StorageKey,
        body: ByteStream,
        options: &PutOptions,
    ) -> Result<Stored> {
        let put = async {
            let partial = Partial(self.partial.join(uuid::Uuid::new_v4().to_string()));
            let created = File::create(&partial.0).await;
            let mut file = created.map_err(|error| failed("put", error))?;
            let stored = self.write(&mut file, body).await?;
            self.publish(&partial.0, key, options.mode).await?;
            Ok(stored)
        };
        put.await
            .map_err(|error: Error| error.during("storage.put").on(key).at(BACKEND))
    }

    async fn get(&self, key: &StorageKey, options: &GetOptions) -> Result<Fetched> {
        let get = async {
            // What is read is this file, whatever is renamed over its name meanwhile.
            let opened = File::open(self.path(key)).await;
            let mut file = opened.map_err(|error| absent(key, error))?;
            let metadata = file.metadata().await.map_err(|error| absent(key, error))?;
            let info = info(key, &metadata)?;
            let range = options.range.clone().unwrap_or(0..info.size);
            if options.range.is_some() && (range.is_empty() || range.start >= info.size) {
                return Err(Error::invalid(format!(
                    "{range:?} of {} bytes is empty",
                    info.size
                )));
            }
            let sought = file.seek(SeekFrom::Start(range.start)).await;
            sought.map_err(|error| failed("get", error))?;
            let length = range.end.min(info.size) - range.start;
            let body = ReaderStream::new(file.take(length));
            let broken = |error| Error::new(ErrorKind::Interrupted, "cut").with_source(error);
            Ok(Fetched {
                info,
                body: body.map_err(broken).boxed(),
            })
        };
        get.await
            .map_err(|error: Error| error.during("storage.get").on(key).at(BACKEND))
    }

    async fn head(&self, key: &StorageKey) -> Result<ObjectInfo> {
        let found = fs::metadata(self.path(key))
            .await
            .map_err(|error| absent(key, error));
        let found = found.and_then(|metadata| info(key, &metadata));
        found.map_err(|error| error.during("storage.head").on(key).at(BACKEND))
    }

    async fn delete(&self, key: &StorageKey) -> Result<()> {
        match fs::remove_file(self.path(key))
            .await
            .map_err(|error| absent(key, error))
        {
            Err(error) if !error.is_not_found() => {
                Err(error.during("storage.delete").on(key).at(BACKEND))
            }
            _ => Ok(()),
        }
    }

    fn list(&self, prefix: &str) -> BoxStream<'static, Result<ObjectInfo>> {
        let (root, prefix) = (self.objects.clone(), prefix.to_owned());
        let listed = async move {
            let listed = tokio::task::spawn_blocking(move || walk(&root, &prefix)).await;
            let listed = listed.unwrap_or_else(|panic| {
                Err(Error::internal("listing panicked").with_source(panic))
            });
            listed.map_err(|error| error.during("storage.list").at(BACKEND))
        };
        futures::stream::once(listed)
            .map_ok(|infos| futures::stream::iter(infos.into_iter().map(Ok)))
            .try_flatten()
            .boxed()
    }
}

/// Everything below `root` whose key begins with `prefix`, in order of the whole keys.
fn walk(root: &Path, prefix: &str) -> Result<Vec<ObjectInfo>> {
    // The last whole folder of the prefix; what stands behind it is the beginning of a name.
    let folder = prefix.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut folders = vec![root.join(folder)];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Err(error) if matches!(error.kind(), Io::NotFound | Io::NotADirectory) => continue,
            entries => entries.map_err(|error| failed("list", error))?,
        };
        for entry in entries {
            let entry = entry.map_err(|error| failed("list", error))?;
            let path = entry.path();
            let metadata = match entry.metadata() {
                // It was deleted while we looked.
                Err(error) if error.kind() == Io::NotFound => continue,
                metadata => metadata.map_err(|error| failed("list", error))?,
            };
            let text = path
                .strip_prefix(root)
                .ok()
                .and_then(Path::to_str)
                .unwrap_or_default();
            if metadata.is_dir() {
                folders.push(path);
            } else if text.starts_with(prefix) {
                found.push(info(&StorageKey::new(text)?, &metadata)?);
            }
        }
    }
    found.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    Ok(found)
}
