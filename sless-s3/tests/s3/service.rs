//! The service of these tests, and a second client to look at it with.

use std::{env, time::Duration};

use aws_sdk_s3::{
    Client,
    config::{BehaviorVersion, Credentials, Region},
};
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use sless_core::{ByteStream, GetOptions, Result, Storage as _, StorageKey, collect_bytes};
use sless_s3::{S3Config, S3Storage};

/// How long anything in these tests may take.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) fn given(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is not set: testing/s3/up gives it"))
}

/// The settings of the service and its bucket, with short waits.
pub(crate) fn config() -> S3Config {
    let mut config = S3Config::new(given("SLESS_TEST_S3_BUCKET"))
        .with_endpoint(given("SLESS_TEST_S3_ENDPOINT"))
        .with_keys(
            given("SLESS_TEST_S3_ACCESS_KEY"),
            given("SLESS_TEST_S3_SECRET_KEY"),
        );
    config.region = given("SLESS_TEST_S3_REGION");
    config.patience.backoff_ms = 10;
    config
}

pub(crate) async fn storage() -> S3Storage {
    S3Storage::connect(config()).await.expect("connects")
}

/// The SDK's client, on the service itself.
pub(crate) fn client() -> Client {
    let keys = Credentials::new(
        given("SLESS_TEST_S3_ACCESS_KEY"),
        given("SLESS_TEST_S3_SECRET_KEY"),
        None,
        None,
        "test",
    );
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(given("SLESS_TEST_S3_REGION")))
        .endpoint_url(given("SLESS_TEST_S3_ENDPOINT"))
        .credentials_provider(keys)
        .force_path_style(true);
    Client::from_conf(config.build())
}

/// A key that no other test has.
pub(crate) fn key(name: &str) -> StorageKey {
    StorageKey::new(format!("test/{}/{name}", uuid::Uuid::new_v4())).expect("a key")
}

/// How many uploads of this key have begun and not ended.
pub(crate) async fn uploads_of(key: &StorageKey) -> usize {
    let asked = client().list_multipart_uploads();
    let asked = asked.bucket(given("SLESS_TEST_S3_BUCKET"));
    let found = asked.prefix(key.as_str()).send().await.expect("a list");
    found.uploads().len()
}

/// Makes sure that neither an object nor a part of one is there.
pub(crate) async fn nothing_is_at(storage: &S3Storage, key: &StorageKey) {
    let found = storage.head(key).await;
    assert!(found.expect_err("nothing is there").is_not_found());
    assert_eq!(uploads_of(key).await, 0, "uploads are left");
}

/// A body of three parts, the last one short.
pub(crate) fn long() -> Vec<u8> {
    (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect()
}

/// In chunks that do not fit the parts.
pub(crate) fn chunked(bytes: &[u8]) -> ByteStream {
    let chunks: Vec<_> = bytes
        .chunks(777_777)
        .map(|chunk| Ok(Bytes::copy_from_slice(chunk)))
        .collect();
    stream::iter(chunks).boxed()
}

/// A body that never ends.
pub(crate) fn endless(bytes: &[u8]) -> ByteStream {
    chunked(bytes).chain(stream::pending()).boxed()
}

pub(crate) async fn read(storage: &S3Storage, key: &StorageKey) -> Result<Bytes> {
    let fetched = storage.get(key, &GetOptions::default()).await?;
    collect_bytes(fetched.body, "test", usize::MAX).await
}

/// Waits until it is so.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let waited = tokio::time::timeout(DEADLINE, async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    waited
        .await
        .unwrap_or_else(|_| panic!("not {what} in time"));
}
