//! Build contexts, in a storage that counts who reads them, and can make them wait.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream::BoxStream};
use sless_core::{
    BuildId, BuildRequest, ByteStream, ContextRef, Digest, Entrypoint, Error, ErrorKind, Fetched,
    FunctionId, GetOptions, ObjectInfo, PutOptions, Result, Runtime, RuntimeVersions, Storage,
    StorageCapabilities, StorageKey, Stored, bytes_stream,
    source::{SourceTree, context},
};
use tokio::sync::watch;

use crate::unique;

/// A source to build.
pub(super) struct Source {
    tree: Result<SourceTree>,
    installs: bool,
}

impl Source {
    pub(super) const fn new(tree: Result<SourceTree>, installs: bool) -> Self {
        Self { tree, installs }
    }

    /// A source without dependencies. The same number gives the same content.
    pub(super) fn plain(number: u32) -> Self {
        let python = format!("def handle(event):\n    return {number}\n");
        let node = format!("exports.handle = () => {number};\n");
        Self::new(
            SourceTree::from_files([("handler.py", python), ("handler.js", node)]),
            false,
        )
    }
}

/// The contexts of one clause.
pub(super) struct Contexts {
    storage: Arc<Watched>,
    runtime: Runtime,
    prefix: String,
    next: AtomicU32,
}

impl Contexts {
    pub(super) fn new(inner: Arc<dyn Storage>, runtime: Runtime) -> Self {
        let storage = Watched {
            inner,
            reads: AtomicU64::new(0),
            failures: AtomicU32::new(0),
            held: watch::Sender::new(false),
            waiting: watch::Sender::new(0),
        };
        Self {
            storage: Arc::new(storage),
            runtime,
            prefix: format!("contexts/conformance-{}", unique::tag()),
            next: AtomicU32::new(0),
        }
    }

    /// Stores the context of a source, and asks for its build.
    pub(super) async fn request(
        &self,
        function: &FunctionId,
        source: Source,
    ) -> Result<BuildRequest> {
        let tree = source.tree?;
        let info = RuntimeVersions::default().info(self.runtime, Entrypoint::default())?;
        let mut body = Vec::new();
        let written = context::write(&tree, &info, &mut body)?;
        let key = self.put(body).await?;
        let id = BuildId {
            function: function.clone(),
            code: written.digest,
            runtime_version: info.version,
            attempt: 0,
        };
        Ok(BuildRequest::new(
            id,
            RuntimeVersions::default().info(self.runtime, Entrypoint::default())?,
            source.installs,
            self.context(key),
        ))
    }

    /// Stores any bytes as a context.
    pub(super) async fn put(&self, body: impl Into<Bytes>) -> Result<StorageKey> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let key = StorageKey::new(format!("{}/f/{number}.tar.gz", self.prefix))?;
        self.storage
            .inner
            .put(&key, bytes_stream(body), &PutOptions::default())
            .await?;
        Ok(key)
    }

    pub(super) fn context(&self, key: StorageKey) -> ContextRef {
        ContextRef {
            storage: self.storage.clone(),
            key,
        }
    }

    /// How often a context was opened so far.
    pub(super) fn reads(&self) -> u64 {
        self.storage.reads.load(Ordering::Relaxed)
    }

    /// Makes the next readers fail for a passing reason.
    pub(super) fn fail(&self, readers: u32) {
        self.storage.failures.store(readers, Ordering::Relaxed);
    }

    /// Makes readers wait in the middle of a context, until `release`.
    pub(super) fn hold(&self) {
        self.storage.held.send_replace(true);
    }

    /// Lets readers go on.
    pub(super) fn release(&self) {
        self.storage.held.send_replace(false);
    }

    /// How many readers wait in the middle of a context, or left it there.
    pub(super) fn waiting(&self) -> u64 {
        *self.storage.waiting.borrow()
    }

    pub(super) async fn clear(&self) -> Result<()> {
        let all: Vec<ObjectInfo> = self.storage.inner.list(&self.prefix).try_collect().await?;
        for info in all {
            self.storage.inner.delete(&info.key).await?;
        }
        Ok(())
    }
}

/// A storage that reads along.
#[derive(Debug)]
struct Watched {
    inner: Arc<dyn Storage>,
    reads: AtomicU64,
    failures: AtomicU32,
    held: watch::Sender<bool>,
    waiting: watch::Sender<u64>,
}

#[async_trait]
impl Storage for Watched {
    fn capabilities(&self) -> StorageCapabilities {
        self.inner.capabilities()
    }

    async fn put(
        &self,
        key: &StorageKey,
        body: ByteStream,
        options: &PutOptions,
    ) -> Result<Stored> {
        self.inner.put(key, body, options).await
    }

    async fn get(&self, key: &StorageKey, options: &GetOptions) -> Result<Fetched> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let failing = |left: u32| left.checked_sub(1);
        if self
            .failures
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, failing)
            .is_ok()
        {
            let message = "the storage of this test is away for a moment";
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        let mut fetched = self.inner.get(key, options).await?;
        let (mut held, waiting) = (self.held.subscribe(), self.waiting.clone());
        let pause = futures::stream::once(async move {
            if *held.borrow() {
                waiting.send_modify(|count| *count += 1);
                // An error means that the test is over.
                let _ = held.wait_for(|held| !held).await;
            }
            Ok(Bytes::new())
        });
        fetched.body = pause
            .filter(|_| futures::future::ready(false))
            .chain(fetched.body)
            .boxed();
        Ok(fetched)
    }

    async fn head(&self, key: &StorageKey) -> Result<ObjectInfo> {
        self.inner.head(key).await
    }

    async fn delete(&self, key: &StorageKey) -> Result<()> {
        self.inner.delete(key).await
    }

    fn list(&self, prefix: &str) -> BoxStream<'static, Result<ObjectInfo>> {
        self.inner.list(prefix)
    }
}

/// A time that no build of the suite takes, but that it can wait for.
pub(super) const SHORT: Duration = Duration::from_secs(2);

/// A digest that no source has.
pub(super) fn unknown_digest() -> Digest {
    Digest::of(unique::tag())
}
