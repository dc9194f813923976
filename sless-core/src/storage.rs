//! [`Storage`]: bytes by key.

use std::{fmt, ops::Range, str::FromStr, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::stream::BoxStream;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{ByteStream, Digest, Error, Name, Namespace, Result};

/// Keeps uploaded sources and build contexts.
///
/// In memory, in files, in S3 or any `object_store`. Backends run `sless_conformance::storage!`; the
/// clauses stand in `docs/contracts/storage.md`.
///
/// # Contract
/// - An object is visible whole or not at all: a failed, dropped or interrupted `put` leaves what
///   was there before.
/// - What was put is read by the next `get`, `head` and `list`.
/// - Bodies stream both ways in memory that does not grow with their length.
#[async_trait]
pub trait Storage: fmt::Debug + Send + Sync + 'static {
    /// What this backend can do beyond the contract.
    fn capabilities(&self) -> StorageCapabilities;

    /// Stores a body under a key, replacing what is there.
    ///
    /// # Errors
    /// `AlreadyExists` if asked to put only where nothing is and something is; `Unsupported` if the
    /// backend cannot promise that; what the body says, and then nothing is stored.
    async fn put(&self, key: &StorageKey, body: ByteStream, options: &PutOptions)
    -> Result<Stored>;

    /// Reads an object, or a part of it.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` if the object has no byte in the range. A body that is cut short ends
    /// in `Interrupted`.
    async fn get(&self, key: &StorageKey, options: &GetOptions) -> Result<Fetched>;

    /// Reads what is known of an object, without its body.
    ///
    /// # Errors
    /// `NotFound`.
    async fn head(&self, key: &StorageKey) -> Result<ObjectInfo>;

    /// Removes an object. One that is not there is fine.
    async fn delete(&self, key: &StorageKey) -> Result<()>;

    /// Lists the objects whose key begins with `prefix`, in order of their keys. The prefix is text:
    /// it need not end at a `/`.
    fn list(&self, prefix: &str) -> BoxStream<'static, Result<ObjectInfo>>;
}

/// An extra ability of a [`Storage`]: addresses that give an object to whoever holds them.
#[async_trait]
pub trait Presign: Storage {
    /// An address from which the object can be read without any key, for this long.
    async fn presign_get(&self, key: &StorageKey, valid: Duration) -> Result<String>;
}

/// What a [`Storage`] can do beyond the contract.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StorageCapabilities {
    /// Whether [`PutMode::IfAbsent`] is honoured. Where not, it is refused.
    pub if_absent: bool,
}

impl StorageCapabilities {
    /// Says whether [`PutMode::IfAbsent`] is honoured.
    #[must_use]
    pub const fn with_if_absent(mut self, honoured: bool) -> Self {
        self.if_absent = honoured;
        self
    }
}

/// What to do where something is stored already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PutMode {
    /// Replace it.
    #[default]
    Overwrite,
    /// Refuse: of several writers one wins.
    IfAbsent,
}

/// How to store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PutOptions {
    /// What to do where something is stored already.
    pub mode: PutMode,
    /// The media type (RFC 9110, section 8.3.1).
    pub content_type: Option<String>,
}

impl PutOptions {
    /// Refuse where something is stored already.
    #[must_use]
    pub const fn if_absent(mut self) -> Self {
        self.mode = PutMode::IfAbsent;
        self
    }

    /// Sets the media type.
    #[must_use]
    pub fn with_content_type(mut self, content_type: impl Into<String>) -> Self {
        self.content_type = Some(content_type.into());
        self
    }
}

/// What was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// How many bytes.
    pub size: u64,
    /// SHA-256 of the body.
    pub digest: Digest,
}

/// What to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GetOptions {
    /// Only these bytes; an end past the object's end is cut to it.
    pub range: Option<Range<u64>>,
}

impl GetOptions {
    /// Only these bytes.
    #[must_use]
    pub const fn with_range(mut self, range: Range<u64>) -> Self {
        self.range = Some(range);
        self
    }
}

/// An object that is being read.
pub struct Fetched {
    /// What is known of the whole object.
    pub info: ObjectInfo,
    /// The bytes that were asked for.
    pub body: ByteStream,
}

