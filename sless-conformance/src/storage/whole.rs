//! An object is there whole or not at all.

use bytes::Bytes;
use futures::{FutureExt as _, future::join_all};
use sless_core::{ErrorKind, GetOptions, PutOptions};

use super::{Case, stored};
use crate::{
    Outcome, Violation,
    bytes::{Made, chunked, failing, measure, pattern, stuck},
    clause::{While as _, ensure, ensure_eq, refused},
};

/// Bytes of a body that a storage may hold at once while it streams: the parts of a multipart
/// upload, several of them under way.
const STREAM_WINDOW: u64 = 20 << 20;

const CHUNK: usize = 64 << 10;

/// Keys of which one holds nothing and the other a body, to try the same on both.
async fn nothing_and_something(
    case: &Case<'_>,
) -> Result<[(sless_core::StorageKey, Option<Bytes>); 2], Violation> {
    let old = pattern(5_000, 1);
    let something = case.put("something", old.clone()).await?;
    Ok([(case.key("nothing")?, None), (something, Some(old))])
}

pub(super) async fn a_put_under_way_is_not_seen(case: &Case<'_>) -> Outcome {
    let storage = case.storage().await?;
    for (key, old) in nothing_and_something(case).await? {
        let (body, taken) = stuck(&pattern(300_000, 2), CHUNK);
        let options = PutOptions::default();
        let put = storage.put(&key, body, &options).fuse();
        futures::pin_mut!(put);
        let looked = async {
            // An error means that the put ended without reading its body to where it stops.
            taken
                .await
                .map_err(|_| Violation::new("the body was not read"))?;
            case.holds(&key, old.as_ref(), "while a put is under way")
                .await
        };
        tokio::select! {
            answer = &mut put => ensure!(false, "a put of a body without end answered {answer:?}"),
            looked = looked => looked?,
        }
    }
    Ok(())
}

pub(super) async fn a_put_whose_body_fails_changes_nothing(case: &Case<'_>) -> Outcome {
    let storage = case.storage().await?;
    for (key, old) in nothing_and_something(case).await? {
        for length in [0, 10, 300_000] {
            let body = failing(&pattern(length, 2), CHUNK);
            let put = storage.put(&key, body, &PutOptions::default()).await;
            refused(
                put,
                ErrorKind::Interrupted,
                "a put whose body is interrupted",
            )?;
            case.holds(&key, old.as_ref(), "after a put whose body failed")
                .await?;
        }
    }
    ensure_eq!(
        case.listed("").await?,
        ["something"],
        "what is listed after failed puts"
    );
    Ok(())
}

pub(super) async fn a_dropped_put_changes_nothing(case: &Case<'_>) -> Outcome {
    let storage = case.storage().await?;
    for (key, old) in nothing_and_something(case).await? {
        for length in [10, 300_000] {
            let (body, taken) = stuck(&pattern(length, 2), CHUNK);
            {
                let options = PutOptions::default();
                let put = storage.put(&key, body, &options);
                tokio::select! {
                    answer = put => ensure!(false, "a put of a body without end answered {answer:?}"),
                    taken = taken => taken.map_err(|_| Violation::new("the body was not read"))?,
                }
            }
            case.holds(&key, old.as_ref(), "after a put was dropped")
                .await?;
        }
    }
    ensure_eq!(
        case.listed("").await?,
        ["something"],
        "what is listed after dropped puts"
    );
    // What the dropped ones held is no obstacle to another put.
    let new = pattern(100, 3);
    let key = case.put("nothing", new.clone()).await?;
    case.holds(&key, Some(&new), "after a dropped put and another one")
        .await
}

pub(super) async fn a_reader_never_sees_a_mix_of_two_bodies(case: &Case<'_>) -> Outcome {
    const ROUNDS: usize = 40;
    let bodies = [pattern(200_000, 1), pattern(130_001, 2)];
    let key = case.put("a", bodies[0].clone()).await?;
    let storage = case.storage().await?;
    let (done, over) = tokio::sync::watch::channel(false);
    let writer = async {
        for round in 0..ROUNDS {
            let body = chunked(&bodies[round % 2], 16 << 10);
            storage
                .put(&key, body, &PutOptions::default())
                .await
                .while_("putting")?;
        }
        // The readers may have ended already, with what they found.
        let _ = done.send(true);
        Ok::<_, Violation>(())
    };
    let readers = join_all((0..4).map(|_| async {
        while !*over.borrow() {
            let fetched = storage
                .get(&key, &GetOptions::default())
                .await
                .while_("getting")?;
            let said = fetched.info.size;
            let body = measure(fetched.body).await.while_("reading the body")?;
            ensure_eq!(body.bytes, said, "bytes read, against those that get said");
            let whole = bodies
                .iter()
                .any(|known| stored(known).digest == body.digest);
            ensure!(whole, "{} bytes were read that nobody ever put", body.bytes);
            tokio::task::yield_now().await;
        }
        Ok::<_, Violation>(())
    }));
    let (written, read) = futures::join!(writer, readers);
    written?;
    read.into_iter().collect()
}

