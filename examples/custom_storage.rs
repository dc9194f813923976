//! A storage of your own: objects as files below a folder. One struct implements [`Storage`] and is
//! put beside the other backends.
//!
//! Its test is the conformance suite, one line at the end of this file:
//! `cargo test -p sless-examples --example custom_storage`.
//!
//! `cargo run -p sless-examples --example custom_storage`

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use futures::{StreamExt as _, TryStreamExt as _, stream::BoxStream};
use sha2::{Digest as _, Sha256};
use sless_core::{
    Backends, Body, ByteStream, Deploy, Digest, Error, ErrorKind, Fetched, FunctionSpec,
    GetOptions, Name, Namespace, ObjectInfo, PutMode, PutOptions, Result, Runtime, Sless, Storage,
    StorageCapabilities, StorageKey, Stored, memory::MemoryScheduler,
};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _};
use tokio_util::io::ReaderStream;

/// Objects as files. The segments of a key before its last are folders whose names end in `~`, a
/// character that no key holds, so that `a` and `a/b` can both be there.
#[derive(Debug)]
struct FileStorage {
    root: PathBuf,
}

/// What stands in errors as the backend.
const BACKEND: &str = "file_storage";

impl FileStorage {
    fn path(&self, key: &StorageKey) -> PathBuf {
        self.root.join(key.as_str().replace('/', "~/"))
    }

    fn info(key: &StorageKey, metadata: &std::fs::Metadata) -> io::Result<ObjectInfo> {
        let modified_at = metadata.modified()?.try_into().map_err(io::Error::other)?;
        Ok(ObjectInfo {
            key: key.clone(),
            size: metadata.len(),
            modified_at,
        })
    }

