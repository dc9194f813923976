//! What is found out when a storage is connected.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use sless_core::{
    Clock, ErrorKind, GetOptions, PutOptions, Retry, Storage as _, SystemClock, bytes_stream,
};
use sless_s3::{S3Config, S3IfAbsent, S3Storage};

use crate::{
    proxy::{Act, Proxy, refusal},
    service::{client, config, given, key, storage},
};

/// The machine's clock, set wrongly.
#[derive(Debug)]
struct Wrong(SignedDuration);

#[async_trait]
impl Clock for Wrong {
    fn now(&self) -> Timestamp {
        SystemClock.now() + self.0
    }

    fn elapsed(&self) -> Duration {
        SystemClock.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        SystemClock.sleep(duration).await;
    }

    async fn wake_at(&self, instant: Timestamp) {
        SystemClock.wake_at(instant - self.0).await;
    }
}

#[tokio::test]
async fn settings_that_cannot_be_right_are_named() {
    let mut small = S3Config::new("b");
    small.limits.part_bytes = 1000;
    let mut large = S3Config::new("b");
    large.limits.object_bytes = 1 << 50;
    let mut none = S3Config::new("b");
    none.limits.parts_in_flight = 0;
    for (config, name) in [
        (S3Config::new(""), "bucket"),
        (
            S3Config::new("b").with_endpoint("s3.example.org"),
            "endpoint",
        ),
        (small, "part_bytes"),
        (large, "object_bytes"),
        (none, "parts_in_flight"),
    ] {
        let error = S3Storage::connect(config).await.expect_err(name);
        assert_eq!(error.reason(), "setting_invalid", "{error:?}");
        assert!(error.message().contains(name), "{error}");
    }
}

#[tokio::test]
async fn a_service_that_is_not_there_is_unavailable() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", taken.local_addr().expect("an address"));
    drop(taken);
    let mut config = S3Config::new("b")
        .with_endpoint(address)
        .with_keys("a", "s");
    config.patience.attempts = 1;
    let error = S3Storage::connect(config).await.expect_err("nobody");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert_eq!(error.retry(), Retry::Transient);
    assert_eq!(
        (error.operation(), error.backend()),
        ("storage.connect", "s3")
    );
    assert!(error.chain().contains("refused"), "{}", error.chain());
}

#[tokio::test]
#[ignore = "needs S3: testing/s3/up"]
async fn wrong_keys_are_told_from_keys_that_may_not() {
    let access_key = given("SLESS_TEST_S3_ACCESS_KEY");
    let secret_key = given("SLESS_TEST_S3_SECRET_KEY");
    for wrong in [
        config().with_keys(&access_key, "wrong"),
        config().with_keys("nobody", &secret_key),
    ] {
        let error = S3Storage::connect(wrong).await.expect_err("wrong keys");
        assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{error:?}");
        assert_eq!(
            (error.reason(), error.retry()),
            ("credentials_rejected", Retry::Never)
        );
        assert!(!error.chain().contains(&secret_key));
    }
    // These may read and nothing else: already the question what the service can do is refused.
    let mut reader = config().with_keys(given("SLESS_TEST_S3_READER_KEY"), &secret_key);
    let error = S3Storage::connect(reader.clone())
        .await
        .expect_err("no put");
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error:?}");
    reader.if_absent = S3IfAbsent::Yes;
    let reader = S3Storage::connect(reader).await.expect("connects");
    let put = reader
        .put(&key("x"), bytes_stream("x"), &PutOptions::default())
        .await;
    let error = put.expect_err("no put");
    assert_eq!(
        (error.kind(), error.reason(), error.retry()),
        (
            ErrorKind::PermissionDenied,
            "store_permission",
            Retry::Never
        )
    );
    assert!(reader.trouble().is_some());
    assert!(
        reader
            .head(&key("x"))
            .await
            .expect_err("nothing")
            .is_not_found()
    );
    assert_eq!(reader.trouble(), None, "it works again");
}

