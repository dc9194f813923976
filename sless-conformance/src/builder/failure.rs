//! Builds that fail, take too long or are called off.

use sless_core::{
    BuildRequest, BuildStatus, ErrorKind, LogOptions, PutOptions, StorageKey, bytes_stream, reason,
};

use super::{
    Case,
    contexts::{SHORT, unknown_digest},
};
use crate::{
    Outcome, Violation,
    bytes::pattern,
    clause::{While as _, ensure, ensure_eq, refused},
    harness::{eventually, when},
};

/// A request whose context was never stored.
async fn gone(case: &Case<'_>) -> Result<BuildRequest, Violation> {
    let mut request = case.one(1).await?;
    request.id.code = unknown_digest();
    request.context.key = StorageKey::new(format!("{}-gone", request.context.key))?;
    Ok(request)
}

pub(super) async fn a_context_that_is_gone_fails_the_build(case: &Case<'_>) -> Outcome {
    let request = gone(case).await?;
    case.failed(&request, reason::CONTEXT_UNREADABLE)
        .await
        .map(drop)
}

pub(super) async fn a_context_that_is_broken_fails_the_build(case: &Case<'_>) -> Outcome {
    let right = case.one(1).await?;
    let whole = right.context.open().await?;
    let whole = sless_core::collect_bytes(whole, "context_bytes", 1 << 20).await?;
    let broken = [
        bytes::Bytes::new(),
        pattern(5_000, 1),
        whole.slice(..whole.len() / 2),
    ];
    for (at, body) in broken.into_iter().enumerate() {
        let mut request = right.clone();
        request.id.function = case.function()?;
        request.context = case.contexts.context(case.contexts.put(body).await?);
        let failed = case.failed(&request, reason::CONTEXT_UNREADABLE).await;
        failed.while_(format_args!("broken context {at}"))?;
    }
    // A context with other files than the request names is not what was asked for.
    let mut request = right.clone();
    request.id.function = case.function()?;
    request.id.code = unknown_digest();
    case.failed(&request, reason::CONTEXT_UNREADABLE)
        .await
        .while_("a context of other code")?;
    case.built(&right).await.map(drop)
}

pub(super) async fn a_failed_build_stays_failed(case: &Case<'_>) -> Outcome {
    let mut request = case.one(1).await?;
    request.context = case
        .contexts
        .context(case.contexts.put(pattern(5_000, 1)).await?);
    let first = case.end(&request).await?;
    let BuildStatus::Failed { transient, .. } = &first else {
        return Err(Violation::new(format!(
            "a broken context was built: {first:?}"
        )));
    };
    ensure!(!transient, "a broken context is called a passing failure");
    let reads = case.contexts.reads();
    for _ in 0..3 {
        ensure_eq!(
            case.builder().await?.ensure(&request).await?,
            first,
            "another ensure"
        );
    }
    ensure_eq!(
        case.contexts.reads(),
        reads,
        "how often the context was read"
    );
    Ok(())
}

pub(super) async fn another_attempt_builds_anew(case: &Case<'_>) -> Outcome {
    let right = case.one(1).await?;
    let mut request = right.clone();
    request.context = case
        .contexts
        .context(case.contexts.put(pattern(5_000, 1)).await?);
    case.failed(&request, reason::CONTEXT_UNREADABLE).await?;
    let mut again = right;
    again.id.attempt = 1;
    case.built(&again).await?;
    let failed = case.builder().await?.ensure(&request).await?;
    ensure!(
        matches!(failed, BuildStatus::Failed { .. }),
        "the first attempt is now {failed:?}"
    );
    Ok(())
}

pub(super) async fn a_passing_failure_is_tried_again(case: &Case<'_>) -> Outcome {
    let request = case.one(1).await?;
    case.contexts.fail(2);
    let builder = case.builder().await?;
    let artifact = eventually!(case.harness, "a build succeeds once its storage is back", {
        match builder.ensure(&request).await {
            Ok(BuildStatus::Succeeded { artifact, .. }) => Ok(artifact),
            Ok(BuildStatus::Failed {
                failure,
                transient: false,
            }) => {
                return Err(Violation::new(format!(
                    "a storage that was away for a moment failed the build for good: {failure:?}"
                )));
            }
            other => Err(format!("{other:?}")),
        }
    });
    ensure!(
        case.harness.keeps(&artifact).await?,
        "the artifact is not kept"
    );
    Ok(())
}

pub(super) async fn a_build_that_takes_too_long_fails(case: &Case<'_>) -> Outcome {
    let request = case.one(1).await?.with_timeout(SHORT);
    case.contexts.hold();
    case.failed(&request, reason::BUILD_TIMEOUT).await?;
    // What took too long holds nothing up.
    case.contexts.release();
    case.built(&case.one(2).await?).await.map(drop)
}

/// Begins a build that cannot go on, and waits until it is under way.
pub(super) async fn begin(
    case: &Case<'_>,
    request: &BuildRequest,
) -> Result<tokio::task::JoinHandle<()>, Violation> {
    case.contexts.hold();
    let (builder, request, before) = (
        case.builder().await?,
        request.clone(),
        case.contexts.waiting(),
    );
    // A builder may do its work within the call; what it says then is of no matter.
    let task = tokio::spawn(async move { drop(builder.ensure(&request).await) });
    eventually!(case.harness, "a build reads its context", {
        let waiting = case.contexts.waiting();
        when(waiting > before, format!("{waiting} readers"))
    });
    Ok(task)
}

pub(super) async fn a_cancelled_build_begins_anew(case: &Case<'_>) -> Outcome {
    let request = case.one(1).await?;
    let task = begin(case, &request).await?;
    let builder = case.builder().await?;
    builder.cancel(&request.id).await.while_("cancelling")?;
    let log = builder.logs(&request.id, &LogOptions::default()).await;
    refused(log, ErrorKind::NotFound, "the log of a cancelled build")?;
    eventually!(case.harness, "the call that was under way ends", {
        when(task.is_finished(), "it goes on")
    });
    case.contexts.release();
    builder
        .cancel(&request.id)
        .await
        .while_("cancelling again")?;
    let reads = case.contexts.reads();
    case.built(&request).await?;
    ensure!(
        case.contexts.reads() > reads,
        "the next ensure did not begin anew"
    );
    Ok(())
}

pub(super) async fn cancelling_what_is_not_under_way_changes_nothing(case: &Case<'_>) -> Outcome {
    let builder = case.builder().await?;
    let request = case.one(1).await?;
    builder
        .cancel(&request.id)
        .await
        .while_("cancelling what never began")?;
    let done = case.end(&request).await?;
    let reads = case.contexts.reads();
    builder
        .cancel(&request.id)
        .await
        .while_("cancelling what is done")?;
    ensure_eq!(
        builder.ensure(&request).await?,
        done,
        "the build after it was cancelled"
    );
    ensure_eq!(
        case.contexts.reads(),
        reads,
        "how often the context was read"
    );
    // A failed one is done, too.
    let mut broken = case.one(2).await?;
    let storage = broken.context.storage.clone();
    storage
        .put(
            &broken.context.key,
            bytes_stream("no tar"),
            &PutOptions::default(),
        )
        .await?;
    broken.id.code = unknown_digest();
    let failed = case.end(&broken).await?;
    builder
        .cancel(&broken.id)
        .await
        .while_("cancelling what failed")?;
    ensure_eq!(
        builder.ensure(&broken).await?,
        failed,
        "the failed build after it was cancelled"
    );
    Ok(())
}
