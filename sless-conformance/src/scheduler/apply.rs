//! Applying.

use futures::StreamExt as _;
use serde_json::json;
use sless_core::{
    ArtifactKind, Change, ChangeStream, Ensured, ErrorKind, FunctionId, LogOptions, LogTarget,
    ObjectKey, WorkloadPhase, WorkloadStatus, reason,
};

use super::{
    Case, SchedulerHarness,
    case::{bytes_request, context},
};
use crate::{
    Fixture, Outcome, Violation,
    clause::{While as _, ensure, ensure_eq, refused},
    harness::eventually,
    unique,
};

/// Waits for a hint at this key.
pub(super) async fn hinted(
    harness: &dyn SchedulerHarness,
    changes: &mut ChangeStream,
    key: &ObjectKey,
) -> Outcome {
    eventually!(harness, format!("a hint at {key}"), {
        match futures::poll!(changes.next()) {
            std::task::Poll::Ready(Some(Change::All)) => Ok(()),
            std::task::Poll::Ready(Some(Change::Object(hinted))) if hinted == *key => Ok(()),
            std::task::Poll::Ready(None) => {
                return Err(Violation::new("the stream of hints ended"));
            }
            other => Err(format!("{other:?}")),
        }
    });
    Ok(())
}

pub(super) async fn an_applied_workload_answers(case: &Case<'_>) -> Outcome {
    let (workload, invoker) = case.running(Fixture::Echo).await?;
    let status = case.scheduler().await?.status(&workload.function).await?;
    let expected = WorkloadStatus::new(WorkloadPhase::Ready, Some(workload.revision()))
        .with_serving(Some(workload.revision()), 1);
    ensure_eq!(status, expected, "the status of one copy that answers");
    let answer = case
        .send(&invoker, bytes_request("hello"), &context())
        .await?;
    ensure_eq!(
        answer.status,
        http::StatusCode::OK,
        "the status of the answer"
    );
    ensure_eq!(&answer.body[..], b"hello", "the body of the answer");
    Ok(())
}

pub(super) async fn applying_again_changes_nothing(case: &Case<'_>) -> Outcome {
    let (mut workload, invoker) = case.running(Fixture::Echo).await?;
    let before = case.ready(&workload).await?;
    let answer = case.send(&invoker, bytes_request("a"), &context()).await?;
    let copy = answer.header("x-instance").to_owned();
    for _ in 0..5 {
        // The same code, built again later, is the same revision.
        workload.built_at += jiff::SignedDuration::from_secs(1);
        let applied = case
            .passing(case.scheduler().await?.apply(&workload))
            .await?;
        ensure_eq!(applied, before, "the status that another apply answers");
        let answer = case.send(&invoker, bytes_request("a"), &context()).await?;
        ensure_eq!(answer.header("x-instance"), copy, "the copy that answers");
    }
    Ok(())
}

pub(super) async fn what_was_never_applied_is_absent(case: &Case<'_>) -> Outcome {
    let (scheduler, function) = (case.scheduler().await?, case.function("never")?);
    let status = scheduler.status(&function).await?;
    ensure_eq!(
        status,
        WorkloadStatus::default(),
        "the status of what was never applied"
    );
    let invoker = scheduler.invoker(&function).await;
    refused(
        invoker,
        ErrorKind::NotFound,
        "an invoker of what was never applied",
    )?;
    let target = LogTarget::Function(function);
    let log = scheduler.logs(&target, &LogOptions::default()).await;
    refused(
        log,
        ErrorKind::NotFound,
        "the log of what was never applied",
    )?;
    Ok(())
}

pub(super) async fn an_artifact_of_another_kind_does_not_run(case: &Case<'_>) -> Outcome {
    let scheduler = case.scheduler().await?;
    let mut workload = case.workload(&case.function("f")?, Fixture::Echo).await?;
    let known = scheduler.capabilities().artifacts;
    ensure!(
        known.contains(&workload.artifact.kind),
        "it runs {known:?}, and was prepared another"
    );
    let kinds = [
        ArtifactKind::Memory,
        ArtifactKind::Folder,
        ArtifactKind::Image,
    ];
    for kind in kinds.into_iter().filter(|kind| !known.contains(kind)) {
        workload.artifact.kind = kind;
        match case.passing(scheduler.apply(&workload)).await {
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            Err(error) => return Err(error.into()),
            Ok(_) => {
                case.applied(&workload, "failed", |status| {
                    ensure!(
                        status.serving.is_none(),
                        "it serves what it cannot run: {status:?}"
                    );
                    Ok(status.phase == WorkloadPhase::Failed && status.failure.is_some())
                })
                .await?;
            }
        }
    }
    Ok(())
}

