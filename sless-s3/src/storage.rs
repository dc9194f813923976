//! [`S3Storage`].

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures::{TryStreamExt as _, stream::BoxStream};
use sless_core::{
    ByteStream, Clock, Error, ErrorKind, Fetched, GetOptions, ObjectInfo, PutMode, PutOptions,
    Result, Storage, StorageCapabilities, StorageKey, Stored, SystemClock,
};

use crate::{
    S3Config, S3IfAbsent,
    bucket::Bucket,
    client,
    dropped::Dropped,
    error::{BACKEND, Fault},
    list, probe,
};

/// A [`Storage`] in a bucket of S3.
///
/// Keys of objects are the keys of the storage. What else is in the bucket is left alone and not
/// listed, save for objects whose names happen to be keys.
///
/// A put that is dropped leaves an upload behind. Aborting it takes requests, which a task does on the
/// runtime that the storage was connected on. [`shutdown`](Self::shutdown) waits for these tasks;
/// dropping the storage ends them.
pub struct S3Storage {
    bucket: Arc<Bucket>,
    dropped: Arc<Dropped>,
    if_absent: bool,
    trouble: Mutex<Option<String>>,
}

impl S3Storage {
    /// Looks at the bucket, makes it if the settings ask for it, and asks the service what it can do.
    ///
    /// # Errors
    /// `Invalid`, reason `setting_invalid`, naming a setting; `Unauthenticated`, reasons
    /// `credentials_missing`, `credentials_rejected`, `credentials_expired` and `clock_skew`;
    /// `PermissionDenied`, reason `store_permission`; `Unavailable`, reasons `bucket_missing`,
    /// `region_wrong` and `unavailable`; `Overloaded`, reason `slow_down`; `Timeout`.
    pub async fn connect(config: S3Config) -> Result<Self> {
        Self::connect_with_clock(config, Arc::new(SystemClock)).await
    }

    /// As [`connect`](Self::connect), signing requests with the time of another clock than the machine's.
    ///
    /// # Errors
    /// Those of `connect`.
    pub async fn connect_with_clock(config: S3Config, clock: Arc<dyn Clock>) -> Result<Self> {
        Self::open(config, clock).await.map_err(|fault| {
            let error = Error::from(fault);
            error.during("storage.connect").at(BACKEND)
        })
    }

    async fn open(config: S3Config, clock: Arc<dyn Clock>) -> Result<Self, Fault> {
        let client = client::client(&config, clock.clone()).await?;
        client::look(&client, &config).await?;
        let dropped = Arc::new(Dropped::new(config.limits.dropped_uploads));
        let asked = config.if_absent;
        let bucket = Arc::new(Bucket {
            client,
            config,
            clock,
        });
        let if_absent = match asked {
            S3IfAbsent::Yes => true,
            S3IfAbsent::No => false,
            S3IfAbsent::Probe => probe::if_absent(&bucket).await?,
        };
        Ok(Self {
            bucket,
            dropped,
            if_absent,
            trouble: Mutex::default(),
        })
    }

    /// Aborts the uploads to keys with this prefix that began this long ago and have not ended, and
    /// answers how many they were: what processes have left that were killed. Give it more time than
    /// any upload takes, and call it now and then, or have a rule of the bucket do it.
    ///
    /// # Errors
    /// Those of any request; what was aborted until then stays so.
    pub async fn abort_stale_uploads(&self, prefix: &str, older_than: Duration) -> Result<usize> {
        let aborted = self.bucket.abort_stale_uploads(prefix, older_than).await;
        self.told(aborted)
            .map_err(|error| error.during("storage.abort_stale_uploads").at(BACKEND))
    }

    /// What kept the last request from working that came to no answer about its object, as a sentence;
    /// `None` if it worked. For a report of health, without asking the service.
    pub fn trouble(&self) -> Option<String> {
        let trouble = self.trouble.lock();
        trouble.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until the uploads of dropped puts are aborted. The storage can be used further.
    pub async fn shutdown(&self) {
        self.dropped.finish().await;
    }

    pub(crate) fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    /// Notes whether the service works, and makes an error of a fault.
    fn told<T>(&self, result: Result<T, Fault>) -> Result<T> {
        let result = result.map_err(Error::from);
        let trouble = match &result {
            Err(error) if is_trouble(error.kind()) => Some(error.message().to_owned()),
            _ => None,
        };
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
        result
    }

    pub(crate) fn named<T>(
        &self,
        result: Result<T, Fault>,
        operation: &'static str,
        key: &StorageKey,
    ) -> Result<T> {
        self.told(result)
            .map_err(|error| error.during(operation).on(key).at(BACKEND))
    }
}

/// Whether this says something of the service, and not of one object or body.
fn is_trouble(kind: ErrorKind) -> bool {
    use ErrorKind::{Overloaded, PermissionDenied, Timeout, Unauthenticated, Unavailable};
    matches!(
        kind,
        Overloaded | PermissionDenied | Timeout | Unauthenticated | Unavailable
    )
}

impl Drop for S3Storage {
    fn drop(&mut self) {
        self.dropped.cancel();
    }
}

impl fmt::Debug for S3Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Storage")
            .field("config", &self.bucket.config)
            .field("if_absent", &self.if_absent)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Storage for S3Storage {
    fn capabilities(&self) -> StorageCapabilities {
        StorageCapabilities::default().with_if_absent(self.if_absent)
    }

    async fn put(
        &self,
        key: &StorageKey,
        body: ByteStream,
        options: &PutOptions,
    ) -> Result<Stored> {
        if options.mode == PutMode::IfAbsent && !self.if_absent {
            return Err(Error::unsupported("storage.put if absent", BACKEND).on(key));
        }
        let stored = self.bucket.put(&self.dropped, key, body, options).await;
        self.named(stored, "storage.put", key)
    }

    async fn get(&self, key: &StorageKey, options: &GetOptions) -> Result<Fetched> {
        let fetched = self.bucket.get(key, options.range.as_ref()).await;
        let mut fetched = self.named(fetched, "storage.get", key)?;
        let key = key.clone();
        fetched.body = Box::pin(
            fetched
                .body
                .map_err(move |error| error.during("storage.get").on(&key).at(BACKEND)),
        );
        Ok(fetched)
    }

    async fn head(&self, key: &StorageKey) -> Result<ObjectInfo> {
        let found = self.bucket.head(key).await;
        self.named(found, "storage.head", key)
    }

    async fn delete(&self, key: &StorageKey) -> Result<()> {
        let deleted = self.bucket.delete(key).await;
        self.named(deleted, "storage.delete", key)
    }

    fn list(&self, prefix: &str) -> BoxStream<'static, Result<ObjectInfo>> {
        list::list(self.bucket.clone(), prefix.to_owned())
    }
}
