//! The suite of [`Storage`]; its contract is `docs/contracts/storage.md`.

mod conditional;
mod list;
mod ranges;
mod read_back;
mod whole;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt as _;
use sless_core::{
    GetOptions, ObjectInfo, PutOptions, Result, Storage, StorageKey, Stored, bytes_stream,
    collect_bytes,
};

use crate::{Harness, Outcome, Violation, clause::While as _, suite::suite, unique};

/// What the suite has to know of a storage.
///
/// [`Volatile`](crate::Volatile) is one for a storage that keeps nothing over a restart.
#[async_trait]
pub trait StorageHarness: Harness {
    /// The storage. The same one at each call, until `reopen`.
    ///
    /// # Errors
    /// Whatever keeps it from being there; the clause then fails with it.
    async fn storage(&self) -> Result<Arc<dyn Storage>>;

    /// Ends the storage as a crash would, and opens another one over the same data, which
    /// `storage` gives from then on. The clause holds no handle of the old one when it calls this.
    /// Answers `false` where the data ends with the process.
    ///
    /// # Errors
    /// Whatever keeps it from being opened.
    async fn reopen(&self) -> Result<bool>;

    /// Whether bodies are kept outside of this process's memory, so that a body larger than the
    /// memory can be stored. `false` only for a store that is the memory.
    fn keeps_bodies_outside(&self) -> bool {
        true
    }
}

/// One run of one clause: a prefix of its own, emptied at its end.
pub(crate) struct Case<'a> {
    harness: &'a dyn StorageHarness,
    prefix: String,
}

impl<'a> Case<'a> {
    async fn open(harness: &'a dyn StorageHarness) -> Result<Self, Violation> {
        Ok(Self {
            harness,
            prefix: format!("conformance/{}/", unique::tag()),
        })
    }

    async fn close(&self) -> Outcome {
        let storage = self.storage().await?;
        for info in self.list("").await? {
            storage.delete(&info.key).await.while_("cleaning up")?;
        }
        Ok(self.harness.clean_up().await?)
    }

    async fn storage(&self) -> Result<Arc<dyn Storage>> {
        self.harness.storage().await
    }

    /// A key below this case's prefix.
    fn key(&self, rest: &str) -> Result<StorageKey> {
        StorageKey::new(format!("{}{rest}", self.prefix))
    }

    /// Stores a body, and gives its key.
    async fn put(&self, rest: &str, body: impl Into<Bytes>) -> Result<StorageKey, Violation> {
        let key = self.key(rest)?;
        let storage = self.storage().await?;
        storage
            .put(&key, bytes_stream(body), &PutOptions::default())
            .await
            .while_(format_args!("putting {key}"))?;
        Ok(key)
    }

    /// Reads a whole body.
    async fn get(&self, key: &StorageKey) -> Result<Bytes, Violation> {
        self.get_with(key, &GetOptions::default())
            .await
            .while_(format_args!("getting {key}"))
    }

    async fn get_with(&self, key: &StorageKey, options: &GetOptions) -> Result<Bytes> {
        let fetched = self.storage().await?.get(key, options).await?;
        collect_bytes(fetched.body, "body_bytes", 64 << 20).await
    }

    /// Lists what begins with this case's prefix and these letters.
    async fn list(&self, rest: &str) -> Result<Vec<ObjectInfo>, Violation> {
        let storage = self.storage().await?;
        let prefix = format!("{}{rest}", self.prefix);
        storage
            .list(&prefix)
            .try_collect()
            .await
            .while_(format_args!("listing {prefix}"))
    }

    /// What was listed, without this case's prefix.
    async fn listed(&self, rest: &str) -> Result<Vec<String>, Violation> {
        let infos = self.list(rest).await?;
        let keys = infos.iter().map(|info| {
            let key = info.key.as_str();
            key.strip_prefix(&self.prefix).unwrap_or(key).to_owned()
        });
        Ok(keys.collect())
    }

    /// Makes sure that exactly this is stored under the key: nothing, or this body.
    async fn holds(&self, key: &StorageKey, body: Option<&Bytes>, when: &str) -> Outcome {
        use crate::clause::{ensure, refused};
        let storage = self.storage().await?;
        let listed = self
            .list("")
            .await?
            .into_iter()
            .find(|info| info.key == *key);
        let Some(body) = body else {
            let get = storage.get(key, &GetOptions::default()).await;
            refused(
                get,
                sless_core::ErrorKind::NotFound,
                format_args!("get {when}"),
            )?;
            refused(
                storage.head(key).await,
                sless_core::ErrorKind::NotFound,
                format_args!("head {when}"),
            )?;
            ensure!(listed.is_none(), "the object is listed {when}");
            return Ok(());
        };
        let found = self.get(key).await.while_(when)?;
        ensure!(
            found == *body,
            "{when}: read {} bytes that are not the {} bytes expected",
            found.len(),
            body.len()
        );
        let head = storage.head(key).await.while_(when)?;
        ensure!(
            head.size == body.len() as u64,
            "{when}: head says {} bytes",
            head.size
        );
        ensure!(
            listed.as_ref() == Some(&head),
            "{when}: listed {listed:?}, head says {head:?}"
        );
        Ok(())
    }
}

/// What the answer to a put of this body has to be.
fn stored(body: &Bytes) -> Stored {
    Stored {
        size: body.len() as u64,
        digest: sless_core::Digest::of(body),
    }
}

suite! {
    ($)
    /// Makes a test of each clause of [`Storage`](sless_core::Storage)'s contract.
    ///
    /// Takes an expression that makes a [`StorageHarness`](crate::storage::StorageHarness); it may
    /// `await`. Attributes in front go to every test.
    storage, "storage", StorageHarness, Case<'_>;
    1 read_back::what_was_put_is_read_back,
    2 read_back::an_empty_body_is_an_object,
    3 read_back::the_answer_to_a_put_has_the_size_and_digest_of_its_body,
    4 read_back::a_put_replaces_what_was_there,
    5 read_back::get_head_and_list_say_the_same_of_an_object,
    6 read_back::an_absent_object_is_not_found,
    7 read_back::a_deleted_object_is_gone,
    8 read_back::deleting_what_is_not_there_is_fine,
    9 read_back::every_allowed_key_is_kept_as_it_is,
    10 whole::a_put_under_way_is_not_seen,
    11 whole::a_put_whose_body_fails_changes_nothing,
    12 whole::a_dropped_put_changes_nothing,
    13 whole::a_reader_never_sees_a_mix_of_two_bodies,
    14 whole::the_last_of_parallel_puts_is_whole,
    15 whole::large_bodies_stream,
    16 whole::stored_objects_survive_a_reopen,
    17 ranges::a_range_reads_only_its_bytes,
    18 ranges::a_range_is_cut_at_the_end,
    19 ranges::a_range_without_a_byte_is_refused,
    20 list::a_prefix_is_text,
    21 list::a_listing_is_ordered_by_key,
    22 list::a_long_listing_is_complete,
    23 list::a_listing_of_nothing_is_empty,
    24 conditional::if_absent_stores_where_nothing_is,
    25 conditional::if_absent_refuses_where_something_is,
    26 conditional::if_absent_has_one_winner,
}
