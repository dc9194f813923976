//! The suite of `Storage` on stores of `object_store`, and what is particular to them.

use std::{
    env,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use object_store::{
    aws::{AmazonS3, AmazonS3Builder, S3ConditionalPut},
    local::LocalFileSystem,
    memory::InMemory,
};
use sless_conformance::{Harness, Volatile, storage::StorageHarness};
use sless_core::{
    Digest, Error, ErrorKind, GetOptions, Presign as _, PutOptions, Result, Retry, Storage,
    StorageKey, bytes_stream, collect_bytes,
};
use sless_object_store::{FileLayout, ObjectStoreOptions, ObjectStoreStorage};

fn options() -> ObjectStoreOptions {
    let mut options = ObjectStoreOptions::default();
    options.if_absent = true;
    options
}

fn key(text: &str) -> StorageKey {
    StorageKey::new(text).expect("a key")
}

/// Plain files, opened again after a crash.
#[derive(Debug)]
struct Files {
    folder: tempfile::TempDir,
    opened: Mutex<Option<Arc<dyn Storage>>>,
}

impl Files {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a folder"),
            opened: Mutex::default(),
        }
    }
}

impl Harness for Files {}

#[async_trait]
impl StorageHarness for Files {
    async fn storage(&self) -> Result<Arc<dyn Storage>> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let storage = opened.get_or_insert_with(|| {
            let store = LocalFileSystem::new_with_prefix(self.folder.path()).expect("a store");
            let store = store.with_automatic_cleanup(true);
            Arc::new(ObjectStoreStorage::with_layout(
                store,
                options(),
                FileLayout,
            ))
        });
        Ok(storage.clone())
    }

    async fn reopen(&self) -> Result<bool> {
        *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(true)
    }
}

mod memory {
    sless_conformance::storage!(super::Volatile::storage(super::ObjectStoreStorage::new(
        object_store::memory::InMemory::new(),
        super::options(),
    )));
}

mod without_if_absent {
    sless_conformance::storage!(super::Volatile::storage(super::ObjectStoreStorage::new(
        object_store::memory::InMemory::new(),
        super::ObjectStoreOptions::default(),
    )));
}

mod files {
    sless_conformance::storage!(super::Files::new());
}

mod s3 {
    sless_conformance::storage!(
        #[ignore = "needs S3: testing/s3/up"]
        super::Volatile::streaming_storage(super::amazon("SLESS_TEST_S3_BUCKET", None))
    );
}

/// The client of `object_store` for S3, on the service of the tests.
fn amazon(bucket: &str, secret: Option<&str>) -> ObjectStoreStorage<AmazonS3> {
    let given = |name: &str| {
        env::var(name).unwrap_or_else(|_| panic!("{name} is not set: testing/s3/up gives it"))
    };
    let store = AmazonS3Builder::new()
        .with_endpoint(given("SLESS_TEST_S3_ENDPOINT"))
        .with_region(given("SLESS_TEST_S3_REGION"))
        .with_bucket_name(env::var(bucket).unwrap_or_else(|_| bucket.to_owned()))
        .with_access_key_id(given("SLESS_TEST_S3_ACCESS_KEY"))
        .with_secret_access_key(
            secret.map_or_else(|| given("SLESS_TEST_S3_SECRET_KEY"), str::to_owned),
        )
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_allow_http(true)
        .build()
        .expect("a store");
    ObjectStoreStorage::new(store, options())
}

/// A body of several parts.
fn long() -> Vec<u8> {
    (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect()
}

#[tokio::test]
async fn a_long_body_is_sent_in_parts_and_comes_back() {
    let mut options = options();
    options.part_bytes = 1 << 20;
    let storage = ObjectStoreStorage::new(InMemory::new(), options);
    let bytes = long();
    for put in [PutOptions::default(), PutOptions::default().if_absent()] {
        let key = key(if put == PutOptions::default() {
            "a"
        } else {
            "b"
        });
        let stored = storage
            .put(&key, bytes_stream(bytes.clone()), &put)
            .await
            .expect("stored");
        assert_eq!(
            (stored.size, stored.digest),
            (bytes.len() as u64, Digest::of(&bytes))
        );
        let fetched = storage
            .get(&key, &GetOptions::default())
            .await
            .expect("there");
        let read = collect_bytes(fetched.body, "test", usize::MAX).await;
        assert_eq!(read.expect("a body"), bytes);
    }
    assert_eq!(
        storage.list("").count().await,
        2,
        "nothing is left beside them"
    );
}

#[tokio::test]
async fn limits_are_refused_by_name() {
    let mut options = options();
    (options.object_bytes, options.list_objects) = (10, 1);
    let storage = ObjectStoreStorage::new(InMemory::new(), options);
    let put = |name: &str, body: &'static str| {
        let (storage, key) = (&storage, key(name));
        async move {
            storage
                .put(&key, bytes_stream(body), &PutOptions::default())
                .await
        }
    };
    let error = put("a", "eleven byte").await.expect_err("too long");
    assert_eq!(error.reason(), "limit_object_bytes");
    put("a", "x").await.expect("stored");
    put("b", "x").await.expect("stored");
    let all: Result<Vec<_>> = storage.list("").try_collect().await;
    assert_eq!(all.expect_err("two").reason(), "limit_list_objects");
}

#[tokio::test]
#[ignore = "needs S3: testing/s3/up"]
async fn an_address_gives_an_object_without_a_key() {
    let storage = amazon("SLESS_TEST_S3_BUCKET", None);
    let key = key("object-store/presigned");
    storage
        .put(&key, bytes_stream("for you"), &PutOptions::default())
        .await
        .expect("stored");
    let address = storage
        .presign_get(&key, Duration::from_secs(60))
        .await
        .expect("an address");
    let answer = reqwest::get(&address).await.expect("an answer");
    assert_eq!(answer.status(), 200, "{address}");
    assert_eq!(answer.text().await.expect("a body"), "for you");
    let plain = address.split('?').next().expect("a path");
    assert_eq!(reqwest::get(plain).await.expect("an answer").status(), 403);
    storage.delete(&key).await.expect("gone");
}

#[tokio::test]
#[ignore = "needs S3: testing/s3/up"]
async fn a_failed_put_leaves_no_parts_and_says_why() {
    let storage = amazon("SLESS_TEST_S3_BUCKET", None);
    let broken = stream::iter([Ok(long().into()), Err(Error::internal("broken"))]).boxed();
    let key = key("object-store/broken");
    let put = storage.put(&key, broken, &PutOptions::default()).await;
    assert_eq!(put.expect_err("broken").kind(), ErrorKind::Internal);
    let found = storage.head(&key).await;
    assert!(found.expect_err("nothing is there").is_not_found());

    let refused = amazon("SLESS_TEST_S3_BUCKET", Some("wrong"));
    let put = refused
        .put(&key, bytes_stream("x"), &PutOptions::default())
        .await;
    let error = put.expect_err("wrong keys");
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error:?}");
    let missing = amazon("no-such-bucket", None);
    let put = missing
        .put(&key, bytes_stream("x"), &PutOptions::default())
        .await;
    let error = put.expect_err("no bucket");
    assert_eq!(
        (error.reason(), error.retry()),
        ("bucket_missing", Retry::Never)
    );
}
