//! [`ObjectStoreStorage`]: a [`Storage`] on any `object_store`.
//!
//! Nothing in this folder depends on the data folder: it can move to a crate of its own when a second
//! backend needs it.

mod body;
mod parts;

use std::{ops::Range, sync::Arc};

use async_trait::async_trait;
use futures::{StreamExt as _, TryStreamExt as _, stream, stream::BoxStream};
use jiff::Timestamp;
use object_store::{
    Attribute, Attributes, GetOptions as StoreGet, GetRange, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt as _, PutMode as StoreMode, PutMultipartOptions,
    PutOptions as StorePut, PutPayload, path::Path,
};
use sless_core::{
    ByteStream, Error, ErrorKind, Fetched, GetOptions, ObjectInfo, PutMode, PutOptions, Result,
    Storage, StorageCapabilities, StorageKey, Stored,
};

use self::{
    body::{body_of, whole},
    parts::Parts,
};
use super::layout::Layout;

/// Where bodies wait that are too long for one request and must not replace anything.
pub(super) const STAGING: &str = ",staging";

/// What a store can do, and the limits of [`ObjectStoreStorage`].
#[derive(Clone, Debug)]
pub(crate) struct ObjectStoreOptions {
    /// The name of the backend in errors.
    pub(crate) backend: &'static str,
    /// The longest object, in bytes.
    pub(crate) object_bytes: u64,
    /// How many bytes of a body are held in memory before they are sent. A body of no more is one
    /// request, a longer one is sent in parts of this size.
    pub(crate) part_bytes: usize,
    /// The most objects of one listing.
    pub(crate) list_objects: usize,
    /// Whether the store can refuse to replace an object.
    pub(crate) if_absent: bool,
    /// Whether the store keeps media types.
    pub(crate) content_type: bool,
}

/// A [`Storage`] on any `object_store`.
///
/// A long body that must not replace anything is first put beside, whole, and then moved to its place
/// if nothing is there.
#[derive(Debug)]
pub(crate) struct ObjectStoreStorage<S> {
    store: Arc<S>,
    options: ObjectStoreOptions,
    layout: Arc<dyn Layout>,
}

impl<S: ObjectStore> ObjectStoreStorage<S> {
    /// A storage on this store.
    pub(crate) fn new(store: S, options: ObjectStoreOptions, layout: impl Layout) -> Self {
        Self {
            store: Arc::new(store),
            options,
            layout: Arc::new(layout),
        }
    }

    async fn store_body(
        &self,
        key: &StorageKey,
        body: ByteStream,
        options: &PutOptions,
    ) -> Result<Stored> {
        let if_absent = options.mode == PutMode::IfAbsent;
        if if_absent && !self.options.if_absent {
            return Err(Error::unsupported(
                "storage.put if absent",
                self.options.backend,
            ));
        }
        let place = self.layout.place(key);
        let mut body = Parts::new(body, &self.options);
        let first = body.next().await?;
        if body.ended {
            let mode = if if_absent {
                StoreMode::Create
            } else {
                StoreMode::Overwrite
            };
            let attributes = self.attributes(options);
            let options = StorePut {
                mode,
                attributes,
                ..StorePut::default()
            };
            self.store
                .put_opts(&place, first, options)
                .await
                .map_err(fault)?;
        } else if if_absent {
            let staged = Path::from(format!("{STAGING}/{}", uuid::Uuid::new_v4()));
            self.send(&staged, first, &mut body, options).await?;
            let moved = self.store.rename_if_not_exists(&staged, &place).await;
            if let Err(error) = moved {
                // The first error is the one that counts; what is left is swept.
                let _ = self.store.delete(&staged).await;
                return Err(fault(error));
            }
        } else {
            self.send(&place, first, &mut body, options).await?;
        }
        Ok(body.stored())
    }