    /// Every object. Touches the file system, so it blocks.
    fn walk(folder: &Path, above: &str, found: &mut Vec<ObjectInfo>) -> io::Result<()> {
        for entry in folder.read_dir()? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if let Some(segment) = name.strip_suffix('~') {
                Self::walk(&entry.path(), &format!("{above}{segment}/"), found)?;
            } else if let Ok(key) = StorageKey::new(format!("{above}{name}")) {
                // What is no key is a put that is under way. What went meanwhile is not there.
                match entry.metadata() {
                    Ok(metadata) => found.push(Self::info(&key, &metadata)?),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Writes a body into a temporary file, which goes by itself unless it is given a name.
    async fn spool(&self, mut body: ByteStream) -> Result<(tempfile::NamedTempFile, Stored)> {
        let failed = |error| failed("storage.put", error);
        let temporary = tempfile::Builder::new()
            .prefix("~put")
            .tempfile_in(&self.root);
        let temporary = temporary.map_err(failed)?;
        let mut file = tokio::fs::File::from_std(temporary.reopen().map_err(failed)?);
        let (mut size, mut hash) = (0, Sha256::new());
        while let Some(chunk) = body.next().await {
            let chunk = chunk?;
            size += chunk.len() as u64;
            hash.update(&chunk);
            file.write_all(&chunk).await.map_err(failed)?;
        }
        file.sync_all().await.map_err(failed)?;
        let digest = Digest::from_bytes(hash.finalize().into());
        Ok((temporary, Stored { size, digest }))
    }
}

/// The system's error, as one of sless: its kind says what callers can do about it.
fn failed(operation: &'static str, error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::NotFound => ErrorKind::NotFound,
        io::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, "the file cannot be used")
        .with_source(error)
        .during(operation)
        .at(BACKEND)
}

#[async_trait]
impl Storage for FileStorage {
    fn capabilities(&self) -> StorageCapabilities {
        StorageCapabilities::default().with_if_absent(true)
    }

    async fn put(
        &self,
        key: &StorageKey,
        body: ByteStream,
        options: &PutOptions,
    ) -> Result<Stored> {
        let (temporary, stored) = self.spool(body).await?;
        // The contract: whole or not at all. The name is given when all bytes are on the disk.
        let (path, mode) = (self.path(key), options.mode);
        let named = tokio::task::spawn_blocking(move || {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            match mode {
                PutMode::Overwrite => temporary.persist(path),
                PutMode::IfAbsent => temporary.persist_noclobber(path),
            }
            .map_err(io::Error::from)
        });
        let named = named.await.map_err(io::Error::other).flatten();
        named.map_err(|error| failed("storage.put", error).on(key))?;
        Ok(stored)
    }

    async fn get(&self, key: &StorageKey, options: &GetOptions) -> Result<Fetched> {
        let failed = |error| failed("storage.get", error).on(key);
        let mut file = tokio::fs::File::open(self.path(key))
            .await
            .map_err(failed)?;
        let info = Self::info(key, &file.metadata().await.map_err(failed)?).map_err(failed)?;
        let range = options.range.clone().unwrap_or(0..info.size);
        if options.range.is_some() && range.start >= range.end.min(info.size) {
            let message = format!("the object has no byte in {}..{}", range.start, range.end);
            return Err(Error::invalid(message)
                .during("storage.get")
                .on(key)
                .at(BACKEND));
        }
        file.seek(io::SeekFrom::Start(range.start))
            .await
            .map_err(failed)?;
        let part = file.take(range.end - range.start);
        let body = ReaderStream::with_capacity(part, 64 * 1024).map_err(|error| {
            Error::new(ErrorKind::Interrupted, "the file broke off").with_source(error)
        });
        Ok(Fetched {
            info,
            body: body.boxed(),
        })
    }

    async fn head(&self, key: &StorageKey) -> Result<ObjectInfo> {
        let metadata = tokio::fs::metadata(self.path(key)).await;
        let info = metadata.and_then(|metadata| Self::info(key, &metadata));
        info.map_err(|error| failed("storage.head", error).on(key))
    }

    async fn delete(&self, key: &StorageKey) -> Result<()> {
        match tokio::fs::remove_file(self.path(key)).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failed("storage.delete", error).on(key))
            }
            _ => Ok(()),
        }
    }

    fn list(&self, prefix: &str) -> BoxStream<'static, Result<ObjectInfo>> {
        let (root, prefix) = (self.root.clone(), prefix.to_owned());
        let listed = async move {
            let walked = tokio::task::spawn_blocking(move || {
                let mut found = Vec::new();
                Self::walk(&root, "", &mut found)?;
                found.retain(|info| info.key.as_str().starts_with(&prefix));
                found.sort_unstable_by(|a, b| a.key.cmp(&b.key));
                Ok(found)
            });
            let found = walked.await.map_err(io::Error::other).flatten();
            let found = found.map_err(|error| failed("storage.list", error))?;
            Ok(futures::stream::iter(found.into_iter().map(Ok)))
        };
        futures::stream::once(listed).try_flatten().boxed()
    }
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    // One of the backends is ours; all others are those in memory.
    let mut backends = Backends {
        storage: Arc::new(FileStorage {
            root: folder.path().to_owned(),
        }),
        ..Backends::in_memory()
    };
    let scheduler = MemoryScheduler::new(backends.clock.clone())
        .with_handler("handler.handle", |_, _| async {
            Ok(http::Response::new(Body::from("hi")))
        });
    backends.scheduler = Arc::new(scheduler);
    let sless = Sless::new(backends)?;

    let (namespace, name) = (Namespace::new("demo")?, Name::new("hello")?);
    let spec = FunctionSpec::new(Runtime::Python311);
    let files = [("handler.py", "def handle(event):\n    return 'hi'\n")];
    sless
        .deploy(Deploy::files(namespace.clone(), name.clone(), spec, files)?)
        .await?;
    let response = sless
        .invoke(&namespace, &name, http::Request::new(Body::empty()))
        .await?;
    assert_eq!(response.into_body().bytes(1024).await?, "hi");

    // What was uploaded, and the build context made of it, are files of ours now.
    let stored = sless
        .backends()
        .storage
        .list("")
        .try_collect::<Vec<_>>()
        .await?;
    let keys: Vec<&str> = stored.iter().map(|info| info.key.as_str()).collect();
    assert!(keys[0].starts_with("contexts/demo/hello/"), "{keys:?}");
    assert!(keys[1].starts_with("functions/demo/hello/"), "{keys:?}");
    assert!(folder.path().join("functions~/demo~/hello~").is_dir());
    sless.shutdown().await;
    Ok(())
}

/// That it works as every storage must is for the suite to say.
#[cfg(test)]
mod tests {
    use sless_conformance::{Harness, storage::StorageHarness};

    use super::*;

    /// The storage is what lies in the folder, so a new one over the same folder finds it all.
    #[derive(Debug)]
    struct Folder(tempfile::TempDir);

    impl Harness for Folder {}

    #[async_trait]
    impl StorageHarness for Folder {
        async fn storage(&self) -> Result<Arc<dyn Storage>> {
            Ok(Arc::new(FileStorage {
                root: self.0.path().to_owned(),
            }))
        }

        async fn reopen(&self) -> Result<bool> {
            Ok(true)
        }
    }

    sless_conformance::storage!(Folder(tempfile::tempdir().expect("a folder")));
}