impl fmt::Debug for Fetched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetched")
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}

/// What is known of a stored object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// The key.
    pub key: StorageKey,
    /// How many bytes.
    pub size: u64,
    /// When it was stored.
    pub modified_at: Timestamp,
}

/// The key of a stored object: segments joined by `/`.
///
/// At most [`StorageKey::MAX`] bytes; no segment is empty, `.` or `..`, or longer than
/// [`StorageKey::SEGMENT_MAX`]; the characters are letters, digits and `-`, `_`, `.`, so that every
/// store and file system keeps them as they are.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StorageKey(Arc<str>);

impl StorageKey {
    /// The longest key, in bytes.
    pub const MAX: usize = 512;

    /// The longest segment, in bytes: what file systems allow, with room for what a store appends to
    /// a name while it writes.
    pub const SEGMENT_MAX: usize = 200;

    /// Checks the rule and keeps the key.
    ///
    /// # Errors
    /// `Invalid`, reason `storage_key_invalid`.
    pub fn new(text: impl AsRef<str>) -> Result<Self> {
        let text = text.as_ref();
        let right = |segment: &str| {
            !matches!(segment, "" | "." | "..")
                && segment.len() <= Self::SEGMENT_MAX
                && segment
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        };
        if text.len() > Self::MAX || !text.split('/').all(right) {
            let shown: String = text.chars().take(80).flat_map(char::escape_debug).collect();
            return Err(Error::invalid(format!(
                "storage key \"{shown}\": expected at most {} bytes of segments joined by \"/\", \
                 each of at most {} letters, digits, \"-\", \"_\" and \".\"",
                Self::MAX,
                Self::SEGMENT_MAX
            ))
            .with_reason("storage_key_invalid"));
        }
        Ok(Self(text.into()))
    }

    /// Where the zip of an upload is kept: `functions/{namespace}/{name}/{stamp}.zip`.
    pub fn source(namespace: &Namespace, name: &Name, stamp: &str) -> Result<Self> {
        Self::new(format!("functions/{namespace}/{name}/{stamp}.zip"))
    }

    /// Where the build context of an upload is kept: `contexts/{namespace}/{name}/{stamp}.tar.gz`.
    pub fn context(namespace: &Namespace, name: &Name, stamp: &str) -> Result<Self> {
        Self::new(format!("contexts/{namespace}/{name}/{stamp}.tar.gz"))
    }

    /// The key of the zip that belongs to this key of a build context.
    ///
    /// # Errors
    /// `Invalid` if this is not the key of a build context.
    pub fn source_of_context(&self) -> Result<Self> {
        self.0
            .strip_prefix("contexts/")
            .and_then(|rest| rest.strip_suffix(".tar.gz"))
            .ok_or_else(|| {
                Error::invalid(format!("{self} is not the key of a build context"))
                    .with_reason("storage_key_invalid")
            })
            .and_then(|rest| Self::new(format!("functions/{rest}.zip")))
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StorageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for StorageKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::new(text)
    }
}

impl TryFrom<String> for StorageKey {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        Self::new(text)
    }
}

impl From<StorageKey> for String {
    fn from(key: StorageKey) -> Self {
        key.0.as_ref().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_context_and_its_source_are_found_from_each_other() {
        let (namespace, name) = (
            Namespace::new("ns").expect("ns"),
            Name::new("f").expect("f"),
        );
        let context = StorageKey::context(&namespace, &name, "20260101T000000Z").expect("key");
        let source = StorageKey::source(&namespace, &name, "20260101T000000Z").expect("key");
        assert_eq!(context.source_of_context().expect("a context"), source);
        assert!(source.source_of_context().is_err());
    }

    proptest! {
        #[test]
        fn no_key_leaves_its_root(text in "[a-z./\\\\\0-]{0,20}") {
            if let Ok(key) = StorageKey::new(&text) {
                prop_assert!(!key.as_str().split('/').any(|part| matches!(part, "" | "." | "..")));
                prop_assert!(!key.as_str().contains(['\\', '\0']));
            }
        }
    }
}