#[tokio::test]
#[ignore = "needs S3: testing/s3/up"]
async fn a_missing_bucket_is_no_missing_object() {
    let mut config = config();
    config.bucket = format!("sless-{}", uuid::Uuid::new_v4());
    let error = S3Storage::connect(config.clone()).await.expect_err("none");
    assert_eq!(error.reason(), "bucket_missing", "{error:?}");
    config.create_bucket = true;
    let storage = S3Storage::connect(config.clone()).await.expect("made");
    let again = S3Storage::connect(config.clone()).await.expect("there");
    let key = key("x");
    let put = storage
        .put(&key, bytes_stream("x"), &PutOptions::default())
        .await;
    put.expect("stored");
    again.delete(&key).await.expect("gone");

    let removed = client().delete_bucket().bucket(&config.bucket).send().await;
    removed.expect("removed");
    let found = [
        storage.get(&key, &GetOptions::default()).await.map(drop),
        storage.head(&key).await.map(drop),
        storage.delete(&key).await,
        storage
            .put(&key, bytes_stream("x"), &PutOptions::default())
            .await
            .map(drop),
        futures::TryStreamExt::try_collect::<Vec<_>>(storage.list(""))
            .await
            .map(drop),
    ];
    for found in found {
        let error = found.expect_err("no bucket");
        assert_eq!(
            (error.kind(), error.reason(), error.retry()),
            (ErrorKind::Unavailable, "bucket_missing", Retry::Never),
            "{error:?}"
        );
    }
}

#[tokio::test]
#[ignore = "needs S3: testing/s3/up"]
async fn a_clock_that_is_off_is_told_or_followed() {
    for minutes in [20, -20] {
        let clock = Arc::new(Wrong(SignedDuration::from_mins(minutes)));
        let mut config = config();
        config.patience.follow_service_clock = false;
        let connected = S3Storage::connect_with_clock(config.clone(), clock.clone()).await;
        let error = connected.expect_err("a wrong time");
        assert_eq!(
            (error.kind(), error.reason(), error.retry()),
            (ErrorKind::Unauthenticated, "clock_skew", Retry::Never),
            "{error:?}"
        );
        assert!(error.message().contains("GMT"), "the service's: {error}");
        config.patience.follow_service_clock = true;
        let connected = S3Storage::connect_with_clock(config, clock).await;
        let (storage, key) = (connected.expect("connects"), key("x"));
        let put = storage
            .put(&key, bytes_stream("x"), &PutOptions::default())
            .await;
        put.expect("stored");
        storage.delete(&key).await.expect("gone");
    }
}

#[tokio::test]
#[ignore = "needs S3: testing/s3/up"]
async fn whether_a_put_can_be_guarded_is_asked() {
    assert!(storage().await.capabilities().if_absent);
    // A service that does not know the field and stores all the same; one that says so.
    for unknown in [false, true] {
        let proxy = Proxy::start(move |asked| {
            if !asked.path.contains("sless-probe") || !asked.is_put() {
                Act::Pass
            } else if unknown {
                refusal(501, "NotImplemented")
            } else {
                Act::Answer(200, vec![("etag", "\"x\"")], String::new())
            }
        })
        .await;
        let storage = proxy.storage().await;
        assert!(!storage.capabilities().if_absent, "unknown: {unknown}");
        let guarded = PutOptions::default().if_absent();
        let put = storage.put(&key("x"), bytes_stream("x"), &guarded).await;
        assert_eq!(put.expect_err("refused").kind(), ErrorKind::Unsupported);
    }
    // One that guards puts, but not the end of an upload.
    let proxy = Proxy::start(|asked| match asked.is_complete() {
        true => Act::Answer(
            200,
            vec![],
            "<CompleteMultipartUploadResult><ETag>\"x\"</ETag></CompleteMultipartUploadResult>"
                .to_owned(),
        ),
        false => Act::Pass,
    })
    .await;
    assert!(!proxy.storage().await.capabilities().if_absent);
    assert!(proxy.count(|asked| asked.is_abort()) > 0);
    // What was asked with is gone.
    let asked = client()
        .list_objects_v2()
        .bucket(given("SLESS_TEST_S3_BUCKET"));
    let left = asked.prefix(",sless-probe").send().await.expect("a list");
    // Another test may be asking at this moment; a second look tells.
    if !left.contents().is_empty() {
        let old: Vec<_> = left
            .contents()
            .iter()
            .filter_map(|object| object.key())
            .collect();
        crate::service::until("removed", async || {
            let asked = client()
                .list_objects_v2()
                .bucket(given("SLESS_TEST_S3_BUCKET"));
            let now = asked.prefix(",sless-probe").send().await.expect("a list");
            let mut now = now.contents().iter().filter_map(|object| object.key());
            !now.any(|key| old.contains(&key))
        })
        .await;
    }
}
