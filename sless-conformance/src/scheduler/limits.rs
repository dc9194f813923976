//! Times, numbers and ends.

use std::time::Duration;

use futures::{StreamExt as _, future::join_all};
use serde_json::json;
use sless_core::{ErrorKind, Retry};

use super::{
    Case,
    case::{context, context_of, event_request},
};
use crate::{
    Fixture, Outcome,
    clause::{While as _, ensure, ensure_eq, refused},
};

const LONG: u64 = 3_000;

pub(super) async fn a_call_ends_at_its_timeout(case: &Case<'_>) -> Outcome {
    let (_, invoker) = case.running(Fixture::Sleep).await?;
    let clock = case.harness.clock();
    for _ in 0..2 {
        let begun = clock.elapsed();
        let short = context_of(Duration::from_millis(500));
        let call = case
            .send(&invoker, event_request(&json!({ "ms": 60_000 })), &short)
            .await;
        let took = clock.elapsed() - begun;
        refused(
            call,
            ErrorKind::Timeout,
            "a call that takes longer than it may",
        )?;
        ensure!(
            took >= Duration::from_millis(400),
            "it ended after {took:?}, before its time"
        );
        ensure!(
            took < Duration::from_secs(15),
            "it ended after {took:?} only"
        );
        // The next one does not wait for the minute that the last one asked for.
        let next = case.ask(&invoker, &json!({ "ms": 1 })).await;
        ensure_eq!(
            next.while_("calling after a timeout")?["at_once"],
            1,
            "calls seen at once"
        );
    }
    Ok(())
}

pub(super) async fn waiting_counts_against_the_timeout(case: &Case<'_>) -> Outcome {
    let (_, invoker) = case.running(Fixture::Stream).await?;
    // The head of its response says that the first call runs.
    let (event, first_context) = (json!({ "chunks": 2, "ms": LONG }), context());
    let first = case
        .passing(invoker.invoke(event_request(&event), &first_context))
        .await?;
    let mut body = first.into_body().into_stream();
    ensure!(
        matches!(case.passing(body.next()).await, Some(Ok(_))),
        "the first call gives nothing"
    );
    let short = context_of(Duration::from_millis(300));
    let second = case
        .send(&invoker, event_request(&json!({ "chunks": 1 })), &short)
        .await;
    refused(
        second,
        ErrorKind::Timeout,
        "a call that waits for longer than it may take",
    )?;
    let rest = case.passing(body.next()).await;
    ensure!(
        matches!(rest, Some(Ok(_))),
        "the call that was waited for goes on with {rest:?}"
    );
    Ok(())
}

pub(super) async fn one_copy_takes_as_many_calls_as_it_may(case: &Case<'_>) -> Outcome {
    const MS: u64 = 300;
    for concurrency in [1, 4] {
        let mut workload = case.workload(&case.function("f")?, Fixture::Sleep).await?;
        workload.concurrency = concurrency;
        case.ready(&workload).await?;
        let invoker = case.scheduler().await?.invoker(&workload.function).await?;
        let clock = case.harness.clock();
        let begun = clock.elapsed();
        let event = json!({ "ms": MS });
        let answers = join_all((0..4).map(|_| case.ask(&invoker, &event))).await;
        let took = clock.elapsed() - begun;
        let mut most = 0;
        for answer in answers {
            most = most.max(answer?["at_once"].as_u64().unwrap_or(0));
        }
        if concurrency == 1 {
            ensure_eq!(
                most,
                1,
                "calls that one copy saw at once, where one is allowed"
            );
            let least = Duration::from_millis(4 * MS * 9 / 10);
            ensure!(
                took >= least,
                "four calls of {MS} ms took {took:?}: more than one at once"
            );
        } else {
            ensure!(
                most > 1,
                "one copy that may take {concurrency} calls at once took one"
            );
        }
    }
    Ok(())
}

pub(super) async fn too_many_calls_are_told_to_come_again(case: &Case<'_>) -> Outcome {
    let (_, invoker) = case.running(Fixture::Sleep).await?;
    let most = case.harness.overflow();
    let event = json!({ "ms": LONG });
    let calls = join_all((0..most).map(|_| {
        let (invoker, event) = (&invoker, &event);
        let short = context_of(Duration::from_secs(2));
        async move { case.send(invoker, event_request(event), &short).await }
    }));
    let mut refusals = 0;
    for answer in calls.await {
        match answer {
            Err(error) if error.kind() == ErrorKind::Overloaded => {
                let Retry::After(after) = error.retry() else {
                    ensure!(false, "it does not say when to come again: {error:?}");
                    continue;
                };
                ensure!(!after.is_zero(), "it says to come again at once");
                refusals += 1;
            }
            Err(error) if error.kind() == ErrorKind::Timeout => {}
            Err(error) => return Err(error).while_("one of too many calls"),
            Ok(answer) => ensure!(answer.status.is_success(), "one answer is {answer:?}"),
        }
    }
    ensure!(refusals > 0, "none of {most} calls at once was refused");
    let next = case.ask(&invoker, &json!({ "ms": 1 })).await;
    ensure_eq!(
        next.while_("calling after too many calls")?["at_once"],
        1,
        "calls seen at once"
    );
    Ok(())
}

pub(super) async fn a_process_that_ends_fails_its_call_only(case: &Case<'_>) -> Outcome {
    let function = case.function("f")?;
    let Some(workload) = case.optional_workload(&function, Fixture::Exit).await? else {
        return Ok(());
    };
    case.ready(&workload).await?;
    let invoker = case.scheduler().await?.invoker(&function).await?;
    for _ in 0..2 {
        ensure_eq!(
            case.ask(&invoker, &json!({})).await?,
            "alive",
            "the answer before"
        );
        let call = case.post(&invoker, &json!({ "exit": true })).await;
        refused(
            call,
            ErrorKind::Interrupted,
            "a call during which the process ends",
        )?;
        let next = case.ask(&invoker, &json!({})).await;
        ensure_eq!(
            next.while_("the call after that")?,
            "alive",
            "the answer after"
        );
    }
    Ok(())
}
