//! What a crash leaves.

use super::{Case, failure::begin};
use crate::{
    Outcome,
    clause::{While as _, ensure, ensure_eq},
};

pub(super) async fn a_finished_build_survives_a_reopen(case: &Case<'_>) -> Outcome {
    let request = case.one(1).await?;
    let done = case.end(&request).await?;
    let artifact = case.built(&request).await?;
    let reads = case.contexts.reads();
    if !case.harness.reopen().await? {
        return Ok(());
    }
    ensure_eq!(
        case.builder().await?.ensure(&request).await?,
        done,
        "the build after a reopen"
    );
    ensure_eq!(
        case.contexts.reads(),
        reads,
        "how often the context was read"
    );
    ensure!(
        case.harness.keeps(&artifact).await?,
        "the artifact is not kept"
    );
    let receipt = case
        .builder()
        .await?
        .prune(&request.id.function, &[])
        .await?;
    ensure!(
        !receipt.removed.is_empty(),
        "the receipt of a build from before is empty"
    );
    ensure!(
        !case.harness.keeps(&artifact).await?,
        "the artifact is still kept"
    );
    Ok(())
}

pub(super) async fn a_build_that_was_cut_off_is_built_again(case: &Case<'_>) -> Outcome {
    let request = case.one(1).await?;
    let task = begin(case, &request).await?;
    // The call may hold the builder; a crash ends it, too.
    task.abort();
    // An error says that it was aborted, which is what is wanted.
    let _ = task.await;
    if !case.harness.reopen().await? {
        return Ok(());
    }
    case.contexts.release();
    let artifact = case
        .built(&request)
        .await
        .while_("building after a crash")?;
    ensure!(
        case.harness.keeps(&artifact).await?,
        "the artifact is not kept"
    );
    let other = case.one(1).await?;
    ensure_eq!(
        case.built(&other).await?.digest,
        artifact.digest,
        "the digest of the same content"
    );
    Ok(())
}
