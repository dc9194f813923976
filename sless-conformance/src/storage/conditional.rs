//! Puts that only go where nothing is.

use sless_core::{ErrorKind, PutOptions};

use super::{Case, stored};
use crate::{
    Outcome, Violation,
    bytes::{chunked, pattern},
    clause::{ensure, ensure_eq, refused},
};

/// Where the backend cannot promise it: a refusal, and nothing stored. Answers whether it can.
async fn promised(case: &Case<'_>) -> Result<bool, Violation> {
    let storage = case.storage().await?;
    if storage.capabilities().if_absent {
        return Ok(true);
    }
    let key = case.key("unsupported")?;
    let body = chunked(&pattern(10, 1), 10);
    let put = storage
        .put(&key, body, &PutOptions::default().if_absent())
        .await;
    refused(
        put,
        ErrorKind::Unsupported,
        "a put that the capabilities rule out",
    )?;
    case.holds(&key, None, "after a put that is not supported")
        .await?;
    Ok(false)
}

pub(super) async fn if_absent_stores_where_nothing_is(case: &Case<'_>) -> Outcome {
    if !promised(case).await? {
        return Ok(());
    }
    let (storage, key, body) = (case.storage().await?, case.key("a")?, pattern(100, 1));
    for round in ["a first put", "a put after a delete"] {
        let options = PutOptions::default().if_absent();
        let answer = storage.put(&key, chunked(&body, 10), &options).await?;
        ensure_eq!(answer, stored(&body), "the answer to {round}");
        case.holds(&key, Some(&body), round).await?;
        storage.delete(&key).await?;
    }
    Ok(())
}

pub(super) async fn if_absent_refuses_where_something_is(case: &Case<'_>) -> Outcome {
    if !promised(case).await? {
        return Ok(());
    }
    let (storage, body) = (case.storage().await?, pattern(100, 1));
    let key = case.put("a", body.clone()).await?;
    let options = PutOptions::default().if_absent();
    for other in [pattern(50, 2), body.clone()] {
        let put = storage.put(&key, chunked(&other, 10), &options).await;
        refused(put, ErrorKind::AlreadyExists, "a second put")?;
        case.holds(&key, Some(&body), "after a second put was refused")
            .await?;
    }
    Ok(())
}

pub(super) async fn if_absent_has_one_winner(case: &Case<'_>) -> Outcome {
    const WRITERS: u64 = 16;
    if !promised(case).await? {
        return Ok(());
    }
    for round in 0..4 {
        let key = case.key(&format!("round-{round}"))?;
        let mut puts = Vec::new();
        for seed in 0..WRITERS {
            let (storage, key) = (case.storage().await?, key.clone());
            puts.push(tokio::spawn(async move {
                let body = chunked(&pattern(20_000, seed), 4_000);
                (
                    seed,
                    storage
                        .put(&key, body, &PutOptions::default().if_absent())
                        .await,
                )
            }));
        }
        let mut winners = Vec::new();
        for put in puts {
            match put
                .await
                .map_err(|error| Violation::new(error.to_string()))?
            {
                (seed, Ok(_)) => winners.push(seed),
                (_, refusal) => {
                    refused(refusal, ErrorKind::AlreadyExists, "a put that lost")?;
                }
            }
        }
        ensure!(
            winners.len() == 1,
            "{} of {WRITERS} writers were told that they won",
            winners.len()
        );
        let body = pattern(20_000, winners[0]);
        case.holds(&key, Some(&body), "what the winner put").await?;
    }
    Ok(())
}
