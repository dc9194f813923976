//! What a service and a network do wrong, and what callers are told.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use sless_core::{
    Digest, Error, ErrorKind, GetOptions, PutOptions, Retry, Storage as _, bytes_stream,
};

use crate::{
    proxy::{Act, Proxy, refusal},
    service::{chunked, key, long, nothing_is_at, read, storage},
};

fn is(error: &Error, kind: ErrorKind, reason: &str, retry: Retry) {
    assert_eq!(
        (error.kind(), error.reason(), error.retry()),
        (kind, reason, retry),
        "{error:?}"
    );
    assert_eq!(error.backend(), "s3");
    assert!(!error.subject().is_empty(), "{error}");
}

#[tokio::test]
#[ignore = "needs S3: testing/s3/up"]
async fn a_busy_service_is_asked_again_and_then_told_of() {
    // Twice busy, then not.
    let proxy = Proxy::start(|asked| match asked.is_put() && asked.before < 2 {
        true => refusal(503, "SlowDown"),
        false => Act::Pass,
    })
    .await;
    let (storage, key) = (proxy.storage().await, key("x"));
    let put = storage
        .put(&key, bytes_stream("x"), &PutOptions::default())
        .await;
    put.expect("stored at last");
    assert_eq!(
        proxy.count(|asked| asked.is_put() && asked.path.ends_with("/x")),
        3
    );
    storage.delete(&key).await.expect("gone");

    // Always busy.
    let proxy = Proxy::start(|asked| match asked.path.ends_with("/busy") {
        true => refusal(503, "SlowDown"),
        false => Act::Pass,
    })
    .await;
    let mut config = proxy.config();
    config.patience.attempts = 3;
    let storage = sless_s3::S3Storage::connect(config)
        .await
        .expect("connects");
    let key = crate::service::key("busy");
    let put = storage
        .put(&key, bytes_stream("x"), &PutOptions::default())
        .await;
    let error = put.expect_err("busy");
    let retry = Retry::After(Duration::from_secs(3));
    is(&error, ErrorKind::Overloaded, "slow_down", retry);
    assert_eq!(proxy.count(|asked| asked.path.ends_with("/busy")), 3);
    assert!(storage.trouble().is_some());
}

#[tokio::test]
#[ignore = "needs S3: testing/s3/up"]
async fn a_body_cut_short_ends_in_interrupted() {
    for act in [Act::CutAnswer(1000), Act::StallAnswer(1000)] {
        let proxy = Proxy::start(move |asked| match asked.is_get() {
            true => act.clone(),
            false => Act::Pass,
        })
        .await;
        let mut config = proxy.config();
        config.patience.stall_ms = 500;
        let storage = sless_s3::S3Storage::connect(config)
            .await
            .expect("connects");
        let (key, bytes) = (key("x"), vec![7; 200_000]);
        let put = storage
            .put(&key, bytes_stream(bytes), &PutOptions::default())
            .await;
        put.expect("stored");
        let fetched = storage
            .get(&key, &GetOptions::default())
            .await
            .expect("found");
        assert_eq!(fetched.info.size, 200_000);
        let mut read = 0;
        let chunks = fetched.body.map_ok(|chunk| chunk.len());
        futures::pin_mut!(chunks);
        let error = loop {
            match chunks.next().await.expect("an error before the end") {
                Ok(size) => read += size,
                Err(error) => break error,
            }
        };
        assert_eq!(read, 1000, "what came is given");
        is(
            &error,
            ErrorKind::Interrupted,
            "interrupted",
            Retry::Transient,
        );
        storage.delete(&key).await.expect("gone");
    }
}

