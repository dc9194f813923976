//! [`MemoryStorage`].

use std::{
    collections::BTreeMap,
    ops::{Bound, Range},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt as _, stream::BoxStream};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{BACKEND, lock};
use crate::{
    ByteStream, Clock, Digest, Error, ErrorKind, Fetched, GetOptions, ObjectInfo, PutMode,
    PutOptions, Result, Storage, StorageCapabilities, StorageKey, Stored, SystemClock,
};

/// The limits of a [`MemoryStorage`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MemoryStorageConfig {
    /// The most bytes of all objects together, and so of one.
    pub storage_bytes: u64,
}

impl Default for MemoryStorageConfig {
    /// One gibibyte.
    fn default() -> Self {
        Self {
            storage_bytes: 1 << 30,
        }
    }
}

/// A [`Storage`] in memory.
#[derive(Debug)]
pub struct MemoryStorage {
    clock: Arc<dyn Clock>,
    config: MemoryStorageConfig,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By the text of the key, so that a prefix can be looked for.
    objects: BTreeMap<String, Entry>,
    bytes: u64,
}

#[derive(Debug)]
struct Entry {
    info: ObjectInfo,
    body: Bytes,
}

/// The largest chunk that a body is read in.
const CHUNK: usize = 64 << 10;

impl MemoryStorage {
    /// An empty store with the default limits.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_config(clock, MemoryStorageConfig::default())
    }

    /// An empty store.
    pub fn with_config(clock: Arc<dyn Clock>, config: MemoryStorageConfig) -> Self {
        Self {
            clock,
            config,
            state: Mutex::default(),
        }
    }

    fn limit(&self) -> Error {
        Error::limit("storage_bytes", self.config.storage_bytes, "bytes")
    }

    async fn read_body(&self, mut body: ByteStream) -> Result<(Bytes, Digest)> {
        let mut whole = Vec::new();
        let mut hash = Sha256::new();
        while let Some(chunk) = body.next().await {
            let chunk = chunk?;
            // The rest is checked when the object is stored, against what is there then.
            if (whole.len() + chunk.len()) as u64 > self.config.storage_bytes {
                return Err(self.limit());
            }
            hash.update(&chunk);
            whole.extend_from_slice(&chunk);
        }
        Ok((whole.into(), Digest::from_bytes(hash.finalize().into())))
    }

    fn store(&self, key: &StorageKey, body: Bytes, mode: PutMode) -> Result<()> {
        let mut state = lock(&self.state);
        let replaced = match state.objects.get(key.as_str()) {
            Some(_) if mode == PutMode::IfAbsent => return Err(already_exists(key)),
            Some(entry) => entry.info.size,
            None => 0,
        };
        let size = body.len() as u64;
        let bytes = state.bytes - replaced + size;
        if bytes > self.config.storage_bytes {
            return Err(self.limit());
        }
        state.bytes = bytes;
        let info = ObjectInfo {
            key: key.clone(),
            size,
            modified_at: self.clock.now(),
        };
        state
            .objects
            .insert(key.as_str().to_owned(), Entry { info, body });
        Ok(())
    }

    fn find<T>(&self, key: &StorageKey, read: impl FnOnce(&Entry) -> T) -> Result<T> {
        let state = lock(&self.state);
        state
            .objects
            .get(key.as_str())
            .map(read)
            .ok_or_else(|| Error::not_found(format!("no object {key}")))
    }
}

impl Default for MemoryStorage {
    /// An empty store on the system's clock.
    fn default() -> Self {
        Self::new(Arc::new(SystemClock))
    }
}

fn already_exists(key: &StorageKey) -> Error {
    Error::new(ErrorKind::AlreadyExists, format!("object {key} exists"))
}

/// The part of `body` that was asked for.
fn part(body: &Bytes, range: Range<u64>) -> Result<Bytes> {
    let size = body.len() as u64;
    if range.start >= range.end || range.start >= size {
        return Err(Error::invalid(format!(
            "range {}..{}: expected at least one byte, beginning before the end at {size}",
            range.start, range.end
        ))
        .with_reason("range_invalid"));
    }
    let at = |place: u64| usize::try_from(place.min(size)).unwrap_or(body.len());
    Ok(body.slice(at(range.start)..at(range.end)))
}

#[async_trait]
impl Storage for MemoryStorage {
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
            if options.mode == PutMode::IfAbsent && self.find(key, |_| ()).is_ok() {
                return Err(already_exists(key));
            }
            let (body, digest) = self.read_body(body).await?;
            let size = body.len() as u64;
            self.store(key, body, options.mode)?;
            Ok(Stored { size, digest })
        };
        put.await
            .map_err(|error: Error| error.during("storage.put").on(key).at(BACKEND))
    }

    async fn get(&self, key: &StorageKey, options: &GetOptions) -> Result<Fetched> {
        let (info, body) = self
            .find(key, |entry| (entry.info.clone(), entry.body.clone()))
            .and_then(|(info, body)| match &options.range {
                Some(range) => Ok((info, part(&body, range.clone())?)),
                None => Ok((info, body)),
            })
            .map_err(|error| error.during("storage.get").on(key).at(BACKEND))?;
        let chunks = futures::stream::unfold(body, |mut rest| async {
            let chunk = rest.split_to(rest.len().min(CHUNK));
            (!chunk.is_empty()).then_some((Ok(chunk), rest))
        });
        Ok(Fetched {
            info,
            body: chunks.boxed(),
        })
    }

    async fn head(&self, key: &StorageKey) -> Result<ObjectInfo> {
        let found = self.find(key, |entry| entry.info.clone());
        found.map_err(|error| error.during("storage.head").on(key).at(BACKEND))
    }

    async fn delete(&self, key: &StorageKey) -> Result<()> {
        let mut state = lock(&self.state);
        if let Some(entry) = state.objects.remove(key.as_str()) {
            state.bytes -= entry.info.size;
        }
        Ok(())
    }

    fn list(&self, prefix: &str) -> BoxStream<'static, Result<ObjectInfo>> {
        let state = lock(&self.state);
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let found: Vec<_> = state
            .objects
            .range::<str, _>(from)
            .take_while(|(key, _)| key.starts_with(prefix))
            .map(|(_, entry)| Ok(entry.info.clone()))
            .collect();
        futures::stream::iter(found).boxed()
    }
}
