//! Removing what is not used any more.

use sless_core::{ErrorKind, LogOptions, Receipt};

use super::{Case, contexts::Source, failure::begin};
use crate::{
    Outcome,
    clause::{While as _, ensure, ensure_eq, refused},
    harness::{eventually, when},
    held::Kept,
};

pub(super) async fn builds_that_are_not_kept_are_removed(case: &Case<'_>) -> Outcome {
    let (builder, function) = (case.builder().await?, case.function()?);
    let mut requests = Vec::new();
    let mut artifacts = Vec::new();
    for number in 0..3 {
        let request = case.request(&function, Source::plain(number)).await?;
        artifacts.push(case.built(&request).await?);
        requests.push(request);
    }
    let kept = case.end(&requests[2]).await?;
    let receipt = builder
        .prune(&function, std::slice::from_ref(&requests[2].id))
        .await?;
    ensure!(
        !receipt.removed.is_empty(),
        "the receipt of two builds is empty"
    );
    for gone in 0..2 {
        ensure!(
            !case.harness.keeps(&artifacts[gone]).await?,
            "artifact {gone} is still kept"
        );
        let log = builder
            .logs(&requests[gone].id, &LogOptions::default())
            .await;
        refused(log, ErrorKind::NotFound, "the log of a pruned build")?;
    }
    ensure!(
        case.harness.keeps(&artifacts[2]).await?,
        "the artifact that was to be kept is gone"
    );
    ensure_eq!(
        builder.ensure(&requests[2]).await?,
        kept,
        "the build that was kept"
    );
    // What was forgotten can be built again.
    let again = case.built(&requests[0]).await?;
    ensure_eq!(
        again.digest,
        artifacts[0].digest,
        "the digest of a build that came again"
    );
    ensure!(
        case.harness.keeps(&again).await?,
        "an artifact that was built again is not kept"
    );
    Ok(())
}

pub(super) async fn pruning_again_removes_nothing(case: &Case<'_>) -> Outcome {
    let (builder, function) = (case.builder().await?, case.function()?);
    let none = builder.prune(&function, &[]).await?;
    ensure_eq!(
        none,
        Receipt::default(),
        "the receipt where nothing was ever built"
    );
    let request = case.request(&function, Source::plain(1)).await?;
    let artifact = case.built(&request).await?;
    let kept = builder
        .prune(&function, std::slice::from_ref(&request.id))
        .await?;
    ensure_eq!(kept, Receipt::default(), "the receipt where all is kept");
    let all = builder.prune(&function, &[]).await?;
    ensure!(
        !all.removed.is_empty(),
        "the receipt of a removed build is empty"
    );
    ensure!(
        !case.harness.keeps(&artifact).await?,
        "the artifact is still kept"
    );
    let again = builder.prune(&function, &[]).await?;
    ensure_eq!(again, Receipt::default(), "the receipt of a second prune");
    Ok(())
}

pub(super) async fn a_shared_artifact_stays_while_it_is_used(case: &Case<'_>) -> Outcome {
    let (builder, one, other) = (case.builder().await?, case.function()?, case.function()?);
    let first = case.request(&one, Source::plain(1)).await?;
    let second = case.request(&other, Source::plain(1)).await?;
    case.built(&first).await?;
    let done = case.end(&second).await?;
    let artifact = case.built(&second).await?;
    builder.prune(&one, &[]).await?;
    ensure!(
        case.harness.keeps(&artifact).await?,
        "an artifact went that another function uses"
    );
    ensure_eq!(
        builder.ensure(&second).await?,
        done,
        "the build of the other function"
    );
    builder.prune(&other, &[]).await?;
    ensure!(
        !case.harness.keeps(&artifact).await?,
        "an artifact stays that nobody uses"
    );
    Ok(())
}

pub(super) async fn pruning_ends_what_is_under_way(case: &Case<'_>) -> Outcome {
    let request = case.one(1).await?;
    let task = begin(case, &request).await?;
    let builder = case.builder().await?;
    builder
        .prune(&request.id.function, &[])
        .await
        .while_("pruning")?;
    eventually!(case.harness, "the call that was under way ends", {
        when(task.is_finished(), "it goes on")
    });
    let log = builder.logs(&request.id, &LogOptions::default()).await;
    refused(
        log,
        ErrorKind::NotFound,
        "the log of a build that was pruned under way",
    )?;
    case.contexts.release();
    case.built(&request).await.map(drop)
}

pub(super) async fn what_is_built_is_held_until_it_is_pruned(case: &Case<'_>) -> Outcome {
    let builder = case.builder().await?;
    let (first, second) = (case.one(1).await?, case.one(2).await?);
    case.built(&first).await?;
    case.built(&second).await?;
    let (gone, stays) = (&first.id.function, &second.id.function);
    for function in [gone, stays] {
        let kept = Kept::of(builder.held(), &function.key(), &function.uid).await?;
        ensure!(kept.is_told(), "nothing is held of {function}");
    }
    builder.prune(gone, &[]).await.while_("pruning")?;
    let kept = Kept::of(builder.held(), &gone.key(), &gone.uid).await?;
    ensure_eq!(kept.items, [], "what is held of a function that was pruned");
    let kept = Kept::of(builder.held(), &stays.key(), &stays.uid).await?;
    ensure!(kept.is_told(), "nothing is held of {stays} any more");
    Ok(())
}
