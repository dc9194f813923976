//! Builds that go well.

use std::collections::BTreeSet;

use futures::StreamExt as _;
use sless_core::{BuildStatus, Change};

use super::{Case, contexts::Source};
use crate::{
    Outcome, Violation,
    clause::{While as _, ensure, ensure_eq},
    harness::eventually,
};

pub(super) async fn a_build_ends_with_an_artifact(case: &Case<'_>) -> Outcome {
    let request = case.one(1).await?;
    let before = case.harness.clock().now();
    let BuildStatus::Succeeded { artifact, built_at } = case.end(&request).await? else {
        return Err(Violation::new("a plain source was not built"));
    };
    let kind = case.builder().await?.capabilities().artifacts;
    ensure_eq!(
        artifact.kind,
        kind,
        "the kind of the artifact, against the capabilities"
    );
    ensure!(
        !artifact.reference.is_empty(),
        "the artifact has no reference"
    );
    let age = built_at.duration_since(before).abs().as_secs();
    ensure!(
        age < 600,
        "built at {built_at}, and it was begun at {before}"
    );
    ensure!(
        case.harness.keeps(&artifact).await?,
        "the artifact is not kept"
    );
    Ok(())
}

pub(super) async fn the_same_build_is_not_built_twice(case: &Case<'_>) -> Outcome {
    let request = case.one(1).await?;
    let first = case.end(&request).await?;
    let reads = case.contexts.reads();
    for _ in 0..5 {
        let again = case.builder().await?.ensure(&request).await?;
        ensure_eq!(again, first, "the answer to another ensure");
    }
    ensure_eq!(
        case.contexts.reads(),
        reads,
        "how often the context was read"
    );
    Ok(())
}

pub(super) async fn parallel_ensures_build_once(case: &Case<'_>) -> Outcome {
    // What one build reads, to compare with.
    case.built(&case.one(1).await?).await?;
    let one = case.contexts.reads();
    let request = case.one(2).await?;
    case.contexts.hold();
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let (builder, request) = (case.builder().await?, request.clone());
        tasks.push(tokio::spawn(async move {
            builder.ensure(&request).await.map(drop)
        }));
    }
    eventually!(
        case.harness,
        "the build has begun or none reads the context",
        {
            let begun = case.contexts.waiting() > 0 || tasks.iter().all(|task| task.is_finished());
            crate::harness::when(begun, "no call ended and none reads")
        }
    );
    case.contexts.release();
    for task in tasks {
        task.await
            .map_err(|error| Violation::new(error.to_string()))?
            .while_("ensuring")?;
    }
    case.built(&request).await?;
    ensure_eq!(
        case.contexts.reads() - one,
        one,
        "how often the context was read in 8 ensures"
    );
    Ok(())
}

pub(super) async fn the_same_content_gives_the_same_artifact(case: &Case<'_>) -> Outcome {
    let (one, other) = (case.one(1).await?, case.one(1).await?);
    ensure!(one.id != other.id, "two functions have one build");
    let (one, other) = (case.built(&one).await?, case.built(&other).await?);
    ensure_eq!(other.digest, one.digest, "the digest of the same content");
    Ok(())
}

pub(super) async fn other_content_gives_another_artifact(case: &Case<'_>) -> Outcome {
    let function = case.function()?;
    let mut digests = BTreeSet::new();
    for number in 0..3 {
        let request = case.request(&function, Source::plain(number)).await?;
        digests.insert(case.built(&request).await?.digest);
    }
    ensure_eq!(digests.len(), 3, "how many digests three sources gave");
    Ok(())
}

pub(super) async fn a_change_is_hinted_when_a_build_moves_on(case: &Case<'_>) -> Outcome {
    let mut changes = case.builder().await?.changes();
    let request = case.one(1).await?;
    case.built(&request).await?;
    let key = request.id.function.key();
    eventually!(case.harness, format!("a hint at {key}"), {
        match futures::poll!(changes.next()) {
            std::task::Poll::Ready(Some(Change::All)) => Ok(()),
            std::task::Poll::Ready(Some(Change::Object(hinted))) if hinted == key => Ok(()),
            std::task::Poll::Ready(None) => {
                return Err(Violation::new("the stream of hints ended"));
            }
            other => Err(format!("{other:?}")),
        }
    });
    Ok(())
}
