//! What was put is read back.

use bytes::Bytes;
use sless_core::{ErrorKind, GetOptions, PutOptions, StorageKey, bytes_stream};

use super::{Case, stored};
use crate::{
    Outcome,
    bytes::{chunked, pattern},
    clause::{ensure, ensure_eq, refused},
};

pub(super) async fn what_was_put_is_read_back(case: &Case<'_>) -> Outcome {
    let every_byte = Bytes::from_iter(0..=u8::MAX);
    let key = case.put("a", every_byte.clone()).await?;
    case.holds(&key, Some(&every_byte), "after a put").await
}

pub(super) async fn an_empty_body_is_an_object(case: &Case<'_>) -> Outcome {
    let key = case.put("empty", Bytes::new()).await?;
    case.holds(&key, Some(&Bytes::new()), "after a put of no bytes")
        .await
}

pub(super) async fn the_answer_to_a_put_has_the_size_and_digest_of_its_body(
    case: &Case<'_>,
) -> Outcome {
    let storage = case.storage().await?;
    let options = PutOptions::default().with_content_type("application/gzip");
    for length in [0, 1, 65_536, 300_001] {
        let (key, body) = (case.key(&format!("of-{length}"))?, pattern(length, 1));
        let answer = storage.put(&key, chunked(&body, 4_099), &options).await?;
        ensure_eq!(
            answer,
            stored(&body),
            "the answer to a put of {length} bytes in chunks"
        );
        case.holds(&key, Some(&body), "after a put in chunks")
            .await?;
    }
    Ok(())
}

pub(super) async fn a_put_replaces_what_was_there(case: &Case<'_>) -> Outcome {
    let (long, short) = (pattern(100_000, 1), pattern(10, 2));
    let key = case.put("a", long.clone()).await?;
    for body in [&short, &long, &Bytes::new(), &short] {
        case.put("a", body.clone()).await?;
        case.holds(&key, Some(body), "after another put").await?;
    }
    Ok(())
}

pub(super) async fn get_head_and_list_say_the_same_of_an_object(case: &Case<'_>) -> Outcome {
    let storage = case.storage().await?;
    let key = case.put("a", pattern(1_000, 1)).await?;
    let before = storage.head(&key).await?;
    case.put("a", pattern(2_000, 2)).await?;
    let head = storage.head(&key).await?;
    ensure_eq!(head.key, key, "the key that head gives");
    ensure_eq!(head.size, 2_000, "the size that head gives");
    ensure!(
        head.modified_at >= before.modified_at,
        "a later put was modified earlier"
    );
    let fetched = storage.get(&key, &GetOptions::default()).await?;
    ensure_eq!(fetched.info, head, "what get says of the object");
    ensure_eq!(case.list("").await?, [head], "what list says of the object");
    Ok(())
}

pub(super) async fn an_absent_object_is_not_found(case: &Case<'_>) -> Outcome {
    case.put("there/a", pattern(10, 1)).await?;
    for absent in ["absent", "there", "there/b", "there/a/b", "ther"] {
        case.holds(
            &case.key(absent)?,
            None,
            &format!("of {absent}, which was never put"),
        )
        .await?;
    }
    Ok(())
}

pub(super) async fn a_deleted_object_is_gone(case: &Case<'_>) -> Outcome {
    let storage = case.storage().await?;
    let (key, body) = (case.put("f/a", pattern(10, 1)).await?, pattern(20, 2));
    let other = case.put("f/b", body.clone()).await?;
    storage.delete(&key).await?;
    case.holds(&key, None, "after a delete").await?;
    case.holds(&other, Some(&body), "after the delete of its neighbour")
        .await?;
    case.put("f/a", body.clone()).await?;
    case.holds(&key, Some(&body), "after a delete and another put")
        .await
}

pub(super) async fn deleting_what_is_not_there_is_fine(case: &Case<'_>) -> Outcome {
    let storage = case.storage().await?;
    storage.delete(&case.key("never")?).await?;
    storage.delete(&case.key("never/below")?).await?;
    let key = case.put("a", pattern(10, 1)).await?;
    storage.delete(&key).await?;
    storage.delete(&key).await?;
    Ok(())
}

pub(super) async fn every_allowed_key_is_kept_as_it_is(case: &Case<'_>) -> Outcome {
    let storage = case.storage().await?;
    let rest = StorageKey::MAX - case.key("x")?.as_str().len() + 1;
    let segment = "s".repeat(StorageKey::SEGMENT_MAX);
    // Another letter: a key below another one is not promised.
    let part = format!("{}/", "l".repeat(StorageKey::SEGMENT_MAX));
    let longest: String = part.chars().cycle().take(rest - 1).chain(['e']).collect();
    let keys = [
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ/abcdefghijklmnopqrstuvwxyz/0123456789",
        "-_.-/_-/.a./a.../..b",
        "...",
        "-",
        "a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p",
        "con.tar.gz",
        &segment,
        &longest,
    ];
    for (index, rest) in keys.iter().enumerate() {
        let body = pattern(index + 1, 7);
        let key = case.put(rest, body.clone()).await?;
        case.holds(&key, Some(&body), &format!("with the key {key}"))
            .await?;
    }
    ensure_eq!(
        case.list("").await?.len(),
        keys.len(),
        "how many keys are listed"
    );
    // Beyond the length, there is no key that a storage could be asked for.
    refused(
        case.key(&"x".repeat(rest + 1)),
        ErrorKind::Invalid,
        "a key that is too long",
    )?;
    let answer = storage
        .put(
            &case.key("last")?,
            bytes_stream("a"),
            &PutOptions::default(),
        )
        .await?;
    ensure_eq!(answer.size, 1, "the size of one more object");
    Ok(())
}
