//! Listings.

use futures::{StreamExt as _, TryStreamExt as _};
use sless_core::{PutOptions, bytes_stream};

use super::Case;
use crate::{
    Outcome, Violation,
    clause::{While as _, ensure, ensure_eq},
};

async fn put_all(case: &Case<'_>, keys: impl IntoIterator<Item = String>) -> Outcome {
    let storage = case.storage().await?;
    futures::stream::iter(keys)
        .map(Ok::<_, Violation>)
        .try_for_each_concurrent(16, |rest| {
            let storage = storage.clone();
            async move {
                let key = case.key(&rest)?;
                let body = bytes_stream(rest.clone());
                storage
                    .put(&key, body, &PutOptions::default())
                    .await
                    .while_("putting")?;
                Ok(())
            }
        })
        .await
}

pub(super) async fn a_prefix_is_text(case: &Case<'_>) -> Outcome {
    let keys = ["f/ab/1", "f/ab/2", "f/abc/1", "f/ac", "g/ab"];
    put_all(case, keys.map(str::to_owned)).await?;
    for (prefix, expected) in [
        ("", &keys[..]),
        ("f/", &keys[..4]),
        ("f", &keys[..4]),
        ("f/a", &keys[..4]),
        ("f/ab", &keys[..3]),
        ("f/ab/", &keys[..2]),
        ("f/ab/1", &keys[..1]),
        ("f/ab/1/", &[]),
        ("f/b", &[]),
        ("h", &[]),
    ] {
        ensure_eq!(
            case.listed(prefix).await?,
            expected,
            "what begins with {prefix:?}"
        );
    }
    Ok(())
}

pub(super) async fn a_listing_is_ordered_by_key(case: &Case<'_>) -> Outcome {
    // By the bytes of the whole key: `-` and `.` come before `/`, digits after it.
    let mut keys = [
        "a-b", "a.b", "a/b", "a/c", "a0", "a/b0", "B", "_", "a/-", "b", "A/x", "a/b-/c",
    ];
    put_all(case, keys.map(str::to_owned)).await?;
    keys.sort_unstable();
    ensure_eq!(case.listed("").await?, keys, "the order of a listing");
    ensure!(
        case.listed("a").await?.is_sorted(),
        "a part of it is not in order"
    );
    Ok(())
}

pub(super) async fn a_long_listing_is_complete(case: &Case<'_>) -> Outcome {
    // More than a page of the stores in use.
    const KEYS: usize = 1_100;
    let keys: Vec<String> = (0..KEYS)
        .map(|index| format!("f{}/{index:05}", index % 3))
        .collect();
    put_all(case, keys.clone()).await?;
    let mut expected = keys;
    expected.sort_unstable();
    let found = case.listed("f").await?;
    ensure_eq!(found.len(), KEYS, "how many keys are listed");
    ensure!(
        found == expected,
        "other keys are listed, or in another order"
    );
    Ok(())
}

pub(super) async fn a_listing_of_nothing_is_empty(case: &Case<'_>) -> Outcome {
    ensure_eq!(case.list("").await?, [], "a listing where nothing was put");
    let key = case.put("a/b", "x").await?;
    case.storage().await?.delete(&key).await?;
    ensure_eq!(case.list("").await?, [], "a listing where all is deleted");
    Ok(())
}
