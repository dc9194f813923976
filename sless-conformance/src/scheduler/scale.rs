//! Off, more copies, and sleep.

use std::time::Duration;

use futures::future::join_all;
use sless_core::{ErrorKind, WorkloadPhase};

use super::{
    Case,
    case::{bytes_request, context},
};
use crate::{
    Fixture, Outcome,
    clause::{While as _, ensure, ensure_eq, refused},
    harness::{eventually, when},
};

pub(super) async fn no_replicas_is_off(case: &Case<'_>) -> Outcome {
    let (mut workload, invoker) = case.running(Fixture::Echo).await?;
    for _ in 0..2 {
        workload.replicas = 0;
        let off = case
            .applied(&workload, "stopped", |status| {
                Ok(status.phase == WorkloadPhase::Stopped)
            })
            .await?;
        ensure_eq!(
            off.ready_replicas,
            0,
            "how many copies answer when it is off"
        );
        ensure_eq!(off.serving, None, "what serves when it is off");
        let call = case.send(&invoker, bytes_request("a"), &context()).await;
        let error = refused(call, ErrorKind::Unavailable, "calling what is off")?;
        ensure!(
            error.reason() != "unavailable",
            "the error does not say why: {error}"
        );
        // The same invoker calls it when it is on again.
        workload.replicas = 1;
        case.ready(&workload).await?;
        let answer = case.send(&invoker, bytes_request("a"), &context()).await;
        ensure_eq!(
            &answer.while_("calling what is on again")?.body[..],
            b"a",
            "the answer"
        );
    }
    Ok(())
}

pub(super) async fn more_replicas_are_counted(case: &Case<'_>) -> Outcome {
    let (mut workload, invoker) = case.running(Fixture::Echo).await?;
    let many = case.scheduler().await?.capabilities().replicas;
    workload.replicas = 3;
    if !many {
        // What cannot be had is not claimed.
        match case.passing(case.scheduler().await?.apply(&workload)).await {
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            Err(error) => return Err(error.into()),
            Ok(_) => {
                let status = case.ready(&workload).await?;
                ensure_eq!(
                    status.ready_replicas,
                    1,
                    "copies of a backend that has one each"
                );
            }
        }
        return Ok(());
    }
    for replicas in [3, 1, 2] {
        workload.replicas = replicas;
        case.applied(&workload, "scaled", |status| {
            ensure_eq!(
                status.serving,
                Some(workload.revision()),
                "what serves while it scales"
            );
            Ok(status.ready_replicas == replicas && status.phase == WorkloadPhase::Ready)
        })
        .await?;
        let answer = case.send(&invoker, bytes_request("a"), &context()).await?;
        ensure_eq!(&answer.body[..], b"a", "the answer of {replicas} copies");
    }
    Ok(())
}

pub(super) async fn an_idle_function_sleeps_and_wakes(case: &Case<'_>) -> Outcome {
    let scheduler = case.scheduler().await?;
    let mut workload = case.workload(&case.function("f")?, Fixture::Echo).await?;
    workload.idle = Some(Duration::from_secs(1));
    case.ready(&workload).await?;
    let invoker = scheduler.invoker(&workload.function).await?;
    case.send(&invoker, bytes_request("a"), &context()).await?;
    if !scheduler.capabilities().sleeps {
        case.harness.pass(Duration::from_secs(2)).await;
        let status = scheduler.status(&workload.function).await?;
        ensure!(
            !status.asleep,
            "it sleeps, and its capabilities say that it does not"
        );
        return Ok(());
    }
    for _ in 0..2 {
        eventually!(case.harness, "an idle function sleeps", {
            let status = scheduler.status(&workload.function).await?;
            ensure_eq!(
                status.phase,
                WorkloadPhase::Ready,
                "the phase of an idle function"
            );
            ensure_eq!(
                status.serving,
                Some(workload.revision()),
                "what an idle function serves"
            );
            when(status.asleep, status)
        });
        // Several at once wake it once, and none is lost.
        let calls = join_all(
            (0..4).map(|_| async { case.send(&invoker, bytes_request("wake"), &context()).await }),
        );
        for answer in calls.await {
            let answer = answer.while_("calling what sleeps")?;
            ensure_eq!(
                &answer.body[..],
                b"wake",
                "the answer of a function that was asleep"
            );
        }
        let status = scheduler.status(&workload.function).await?;
        ensure!(
            !status.asleep,
            "it sleeps as soon as it has answered: {status:?}"
        );
    }
    Ok(())
}

pub(super) async fn a_function_that_may_not_sleep_stays_awake(case: &Case<'_>) -> Outcome {
    let (workload, invoker) = case.running(Fixture::Echo).await?;
    let copy = case.send(&invoker, bytes_request("a"), &context()).await?;
    case.harness.pass(Duration::from_secs(3)).await;
    let status = case.scheduler().await?.status(&workload.function).await?;
    ensure!(
        !status.asleep,
        "a function whose idle time is zero sleeps: {status:?}"
    );
    let again = case.send(&invoker, bytes_request("a"), &context()).await?;
    let name = "x-instance";
    ensure_eq!(
        again.header(name),
        copy.header(name),
        "the copy that answers after a while"
    );
    Ok(())
}

pub(super) async fn another_idle_time_is_no_revision(case: &Case<'_>) -> Outcome {
    let (mut workload, invoker) = case.running(Fixture::Echo).await?;
    let before = case.ready(&workload).await?;
    let copy = case.send(&invoker, bytes_request("a"), &context()).await?;
    for idle in [Some(Duration::from_secs(500)), None, Some(Duration::ZERO)] {
        workload.idle = idle;
        let after = case.ready(&workload).await?;
        ensure_eq!(
            after.serving,
            before.serving,
            "what serves with idle time {idle:?}"
        );
        let answer = case.send(&invoker, bytes_request("a"), &context()).await?;
        let name = "x-instance";
        ensure_eq!(
            answer.header(name),
            copy.header(name),
            "the copy with idle time {idle:?}"
        );
    }
    Ok(())
}
