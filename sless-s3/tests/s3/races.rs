//! Answers that are lost, and writers that meet.

use sless_core::{ErrorKind, PutOptions, Storage as _, bytes_stream};

use crate::{
    proxy::{Act, Proxy, refusal},
    service::{chunked, key, long, read, uploads_of},
};

#[tokio::test]
#[ignore = "needs S3: testing/s3/up"]
async fn a_put_whose_answer_was_lost_knows_its_own_object() {
    let proxy = Proxy::start(|asked| {
        let mine = !asked.path.contains("sless-probe");
        match mine && asked.before == 0 && (asked.is_put() || asked.is_complete()) {
            true => Act::LoseAnswer,
            false => Act::Pass,
        }
    })
    .await;
    let storage = proxy.storage().await;
    for bytes in [b"short".to_vec(), long()] {
        for options in [PutOptions::default(), PutOptions::default().if_absent()] {
            let key = key("x");
            let put = storage.put(&key, chunked(&bytes), &options).await;
            assert_eq!(put.expect("stored").size, bytes.len() as u64, "{options:?}");
            assert_eq!(read(&storage, &key).await.expect("there"), bytes);
            assert_eq!(uploads_of(&key).await, 0);
            // And still tells another one's from its own.
            let guarded = PutOptions::default().if_absent();
            let again = storage.put(&key, chunked(&bytes), &guarded).await;
            assert_eq!(again.expect_err("there").kind(), ErrorKind::AlreadyExists);
            assert_eq!(uploads_of(&key).await, 0);
            storage.delete(&key).await.expect("gone");
        }
    }
}

#[tokio::test]
#[ignore = "needs S3: testing/s3/up"]
async fn a_race_of_guarded_puts_is_run_again() {
    let proxy = Proxy::start(|asked| {
        let mine = !asked.path.contains("sless-probe");
        let times = if asked.path.ends_with("/short") {
            2
        } else {
            99
        };
        match mine && asked.before < times && (asked.is_put() || asked.is_complete()) {
            true => refusal(409, "ConditionalRequestConflict"),
            false => Act::Pass,
        }
    })
    .await;
    let (storage, guarded) = (proxy.storage().await, PutOptions::default().if_absent());
    let short = key("short");
    let put = storage.put(&short, bytes_stream("x"), &guarded).await;
    put.expect("stored at the third time");
    storage.delete(&short).await.expect("gone");
    // The body of a long one is gone: the caller is told to come again.
    for (name, bytes) in [("always", b"x".to_vec()), ("long", long())] {
        let key = key(name);
        let put = storage.put(&key, chunked(&bytes), &guarded).await;
        assert_eq!(put.expect_err("a race").kind(), ErrorKind::Conflict);
        crate::service::nothing_is_at(&storage, &key).await;
    }
}
