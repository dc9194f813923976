//! Uploads that do not come to their end leave nothing.

use std::time::Duration;

use futures::{StreamExt as _, stream};
use sless_core::{Error, ErrorKind, PutOptions, Storage as _, StorageKey};
use sless_s3::S3Storage;

use crate::{
    proxy::{Act, Asked, Proxy},
    service::{
        chunked, client, config, endless, key, long, nothing_is_at, storage, until, uploads_of,
    },
};

/// Puts, and drops the put when it has come so far.
async fn put_and_drop(
    storage: &S3Storage,
    key: &StorageKey,
    body: sless_core::ByteStream,
    so_far: impl AsyncFnMut() -> bool,
) {
    let options = PutOptions::default();
    let put = storage.put(key, body, &options);
    tokio::select! {
        answer = put => panic!("the put answered {answer:?}"),
        () = until("so far", so_far) => {}
    }
}

#[tokio::test]
#[ignore = "needs S3: testing/s3/up"]
async fn a_body_that_fails_leaves_no_parts() {
    let (storage, key) = (storage().await, key("x"));
    let broken = chunked(&long())
        .chain(stream::iter([Err(Error::internal("broken"))]))
        .boxed();
    let put = storage.put(&key, broken, &PutOptions::default()).await;
    assert_eq!(put.expect_err("broken").kind(), ErrorKind::Internal);
    nothing_is_at(&storage, &key).await;

    let mut config = config();
    config.limits.object_bytes = 10_000_000;
    let storage = S3Storage::connect(config).await.expect("connects");
    let put = storage
        .put(&key, chunked(&long()), &PutOptions::default())
        .await;
    let error = put.expect_err("too long");
    assert_eq!(error.reason(), "limit_object_bytes");
    nothing_is_at(&storage, &key).await;
}

#[tokio::test]
#[ignore = "needs S3: testing/s3/up"]
async fn a_put_dropped_between_parts_leaves_nothing() {
    let (storage, key) = (storage().await, key("x"));
    put_and_drop(&storage, &key, endless(&long()), async || {
        uploads_of(&key).await == 1
    })
    .await;
    storage.shutdown().await;
    nothing_is_at(&storage, &key).await;
    // The storage can be used further.
    let put = storage
        .put(&key, chunked(&long()), &PutOptions::default())
        .await;
    put.expect("stored");
    storage.delete(&key).await.expect("gone");
}

#[tokio::test]
#[ignore = "needs S3: testing/s3/up"]
async fn a_put_dropped_while_a_request_is_under_way_leaves_nothing() {
    type Meant = fn(&Asked) -> bool;
    let stages: [(&str, Meant); 3] = [
        ("begin", Asked::is_create),
        ("part", |asked| {
            asked.is_part() && asked.query.contains("partNumber=2")
        }),
        ("complete", Asked::is_complete),
    ];
    for (name, is_stage) in stages {
        let (open, gate) = tokio::sync::watch::channel(false);
        let proxy = Proxy::start(move |asked| {
            let mine = !asked.path.contains("sless-probe");
            match mine && is_stage(asked) {
                true => Act::Wait(gate.clone()),
                false => Act::Pass,
            }
        })
        .await;
        let (storage, key) = (proxy.storage().await, key(name));
        let at_stage = |asked: &Asked| asked.path.ends_with(name) && is_stage(asked);
        put_and_drop(&storage, &key, chunked(&long()), async || {
            proxy.count(at_stage) > 0
        })
        .await;
        open.send(true).expect("the proxy waits");
        storage.shutdown().await;
        nothing_is_at(&storage, &key).await;
    }
}

#[tokio::test]
#[ignore = "needs S3: testing/s3/up"]
async fn uploads_of_a_killed_process_are_found_later() {
    let mut config = config();
    config.bucket = format!("sless-{}", uuid::Uuid::new_v4());
    config.create_bucket = true;
    let bucket = config.bucket.clone();
    let storage = S3Storage::connect(config).await.expect("connects");
    // As one leaves them, and one that another program has begun.
    let (mine, other) = (key("x"), ",other/program");
    for key in [mine.as_str(), mine.as_str(), other] {
        let begun = client().create_multipart_upload();
        let begun = begun.bucket(&bucket).key(key).send().await.expect("begun");
        let part = client().upload_part().bucket(&bucket).key(key);
        let part = part.upload_id(begun.upload_id().expect("an id"));
        let part = part.part_number(1).body(b"part".to_vec().into());
        part.send().await.expect("sent");
    }
    let count = async || {
        let asked = client().list_multipart_uploads().bucket(&bucket);
        asked.send().await.expect("a list").uploads().len()
    };
    assert_eq!(count().await, 3);
    let aborted = storage
        .abort_stale_uploads("", Duration::from_secs(3600))
        .await;
    assert_eq!(aborted.expect("asked"), 0, "they are too young");
    let aborted = storage.abort_stale_uploads("tast", Duration::ZERO).await;
    assert_eq!(aborted.expect("asked"), 0, "they begin otherwise");
    let aborted = storage.abort_stale_uploads("", Duration::ZERO).await;
    assert_eq!(aborted.expect("aborted"), 2);
    assert_eq!(count().await, 1, "another program's");
    let removed = client().delete_bucket().bucket(&bucket).send().await;
    removed.expect("removed");
}

#[tokio::test]
#[ignore = "needs S3: testing/s3/up"]
async fn dropped_uploads_beyond_the_limit_are_left_and_said() {
    let mut config = config();
    config.limits.dropped_uploads = 0;
    let storage = S3Storage::connect(config).await.expect("connects");
    let key = key("x");
    put_and_drop(&storage, &key, endless(&long()), async || {
        uploads_of(&key).await == 1
    })
    .await;
    storage.shutdown().await;
    assert_eq!(uploads_of(&key).await, 1, "it is left");
    assert!(
        storage
            .head(&key)
            .await
            .expect_err("nothing")
            .is_not_found()
    );
    let bucket = crate::service::given("SLESS_TEST_S3_BUCKET");
    let asked = client().list_multipart_uploads().bucket(&bucket);
    let found = asked.prefix(key.as_str()).send().await.expect("a list");
    for upload in found.uploads() {
        let asked = client().abort_multipart_upload().bucket(&bucket);
        let asked = asked
            .key(key.as_str())
            .set_upload_id(upload.upload_id.clone());
        asked.send().await.expect("aborted");
    }
}
