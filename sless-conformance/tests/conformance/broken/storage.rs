use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream::BoxStream};
use sless_conformance::storage::{StorageHarness, clauses};
use sless_core::{
    ByteStream, Digest, Error, ErrorKind, Fetched, GetOptions, ObjectInfo, PutMode, PutOptions,
    Result, Storage, StorageCapabilities, StorageKey, Stored, VirtualClock, bytes_stream,
    memory::MemoryStorage,
};

use super::{Broken, Expected, expect};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Defect {
    /// What came of a body before it failed is stored.
    KeepsHalf,
    /// The key is emptied before the body is read.
    EmptiesFirst,
    /// The digest is that of the key.
    WrongDigest,
    /// `IfAbsent` looks first and puts later.
    LooksThenPuts,
    /// `IfAbsent` is said to be unsupported, and done all the same.
    SecretlyAbsent,
    /// A listing has at most a page.
    OnePage,
    /// A listing goes folder by folder.
    FolderByFolder,
    /// A prefix ends at a `/`.
    WholeSegments,
    /// A range gives one byte too many.
    RangeTooLong,
    /// A range behind the end is empty.
    EmptyRange,
    /// Deleting what is not there is an error.
    StrictDelete,
    /// Keys are kept in lower case.
    LowerCase,
    /// A body is read whole before it is stored, in one piece.
    Buffers,
}

/// The storage with the defect.
#[derive(Debug)]
struct Faulty {
    inner: MemoryStorage,
    defect: Defect,
}

impl Faulty {
    fn key(&self, key: &StorageKey) -> Result<StorageKey> {
        match self.defect {
            Defect::LowerCase => StorageKey::new(key.as_str().to_ascii_lowercase()),
            _ => Ok(key.clone()),
        }
    }

    async fn put_half(
        &self,
        key: &StorageKey,
        mut body: ByteStream,
        options: &PutOptions,
    ) -> Result<Stored> {
        let (mut half, mut failure) = (Vec::new(), None);
        while let Some(chunk) = body.next().await {
            match chunk {
                Ok(chunk) => half.extend_from_slice(&chunk),
                Err(error) => failure = Some(error),
            }
        }
        let stored = self.inner.put(key, bytes_stream(half), options).await?;
        failure.map_or(Ok(stored), Err)
    }
}

#[async_trait]
impl Storage for Faulty {
    fn capabilities(&self) -> StorageCapabilities {
        let capabilities = self.inner.capabilities();
        capabilities.with_if_absent(self.defect != Defect::SecretlyAbsent)
    }

    async fn put(
        &self,
        key: &StorageKey,
        body: ByteStream,
        options: &PutOptions,
    ) -> Result<Stored> {
        let key = &self.key(key)?;
        match self.defect {
            Defect::KeepsHalf => self.put_half(key, body, options).await,
            Defect::EmptiesFirst if options.mode == PutMode::Overwrite => {
                self.inner
                    .put(key, bytes_stream(Bytes::new()), options)
                    .await?;
                self.inner.put(key, body, options).await
            }
            Defect::WrongDigest => {
                let stored = self.inner.put(key, body, options).await?;
                Ok(Stored {
                    digest: Digest::of(key.as_str()),
                    ..stored
                })
            }
            Defect::LooksThenPuts if options.mode == PutMode::IfAbsent => {
                if self.inner.head(key).await.is_ok() {
                    return Err(Error::new(ErrorKind::AlreadyExists, "it is there"));
                }
                let body: Vec<Bytes> = body.try_collect().await?;
                let body = bytes_stream(body.concat());
                self.inner.put(key, body, &PutOptions::default()).await
            }
            Defect::Buffers => {
                let whole: Vec<Bytes> = body.try_collect().await?;
                self.inner
                    .put(key, bytes_stream(whole.concat()), options)
                    .await
            }
            _ => self.inner.put(key, body, options).await,
        }
    }

    async fn get(&self, key: &StorageKey, options: &GetOptions) -> Result<Fetched> {
        let key = &self.key(key)?;
        match (self.defect, &options.range) {
            (Defect::RangeTooLong, Some(range)) => {
                let longer =
                    GetOptions::default().with_range(range.start..range.end.saturating_add(1));
                self.inner.get(key, &longer).await
            }
            (Defect::EmptyRange, Some(_)) => match self.inner.get(key, options).await {
                Err(error) if error.kind() == ErrorKind::Invalid => {
                    let info = self.inner.head(key).await?;
                    Ok(Fetched {
                        info,
                        body: bytes_stream(Bytes::new()),
                    })
                }
                other => other,
            },
            _ => self.inner.get(key, options).await,
        }
    }