    /// Sends a body in parts. It is visible when the last one is there, and not before.
    async fn send(
        &self,
        place: &Path,
        first: PutPayload,
        body: &mut Parts,
        options: &PutOptions,
    ) -> Result<()> {
        let attributes = self.attributes(options);
        let options = PutMultipartOptions {
            attributes,
            ..PutMultipartOptions::default()
        };
        let mut upload = self
            .store
            .put_multipart_opts(place, options)
            .await
            .map_err(fault)?;
        let sent = send_parts(&mut *upload, first, body).await;
        if sent.is_err() {
            // The first error is the one that counts.
            let _ = upload.abort().await;
        }
        sent
    }

    fn attributes(&self, options: &PutOptions) -> Attributes {
        let kept = options
            .content_type
            .clone()
            .filter(|_| self.options.content_type);
        kept.map(|value| (Attribute::ContentType, value))
            .into_iter()
            .collect()
    }

    async fn fetch(&self, key: &StorageKey, range: Option<&Range<u64>>) -> Result<Fetched> {
        let place = self.layout.place(key);
        let Some(range) = range else {
            return self.open(key, &place, None).await;
        };
        if range.is_empty() {
            // What is not there is told first.
            let meta = self.store.head(&place).await.map_err(fault)?;
            return Err(no_byte(range, meta.size));
        }
        match self.open(key, &place, Some(range.clone())).await {
            // Stores have many words for a range that begins too late.
            Err(error) if !error.is_not_found() => {
                let meta = self.store.head(&place).await.map_err(fault)?;
                Err(if range.start >= meta.size {
                    no_byte(range, meta.size)
                } else {
                    error
                })
            }
            other => other,
        }
    }

    async fn open(
        &self,
        key: &StorageKey,
        place: &Path,
        range: Option<Range<u64>>,
    ) -> Result<Fetched> {
        let options = StoreGet {
            range: range.map(GetRange::Bounded),
            ..StoreGet::default()
        };
        let found = self.store.get_opts(place, options).await.map_err(fault)?;
        let info = info(key.clone(), &found.meta);
        let expected = found.range.end - found.range.start;
        let body = whole(body_of(found), expected);
        Ok(Fetched { info, body })
    }
}

#[async_trait]
impl<S: ObjectStore> Storage for ObjectStoreStorage<S> {
    fn capabilities(&self) -> StorageCapabilities {
        StorageCapabilities::default().with_if_absent(self.options.if_absent)
    }

    async fn put(
        &self,
        key: &StorageKey,
        body: ByteStream,
        options: &PutOptions,
    ) -> Result<Stored> {
        let stored = self.store_body(key, body, options).await;
        stored.map_err(|error| self.named(error, "storage.put", key))
    }

    async fn get(&self, key: &StorageKey, options: &GetOptions) -> Result<Fetched> {
        let fetched = self.fetch(key, options.range.as_ref()).await;
        fetched.map_err(|error| self.named(error, "storage.get", key))
    }

    async fn head(&self, key: &StorageKey) -> Result<ObjectInfo> {
        let found = self.store.head(&self.layout.place(key)).await;
        let found = found.map(|meta| info(key.clone(), &meta)).map_err(fault);
        found.map_err(|error| self.named(error, "storage.head", key))
    }

    async fn delete(&self, key: &StorageKey) -> Result<()> {
        match self
            .store
            .delete(&self.layout.place(key))
            .await
            .map_err(fault)
        {
            Err(error) if error.is_not_found() => Ok(()),
            other => other.map_err(|error| self.named(error, "storage.delete", key)),
        }
    }