#[tokio::test]
#[ignore = "needs S3: testing/s3/up"]
async fn what_changes_on_its_way_is_found() {
    let proxy = Proxy::start(
        |asked| match (asked.path.ends_with("/out"), asked.is_get()) {
            (true, true) => Act::SpoilAnswer,
            (false, _) if asked.path.ends_with("/in") && asked.method == "PUT" => Act::SpoilRequest,
            _ => Act::Pass,
        },
    )
    .await;
    let storage = proxy.storage().await;
    // On its way out: in one part, and in several.
    for bytes in [vec![7; 1000], long()] {
        let out = key("out");
        let put = storage
            .put(&out, chunked(&bytes), &PutOptions::default())
            .await;
        put.expect("stored");
        let error = read(&storage, &out).await.expect_err("changed");
        is(
            &error,
            ErrorKind::Corrupt,
            "checksum_mismatch",
            Retry::Transient,
        );
        storage.delete(&out).await.expect("gone");
    }
    // On its way in.
    for bytes in [vec![7; 1000], long()] {
        let key = key("in");
        let put = storage
            .put(&key, chunked(&bytes), &PutOptions::default())
            .await;
        let error = put.expect_err("changed");
        is(
            &error,
            ErrorKind::Corrupt,
            "checksum_mismatch",
            Retry::Transient,
        );
        nothing_is_at(&storage, &key).await;
    }
}

#[tokio::test]
#[ignore = "needs S3: testing/s3/up"]
async fn parts_with_a_wrong_or_without_an_etag_make_no_object() {
    for (tag, kind, reason, retry) in [
        (
            Some("\"00000000000000000000000000000000\""),
            ErrorKind::Corrupt,
            "part_rejected",
            Retry::Transient,
        ),
        (None, ErrorKind::Corrupt, "answer_incomplete", Retry::Never),
    ] {
        let proxy = Proxy::start(move |asked| {
            // The last one to be sent, so that others are there already.
            match asked.is_part() && asked.query.contains("partNumber=3") {
                true => Act::ETag(tag),
                false => Act::Pass,
            }
        })
        .await;
        let (storage, key) = (proxy.storage().await, key("x"));
        let put = storage
            .put(&key, chunked(&long()), &PutOptions::default())
            .await;
        is(&put.expect_err("wrong"), kind, reason, retry);
        nothing_is_at(&storage, &key).await;
    }
}

#[tokio::test]
#[ignore = "needs S3: testing/s3/up"]
async fn a_service_that_does_not_answer_is_a_timeout() {
    let proxy = Proxy::start(|asked| match asked.path.ends_with("/x") {
        true => Act::Hang,
        false => Act::Pass,
    })
    .await;
    let mut config = proxy.config();
    (config.patience.request_ms, config.patience.attempts) = (300, 2);
    config.if_absent = sless_s3::S3IfAbsent::No;
    let storage = sless_s3::S3Storage::connect(config)
        .await
        .expect("connects");
    let error = storage.head(&key("x")).await.expect_err("no answer");
    is(&error, ErrorKind::Timeout, "timeout", Retry::Transient);
    assert!(error.message().contains("request_ms"), "{error}");
    assert_eq!(proxy.count(|asked| asked.path.ends_with("/x")), 2);
}

#[tokio::test]
#[ignore = "needs S3: testing/s3/up"]
async fn an_answer_that_is_none_of_s3_is_told() {
    let proxy = Proxy::start(|asked| match asked.path.rsplit('/').next() {
        Some("page") => Act::Answer(
            502,
            vec![("content-type", "text/html")],
            "<html><body><h1>Bad gateway</body></html>".to_owned(),
        ),
        _ => Act::Pass,
    })
    .await;
    let storage = proxy.storage().await;
    let error = read(&storage, &key("page")).await.expect_err("a page");
    is(
        &error,
        ErrorKind::Unavailable,
        "store_failed",
        Retry::Transient,
    );
}

#[tokio::test]
#[ignore = "needs S3: testing/s3/up"]
async fn a_long_body_comes_back_and_can_be_read_in_pieces() {
    let (storage, key, bytes) = (storage().await, key("x"), long());
    let put = storage
        .put(&key, chunked(&bytes), &PutOptions::default())
        .await;
    let stored = put.expect("stored");
    assert_eq!(
        (stored.size, stored.digest),
        (bytes.len() as u64, Digest::of(&bytes))
    );
    assert_eq!(read(&storage, &key).await.expect("there"), bytes);
    // Across the border of two parts.
    let range = 5_242_870..5_242_890;
    let piece = GetOptions::default().with_range(range.clone());
    let fetched = storage.get(&key, &piece).await.expect("there");
    assert_eq!(fetched.info.size, bytes.len() as u64);
    let piece = sless_core::collect_bytes(fetched.body, "test", 100).await;
    assert_eq!(piece.expect("a body"), &bytes[5_242_870..5_242_890]);
    storage.delete(&key).await.expect("gone");
}
