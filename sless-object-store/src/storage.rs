//! [`ObjectStoreStorage`].

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
    ByteStream, Error, Fetched, GetOptions, ObjectInfo, PutMode, PutOptions, Result, Retry,
    Storage, StorageCapabilities, StorageKey, Stored,
};

use crate::{
    KeyLayout, Layout, ObjectStoreOptions,
    body::{body_of, whole},
    fault::fault,
    parts::Parts,
    points,
};

/// Where bodies wait that are too long for one request and must not replace anything: a folder of the
/// store that no key is in. What a crash leaves there may be removed while no put is under way.
pub const STAGING: &str = ",staging";

/// A [`Storage`] on any `object_store`.
///
/// A body of no more than [`part_bytes`](ObjectStoreOptions::part_bytes) is one request, a longer one a
/// multipart upload. A long body that must not replace anything is first put beside, whole, and then
/// moved to its place if nothing is there.
///
/// A put that fails aborts its upload. One that is dropped cannot: a store on the network then keeps
/// the parts, which nobody sees, until a rule of the store removes them (files are removed at once).
/// Set up such a rule, as every program that uploads to it needs it.
#[derive(Debug)]
pub struct ObjectStoreStorage<S> {
    store: Arc<S>,
    options: ObjectStoreOptions,
    layout: Arc<dyn Layout>,
}

impl<S: ObjectStore> ObjectStoreStorage<S> {
    /// A storage on this store, in which each object is found under its own key.
    pub fn new(store: S, options: ObjectStoreOptions) -> Self {
        Self::with_layout(store, options, KeyLayout)
    }

    /// A storage on this store, with places of its own for the keys. Files need
    /// [`FileLayout`](crate::FileLayout).
    pub fn with_layout(store: S, options: ObjectStoreOptions, layout: impl Layout) -> Self {
        Self {
            store: Arc::new(store),
            options,
            layout: Arc::new(layout),
        }
    }

    /// The store.
    pub fn store(&self) -> &S {
        &self.store
    }

    #[cfg(feature = "presign")]
    pub(crate) fn place(&self, key: &StorageKey) -> Path {
        self.layout.place(key)
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
        points::WRITE_BEFORE.pass();
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
        points::WRITE_AFTER.pass();
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
            range: range.map(|range| match i64::try_from(range.end) {
                Ok(_) => GetRange::Bounded(range),
                // Some services count with a sign.
                Err(_) => GetRange::Offset(range.start),
            }),
            ..StoreGet::default()
        };
        let found = self.store.get_opts(place, options).await.map_err(fault)?;
        let info = self.info(key.clone(), &found.meta);
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
        stored.map_err(|error| {
            // There is nothing to find in a put: what is not there is the bucket.
            let error = match error.is_not_found() {
                true => Error::unavailable("the store's bucket is not there")
                    .with_reason("bucket_missing")
                    .with_retry(Retry::Never)
                    .with_source(error),
                false => error,
            };
            self.named(error, "storage.put", key)
        })
    }

    async fn get(&self, key: &StorageKey, options: &GetOptions) -> Result<Fetched> {
        let fetched = self.fetch(key, options.range.as_ref()).await;
        fetched.map_err(|error| self.named(error, "storage.get", key))
    }

    async fn head(&self, key: &StorageKey) -> Result<ObjectInfo> {
        let found = self.store.head(&self.layout.place(key)).await;
        let found = found
            .map(|meta| self.info(key.clone(), &meta))
            .map_err(fault);
        found.map_err(|error| self.named(error, "storage.head", key))
    }

    async fn delete(&self, key: &StorageKey) -> Result<()> {
        points::DELETE_BEFORE.pass();
        let deleted = self.store.delete(&self.layout.place(key)).await;
        points::DELETE_AFTER.pass();
        match deleted.map_err(fault) {
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
        let ObjectStoreOptions {
            list_objects: limit,
            backend,
            whole_seconds,
            ..
        } = self.options;
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
                found.push(info(key, &meta, whole_seconds));
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
    fn info(&self, key: StorageKey, meta: &ObjectMeta) -> ObjectInfo {
        info(key, meta, self.options.whole_seconds)
    }

    pub(crate) fn named(&self, error: Error, operation: &'static str, key: &StorageKey) -> Error {
        error.during(operation).on(key).at(self.options.backend)
    }
}

async fn send_parts(
    upload: &mut dyn MultipartUpload,
    first: PutPayload,
    body: &mut Parts,
) -> Result<()> {
    upload.put_part(first).await.map_err(fault)?;
    points::WRITE_PART.pass();
    while !body.ended {
        let part = body.next().await?;
        if part.content_length() > 0 {
            upload.put_part(part).await.map_err(fault)?;
        }
    }
    points::WRITE_WHOLE.pass();
    upload.complete().await.map_err(fault).map(drop)
}

fn info(key: StorageKey, meta: &ObjectMeta, whole_seconds: bool) -> ObjectInfo {
    let (seconds, nanoseconds) = (
        meta.last_modified.timestamp(),
        meta.last_modified.timestamp_subsec_nanos(),
    );
    let nanoseconds = if whole_seconds { 0 } else { nanoseconds };
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