    async fn head(&self, key: &StorageKey) -> Result<ObjectInfo> {
        self.inner.head(&self.key(key)?).await
    }

    async fn delete(&self, key: &StorageKey) -> Result<()> {
        let key = &self.key(key)?;
        if self.defect == Defect::StrictDelete {
            self.inner.head(key).await?;
        }
        self.inner.delete(key).await
    }

    fn list(&self, prefix: &str) -> BoxStream<'static, Result<ObjectInfo>> {
        match self.defect {
            Defect::OnePage => self.inner.list(prefix).take(1_000).boxed(),
            Defect::WholeSegments => {
                let folder = format!("{}/", prefix.trim_end_matches('/'));
                self.inner.list(&folder).boxed()
            }
            Defect::FolderByFolder => {
                let all = self.inner.list(prefix).try_collect::<Vec<_>>();
                futures::stream::once(all)
                    .map_ok(|mut all| {
                        let path = |info: &ObjectInfo| {
                            let text = info.key.as_str();
                            text.split('/').map(str::to_owned).collect::<Vec<_>>()
                        };
                        all.sort_by_key(path);
                        futures::stream::iter(all.into_iter().map(Ok))
                    })
                    .try_flatten()
                    .boxed()
            }
            _ => self.inner.list(prefix),
        }
    }
}

#[async_trait]
impl StorageHarness for Broken<Arc<Faulty>, Defect> {
    async fn storage(&self) -> Result<Arc<dyn Storage>> {
        Ok(self.backend.clone())
    }

    async fn reopen(&self) -> Result<bool> {
        Ok(false)
    }

    fn keeps_bodies_outside(&self) -> bool {
        self.defect == Defect::Buffers
    }
}

fn find(defects: Expected<'_, Defect>) {
    let make = |defect| -> Box<dyn StorageHarness> {
        let clock = VirtualClock::default();
        let inner = MemoryStorage::new(Arc::new(clock.clone()));
        Box::new(Broken {
            clock,
            backend: Arc::new(Faulty { inner, defect }),
            defect,
        })
    };
    expect(defects, clauses(), make);
}

#[test]
fn a_storage_that_stores_halves_is_found() {
    find(&[
        (
            Defect::KeepsHalf,
            &["a_put_whose_body_fails_changes_nothing"],
        ),
        (
            Defect::EmptiesFirst,
            &[
                "a_dropped_put_changes_nothing",
                "a_put_under_way_is_not_seen",
                "a_put_whose_body_fails_changes_nothing",
                "a_reader_never_sees_a_mix_of_two_bodies",
            ],
        ),
        (Defect::Buffers, &["large_bodies_stream"]),
    ]);
}

#[test]
fn a_storage_that_says_what_is_not_so_is_found() {
    find(&[
        (
            Defect::WrongDigest,
            &[
                "if_absent_stores_where_nothing_is",
                "large_bodies_stream",
                "the_answer_to_a_put_has_the_size_and_digest_of_its_body",
                "the_last_of_parallel_puts_is_whole",
            ],
        ),
        (
            Defect::SecretlyAbsent,
            &[
                "if_absent_has_one_winner",
                "if_absent_refuses_where_something_is",
                "if_absent_stores_where_nothing_is",
            ],
        ),
        (Defect::LooksThenPuts, &["if_absent_has_one_winner"]),
        (
            Defect::StrictDelete,
            &["deleting_what_is_not_there_is_fine"],
        ),
    ]);
}

#[test]
fn a_storage_that_lists_wrongly_is_found() {
    find(&[
        (Defect::OnePage, &["a_long_listing_is_complete"]),
        (Defect::FolderByFolder, &["a_listing_is_ordered_by_key"]),
        (
            Defect::WholeSegments,
            &["a_prefix_is_text", "a_long_listing_is_complete"],
        ),
        (
            Defect::LowerCase,
            &[
                "every_allowed_key_is_kept_as_it_is",
                "a_listing_is_ordered_by_key",
            ],
        ),
    ]);
}

#[test]
fn a_storage_that_reads_other_bytes_is_found() {
    find(&[
        (
            Defect::RangeTooLong,
            &[
                "a_range_reads_only_its_bytes",
                "a_range_without_a_byte_is_refused",
            ],
        ),
        (Defect::EmptyRange, &["a_range_without_a_byte_is_refused"]),
    ]);
}