pub(super) async fn the_last_of_parallel_puts_is_whole(case: &Case<'_>) -> Outcome {
    let key = case.key("a")?;
    let bodies: Vec<Bytes> = (0..8)
        .map(|seed| pattern(50_000 + 1_000 * seed, seed as u64))
        .collect();
    let mut puts = Vec::new();
    for body in bodies.clone() {
        let (key, storage) = (key.clone(), case.storage().await?);
        puts.push(tokio::spawn(async move {
            let chunks = chunked(&body, 8 << 10);
            let answer = storage.put(&key, chunks, &PutOptions::default()).await?;
            Ok::<_, sless_core::Error>((answer, stored(&body)))
        }));
    }
    for put in puts {
        let put = put
            .await
            .map_err(|error| Violation::new(error.to_string()))?;
        let (answer, expected) = put.while_("putting")?;
        ensure_eq!(
            answer,
            expected,
            "the answer to one of several puts at once"
        );
    }
    let found = case.get(&key).await?;
    let winner = bodies.iter().find(|body| **body == found);
    ensure!(
        winner.is_some(),
        "{} bytes are stored that nobody put",
        found.len()
    );
    case.holds(&key, winner, "after several puts at once").await
}

pub(super) async fn large_bodies_stream(case: &Case<'_>) -> Outcome {
    const CHUNKS: u64 = 512;
    let (storage, key) = (case.storage().await?, case.key("large")?);
    let (made, body, digest) = Made::new(CHUNKS, CHUNK);
    let answer = storage.put(&key, body, &PutOptions::default()).await?;
    ensure_eq!(
        answer.size,
        CHUNKS * CHUNK as u64,
        "the size of a large body"
    );
    ensure_eq!(answer.digest, digest, "the digest of a large body");
    let fetched = storage.get(&key, &GetOptions::default()).await?;
    let read = measure(fetched.body).await?;
    ensure_eq!(read.bytes, answer.size, "bytes read of a large body");
    ensure_eq!(
        read.digest,
        digest,
        "the digest of a large body that was read"
    );
    if case.harness.keeps_bodies_outside() {
        let (most, peak) = (STREAM_WINDOW, made.peak());
        ensure!(
            peak <= most,
            "a put held {peak} bytes of its body at once, more than {most}"
        );
        let largest = read.largest_chunk as u64;
        ensure!(
            largest <= most,
            "a get gave {largest} bytes at once, more than {most}"
        );
    }
    Ok(())
}

pub(super) async fn stored_objects_survive_a_reopen(case: &Case<'_>) -> Outcome {
    let (kept, old, new) = (pattern(70_000, 1), pattern(10, 2), pattern(20, 3));
    let kept_key = case.put("kept", kept.clone()).await?;
    let replaced = case.put("replaced", old).await?;
    case.put("replaced", new.clone()).await?;
    let deleted = case.put("deleted", kept.clone()).await?;
    case.storage().await?.delete(&deleted).await?;
    let before = case.list("").await?;
    let under_way = case.key("under-way")?;
    {
        let (body, taken) = stuck(&kept, CHUNK);
        let (storage, options) = (case.storage().await?, PutOptions::default());
        let put = storage.put(&under_way, body, &options);
        tokio::select! {
            answer = put => ensure!(false, "a put of a body without end answered {answer:?}"),
            taken = taken => taken.map_err(|_| Violation::new("the body was not read"))?,
        }
    }
    if !case.harness.reopen().await? {
        return Ok(());
    }
    let when = "after a reopen";
    case.holds(&kept_key, Some(&kept), when).await?;
    case.holds(&replaced, Some(&new), when).await?;
    case.holds(&deleted, None, when).await?;
    case.holds(&under_way, None, when).await?;
    ensure_eq!(case.list("").await?, before, "what is listed {when}");
    Ok(())
}
