//! Encryption, storage classes, checksums, addresses, credentials.

use std::time::Duration;

use aws_sdk_s3::operation::head_object::HeadObjectOutput;
use aws_sdk_s3::types::{ChecksumMode, ServerSideEncryption, StorageClass};
use sless_core::{Presign as _, PutOptions, Storage as _, StorageKey, bytes_stream};
use sless_s3::{S3Checksums, S3Config, S3Encryption, S3Storage};

use crate::service::{chunked, client, config, given, key, long, read, storage};

async fn seen(key: &StorageKey) -> HeadObjectOutput {
    let asked = client().head_object().bucket(given("SLESS_TEST_S3_BUCKET"));
    let asked = asked.key(key.as_str()).checksum_mode(ChecksumMode::Enabled);
    asked.send().await.expect("there")
}

/// Puts a short body and a long one, and sees that they come back and what the service says of them.
async fn with(config: S3Config, check: impl Fn(&HeadObjectOutput, bool)) {
    let storage = S3Storage::connect(config).await.expect("connects");
    let options = PutOptions::default().with_content_type("application/zip");
    for bytes in [b"short".to_vec(), long()] {
        let key = key("x");
        let put = storage.put(&key, chunked(&bytes), &options).await;
        put.expect("stored");
        let found = seen(&key).await;
        assert_eq!(found.content_type(), Some("application/zip"));
        check(&found, bytes.len() > 5);
        assert!(
            read(&storage, &key).await.expect("there") == bytes,
            "other bytes"
        );
        storage.delete(&key).await.expect("gone");
    }
}

#[tokio::test]
#[ignore = "needs S3: testing/s3/up"]
async fn objects_are_encrypted_at_rest_where_asked() {
    let mut config = config();
    config.encryption = S3Encryption::Service;
    with(config, |found, _| {
        let encryption = found.server_side_encryption();
        assert_eq!(encryption, Some(&ServerSideEncryption::Aes256));
    })
    .await;
}

#[tokio::test]
#[ignore = "needs S3: testing/s3/up"]
async fn objects_have_the_storage_class_that_is_asked_for() {
    let mut config = config();
    config.storage_class = Some("STANDARD_IA".to_owned());
    with(config, |found, _| {
        assert_eq!(found.storage_class(), Some(&StorageClass::StandardIa));
    })
    .await;
}

#[tokio::test]
#[ignore = "needs S3: testing/s3/up"]
async fn checksums_are_kept_as_asked() {
    for checksums in [S3Checksums::Crc32, S3Checksums::Sha256, S3Checksums::Off] {
        let mut config = config();
        config.checksums = checksums;
        with(config, |found, long| {
            let (crc, sha) = (found.checksum_crc32(), found.checksum_sha256());
            match checksums {
                S3Checksums::Crc32 => assert!(crc.is_some(), "long: {long}"),
                S3Checksums::Sha256 => assert!(sha.is_some(), "long: {long}"),
                S3Checksums::Off => assert_eq!((crc, sha), (None, None)),
            }
        })
        .await;
    }
}

#[tokio::test]
#[ignore = "needs S3: testing/s3/up"]
async fn an_address_gives_an_object_without_a_key() {
    let (storage, key) = (storage().await, key("x"));
    let put = storage
        .put(&key, bytes_stream("for you"), &PutOptions::default())
        .await;
    put.expect("stored");
    let address = storage.presign_get(&key, Duration::from_secs(60)).await;
    let address = address.expect("an address");
    let answer = reqwest::get(&address).await.expect("an answer");
    assert_eq!(answer.status(), 200, "{address}");
    assert_eq!(answer.text().await.expect("a body"), "for you");
    let plain = address.split('?').next().expect("a path");
    assert_eq!(reqwest::get(plain).await.expect("an answer").status(), 403);
    // Of this object only.
    let other = address.replace(key.as_str(), crate::service::key("y").as_str());
    assert_eq!(reqwest::get(other).await.expect("an answer").status(), 403);
    storage.delete(&key).await.expect("gone");

    let error = storage
        .presign_get(&key, Duration::from_secs(604_801))
        .await;
    assert_eq!(
        error.expect_err("too long").reason(),
        "limit_presign_seconds"
    );
    assert!(storage.presign_get(&key, Duration::ZERO).await.is_err());
}

#[tokio::test]
#[ignore = "needs S3: testing/s3/up"]
async fn objects_of_others_are_not_listed() {
    use futures::TryStreamExt as _;
    let (storage, mine) = (storage().await, key("x"));
    let folder = mine
        .as_str()
        .strip_suffix('x')
        .expect("a folder")
        .to_owned();
    let put = storage
        .put(&mine, bytes_stream("x"), &PutOptions::default())
        .await;
    put.expect("stored");
    for other in ["with space", "plus+", "ü"] {
        let asked = client().put_object().bucket(given("SLESS_TEST_S3_BUCKET"));
        let asked = asked
            .key(format!("{folder}{other}"))
            .body(b"x".to_vec().into());
        asked.send().await.expect("stored");
    }
    let listed: Vec<_> = storage.list(&folder).try_collect().await.expect("a list");
    assert_eq!(listed.len(), 1, "{listed:?}");
    let none: Vec<_> = storage
        .list(&format!("{folder}with "))
        .try_collect()
        .await
        .expect("a list");
    assert_eq!(none, []);
    for other in ["with space", "plus+", "ü"] {
        let asked = client()
            .delete_object()
            .bucket(given("SLESS_TEST_S3_BUCKET"));
        asked
            .key(format!("{folder}{other}"))
            .send()
            .await
            .expect("gone");
    }
    storage.delete(&mine).await.expect("gone");
}

#[tokio::test]
#[ignore = "needs S3: testing/s3/up"]
async fn a_listing_longer_than_its_limit_is_refused_by_name() {
    use futures::TryStreamExt as _;
    let mut config = config();
    config.limits.list_objects = 1;
    let storage = S3Storage::connect(config).await.expect("connects");
    let first = key("a");
    let second = StorageKey::new(format!("{first}b")).expect("a key");
    for key in [&first, &second] {
        let put = storage
            .put(key, bytes_stream("x"), &PutOptions::default())
            .await;
        put.expect("stored");
    }
    let listed: sless_core::Result<Vec<_>> = storage.list(first.as_str()).try_collect().await;
    assert_eq!(listed.expect_err("two").reason(), "limit_list_objects");
    for key in [&first, &second] {
        storage.delete(key).await.expect("gone");
    }
}