    fn list(&self, prefix: &str) -> BoxStream<'static, Result<ObjectInfo>> {
        // Whole segments are a folder of the store; the rest is compared here.
        let folder = match prefix
            .rsplit_once('/')
            .map(|(whole, _)| StorageKey::new(whole))
        {
            None => None,
            Some(Ok(key)) => Some(self.layout.folder(&key)),
            // No key begins like that.
            Some(Err(_)) => return stream::empty().boxed(),
        };
        let (store, layout) = (self.store.clone(), self.layout.clone());
        let (limit, backend) = (self.options.list_objects, self.options.backend);
        let prefix = prefix.to_owned();
        let sorted = async move {
            let mut found = Vec::new();
            let mut objects = store.list(folder.as_ref());
            while let Some(meta) = objects.try_next().await.map_err(fault)? {
                let key = layout.key(&meta.location);
                let Some(key) = key.filter(|key| key.as_str().starts_with(&prefix)) else {
                    continue;
                };
                if found.len() == limit {
                    return Err(Error::limit("list_objects", limit, "objects"));
                }
                found.push(info(key, &meta));
            }
            found.sort_unstable_by(|a, b| a.key.cmp(&b.key));
            Ok(stream::iter(found.into_iter().map(Ok)))
        };
        stream::once(sorted)
            .try_flatten()
            .map_err(move |error: Error| error.during("storage.list").at(backend))
            .boxed()
    }
}

impl<S> ObjectStoreStorage<S> {
    fn named(&self, error: Error, operation: &'static str, key: &StorageKey) -> Error {
        error.during(operation).on(key).at(self.options.backend)
    }
}

async fn send_parts(
    upload: &mut dyn MultipartUpload,
    first: PutPayload,
    body: &mut Parts,
) -> Result<()> {
    upload.put_part(first).await.map_err(fault)?;
    while !body.ended {
        let part = body.next().await?;
        if part.content_length() > 0 {
            upload.put_part(part).await.map_err(fault)?;
        }
    }
    upload.complete().await.map_err(fault).map(drop)
}

fn info(key: StorageKey, meta: &ObjectMeta) -> ObjectInfo {
    let (seconds, nanoseconds) = (
        meta.last_modified.timestamp(),
        meta.last_modified.timestamp_subsec_nanos(),
    );
    // Both are in range for every date a store tells; nanoseconds are below two billion.
    let modified_at = Timestamp::new(seconds, i32::try_from(nanoseconds).unwrap_or_default());
    ObjectInfo {
        key,
        size: meta.size,
        modified_at: modified_at.unwrap_or_default(),
    }
}

fn no_byte(range: &Range<u64>, size: u64) -> Error {
    Error::invalid(format!(
        "range {}..{}: expected at least one byte, beginning before the end at {size}",
        range.start, range.end
    ))
    .with_reason("range_invalid")
}

/// The one place where an error of a store becomes an [`Error`].
fn fault(error: object_store::Error) -> Error {
    use object_store::Error as Store;
    let told = match &error {
        Store::NotFound { .. } => Error::not_found("no such object"),
        Store::AlreadyExists { .. } | Store::Precondition { .. } => Error::new(
            ErrorKind::AlreadyExists,
            "an object is stored under this key already",
        ),
        Store::NotImplemented { .. } | Store::NotSupported { .. } => {
            Error::new(ErrorKind::Unsupported, "the store cannot do this")
        }
        Store::PermissionDenied { .. } => {
            Error::new(ErrorKind::PermissionDenied, "the store does not allow this")
        }
        Store::Unauthenticated { .. } => Error::new(
            ErrorKind::Unauthenticated,
            "the store does not accept these credentials",
        ),
        other if is_full(other) => {
            Error::unavailable("no space is left in the store").with_reason("disk_full")
        }
        Store::Generic { .. } => Error::unavailable("the store failed"),
        _ => Error::internal("the store refused the request"),
    };
    told.with_source(error)
}

fn is_full(error: &(dyn std::error::Error + 'static)) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    let mut next = Some(error);
    while let Some(cause) = next {
        let system = cause.downcast_ref::<std::io::Error>();
        if system.is_some_and(|error| matches!(error.kind(), StorageFull | QuotaExceeded)) {
            return true;
        }
        next = cause.source();
    }
    false
}
