//! Removing.

use futures::StreamExt as _;
use serde_json::json;
use sless_core::{ErrorKind, LogOptions, LogTarget, Receipt, WorkloadStatus};

use super::{
    Case,
    case::{bytes_request, context, event_request},
};
use crate::{
    Fixture, Outcome, Violation,
    clause::{While as _, ensure, ensure_eq, refused},
    harness::{eventually, when},
    held::Kept,
};

pub(super) async fn a_removed_function_is_gone(case: &Case<'_>) -> Outcome {
    let (workload, invoker) = case.running(Fixture::Echo).await?;
    let (scheduler, function) = (case.scheduler().await?, &workload.function);
    let receipt = case.removed(function).await?;
    ensure!(!receipt.removed.is_empty(), "the receipt is empty");
    let status = scheduler.status(function).await?;
    ensure_eq!(
        status,
        WorkloadStatus::default(),
        "the status of a removed function"
    );
    let call = case.send(&invoker, bytes_request("a"), &context()).await;
    refused(
        call,
        ErrorKind::NotFound,
        "a call of an invoker from before",
    )?;
    let again = scheduler.invoker(function).await.map(drop);
    refused(
        again,
        ErrorKind::NotFound,
        "an invoker of a removed function",
    )?;
    let target = LogTarget::Function(function.clone());
    let log = scheduler.logs(&target, &LogOptions::default()).await;
    refused(log, ErrorKind::NotFound, "the log of a removed function")?;
    Ok(())
}

pub(super) async fn removing_again_removes_nothing(case: &Case<'_>) -> Outcome {
    let scheduler = case.scheduler().await?;
    let never = scheduler.remove(&case.function("never")?).await?;
    ensure_eq!(
        never,
        Receipt::default(),
        "the receipt of what was never applied"
    );
    let (workload, _) = case.running(Fixture::Echo).await?;
    case.removed(&workload.function).await?;
    for _ in 0..2 {
        let again = case.removed(&workload.function).await?;
        ensure_eq!(
            again,
            Receipt::default(),
            "the receipt of what is removed already"
        );
    }
    Ok(())
}

pub(super) async fn what_is_in_flight_is_finished(case: &Case<'_>) -> Outcome {
    let (workload, invoker) = case.running(Fixture::Stream).await?;
    let (event, context) = (json!({ "chunks": 3, "ms": 300 }), context());
    let response = case
        .passing(invoker.invoke(event_request(&event), &context))
        .await?;
    let mut body = response.into_body().into_stream();
    let first = case.passing(body.next()).await;
    ensure!(
        matches!(first, Some(Ok(_))),
        "the stream began with {first:?}"
    );
    let rest = async {
        let mut rest = Vec::new();
        while let Some(chunk) = body.next().await {
            rest.extend_from_slice(&chunk.while_("reading while it is removed")?);
        }
        Ok::<_, Violation>(rest)
    };
    let scheduler = case.scheduler().await?;
    let remove = scheduler.remove(&workload.function);
    let (receipt, rest) = case.passing(async { futures::join!(remove, rest) }).await;
    ensure_eq!(
        &rest?[..],
        b"chunk 1\nchunk 2\n",
        "the rest of a response that was in flight"
    );
    ensure!(!receipt?.removed.is_empty(), "the receipt is empty");
    Ok(())
}

pub(super) async fn another_uid_is_another_function(case: &Case<'_>) -> Outcome {
    let scheduler = case.scheduler().await?;
    let (old, old_invoker) = case.running(Fixture::Echo).await?;
    case.removed(&old.function).await?;
    let (new, new_invoker) = case.running(Fixture::EchoV2).await?;
    ensure_eq!(new.function.name, old.function.name, "the name");
    ensure!(new.function.uid != old.function.uid, "the uid is the same");
    let status = scheduler.status(&old.function).await?;
    ensure_eq!(
        status,
        WorkloadStatus::default(),
        "the status of the old one"
    );
    let call = case
        .send(&old_invoker, bytes_request("a"), &context())
        .await;
    refused(call, ErrorKind::NotFound, "a call of the old one")?;
    // Whoever comes late to remove the old one does not remove the new one.
    let late = case.removed(&old.function).await?;
    ensure_eq!(late, Receipt::default(), "the receipt of a late remove");
    let answer = case
        .send(&new_invoker, bytes_request("a"), &context())
        .await;
    let answer = answer.while_("calling the new one")?;
    ensure_eq!(answer.header("x-fixture"), "echo-2", "what answers");
    Ok(())
}

pub(super) async fn what_is_made_is_held_until_it_is_removed(case: &Case<'_>) -> Outcome {
    let scheduler = case.scheduler().await?;
    let (workload, _) = case.running(Fixture::Echo).await?;
    let run = case.run(&json!({ "answer": 42 })).await?;
    case.ended(&run).await?;
    let (function, job) = (&workload.function, &run.job);
    let owners = [(function.key(), &function.uid), (job.key(), &job.uid)];
    for (key, uid) in &owners {
        let kept = Kept::of(scheduler.held(), key, uid).await?;
        ensure!(kept.is_told(), "nothing is held of {key}");
    }
    case.removed(function).await?;
    case.removed_job(job).await?;
    for (key, uid) in &owners {
        eventually!(case.harness, format!("nothing is held of {key}"), {
            let kept = Kept::of(scheduler.held(), key, uid).await?;
            when(kept.items.is_empty(), kept.items)
        });
    }
    Ok(())
}