pub(super) async fn a_change_is_hinted_when_a_workload_moves_on(case: &Case<'_>) -> Outcome {
    let scheduler = case.scheduler().await?;
    let workload = case.workload(&case.function("f")?, Fixture::Echo).await?;
    let mut changes = scheduler.changes();
    case.ready(&workload).await?;
    hinted(case.harness, &mut changes, &workload.function.key()).await
}

pub(super) async fn the_function_sees_its_environment(case: &Case<'_>) -> Outcome {
    let mut workload = case.workload(&case.function("f")?, Fixture::Env).await?;
    let value = "a=b \"quoted\" 'ü' $HOME\nsecond line";
    workload
        .env
        .insert("FIXTURE_VALUE".to_owned(), value.to_owned());
    workload
        .env
        .insert("FIXTURE_EMPTY".to_owned(), String::new());
    case.ready(&workload).await?;
    let invoker = case.scheduler().await?.invoker(&workload.function).await?;
    let names = json!({ "names": ["FIXTURE_VALUE", "FIXTURE_EMPTY", "FIXTURE_NONE"] });
    let expected = json!({ "FIXTURE_VALUE": value, "FIXTURE_EMPTY": "", "FIXTURE_NONE": null });
    ensure_eq!(
        case.ask(&invoker, &names).await?,
        expected,
        "the environment"
    );
    Ok(())
}

pub(super) async fn a_namespace_is_made_once(case: &Case<'_>) -> Outcome {
    let namespace = unique::namespace()?;
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let (scheduler, namespace) = (case.scheduler().await?, namespace.clone());
        tasks.push(tokio::spawn(async move {
            scheduler.ensure_namespace(&namespace).await
        }));
    }
    let mut created = 0;
    for task in tasks {
        let answer = case
            .passing(task)
            .await
            .map_err(|error| Violation::new(error.to_string()))?;
        created += usize::from(answer.while_("ensuring a namespace")? == Ensured::Created);
    }
    ensure_eq!(
        created,
        1,
        "how many of 8 calls were told that they made it"
    );
    let again = case.scheduler().await?.ensure_namespace(&namespace).await?;
    ensure_eq!(again, Ensured::Exists, "the answer to a later call");
    Ok(())
}

pub(super) async fn workloads_come_back_after_a_reopen(case: &Case<'_>) -> Outcome {
    let (workload, invoker) = case.running(Fixture::Echo).await?;
    drop(invoker);
    if !case.harness.reopen().await? {
        return Ok(());
    }
    case.ready(&workload)
        .await
        .while_("applying after a reopen")?;
    let function: &FunctionId = &workload.function;
    let invoker = case.scheduler().await?.invoker(function).await?;
    let answer = case
        .send(&invoker, bytes_request("hello"), &context())
        .await?;
    ensure_eq!(&answer.body[..], b"hello", "the answer after a reopen");
    let receipt = case.removed(function).await?;
    ensure!(
        !receipt.removed.is_empty(),
        "the receipt of a workload from before is empty"
    );
    Ok(())
}

pub(super) async fn a_missing_namespace_is_named(case: &Case<'_>) -> Outcome {
    let scheduler = case.scheduler().await?;
    let function = case.function_in(&unique::namespace()?, "f")?;
    let workload = case.workload(&function, Fixture::Echo).await?;
    let applied = case.passing(scheduler.apply(&workload)).await;
    if applied.is_ok() {
        // A namespace needs no place here.
        return case.ready(&workload).await.map(drop);
    }
    let error = refused(applied, ErrorKind::NotFound, "applying without a namespace")?;
    ensure_eq!(error.reason(), reason::NAMESPACE_MISSING, "the reason");
    let status = scheduler.status(&function).await?;
    ensure_eq!(status, WorkloadStatus::default(), "the status after that");
    scheduler.ensure_namespace(&function.namespace).await?;
    case.ready(&workload)
        .await
        .while_("applying with a namespace")
        .map(drop)
}

pub(super) async fn an_overtaken_writer_is_refused(case: &Case<'_>) -> Outcome {
    let scheduler = case.scheduler().await?;
    let mut new = case.workload(&case.function("f")?, Fixture::EchoV2).await?;
    new.generation = 3;
    let before = case.ready(&new).await?;
    let mut old = case.workload(&new.function, Fixture::Echo).await?;
    old.generation = 2;
    for replicas in [1, 0] {
        old.replicas = replicas;
        let late = case.passing(scheduler.apply(&old)).await;
        refused(late, ErrorKind::Conflict, "applying an older generation")?;
    }
    let status = scheduler.status(&new.function).await?;
    ensure_eq!(
        status,
        before,
        "the status after an older generation was applied"
    );
    // The same generation may be applied again, with another artifact, too.
    old.generation = 3;
    old.replicas = 1;
    case.ready(&old)
        .await
        .while_("applying the same generation")?;
    Ok(())
}
