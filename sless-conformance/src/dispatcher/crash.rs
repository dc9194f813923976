//! What a crash leaves.

use std::time::Duration;

use sless_core::Disposition;

use super::{Case, case::letter_texts};
use crate::{
    Outcome,
    clause::{While as _, ensure, ensure_eq},
    harness::{eventually, when},
};

pub(super) async fn messages_survive_a_reopen(case: &Case<'_>) -> Outcome {
    let (waiting, retried) = (case.subscription()?, case.subscription()?);
    case.publish_all(&waiting, ["one", "two"].map(str::to_owned))
        .await?;
    let sink = case.sink(|_| {
        let reason = "not before the crash".to_owned();
        Disposition::Retry {
            after: Duration::from_secs(2),
            reason,
        }
    });
    case.apply(&retried, &sink).await?;
    case.publish_all(&retried, ["three".to_owned()]).await?;
    eventually!(case.harness, "an attempt has failed", {
        let calls = sink.calls().len();
        when(calls == 1 && sink.at_once() == 0, calls)
    });
    let handled = case.subscription()?;
    let done = case.handling();
    case.apply(&handled, &done).await?;
    case.publish_all(&handled, ["handled".to_owned()]).await?;
    case.bodies(&done, 1).await?;
    if !case.harness.reopen().await? {
        return Ok(());
    }
    let later = case.handling();
    for subscription in [&waiting, &retried, &handled] {
        case.apply(subscription, &later)
            .await
            .while_("applying after a reopen")?;
    }
    let found = case.bodies(&later, 3).await?;
    ensure_eq!(
        found,
        ["one", "three", "two"],
        "what was delivered after a reopen"
    );
    let third = later
        .calls()
        .into_iter()
        .find(|call| call.delivery.queue == retried.queue);
    let attempt = third.map_or(0, |call| call.delivery.attempt);
    ensure_eq!(attempt, 2, "the attempt of the one that had failed once");
    Ok(())
}

pub(super) async fn a_message_that_was_taken_comes_again(case: &Case<'_>) -> Outcome {
    let (subscription, sink) = (case.subscription()?, case.handling());
    sink.hold();
    case.apply(&subscription, &sink).await?;
    case.publish_all(&subscription, ["taken".to_owned()])
        .await?;
    eventually!(case.harness, "the call is under way", {
        let now = sink.at_once();
        when(now == 1, now)
    });
    if !case.harness.reopen().await? {
        sink.release();
        return Ok(());
    }
    let later = case.handling();
    case.apply(&subscription, &later)
        .await
        .while_("applying after a reopen")?;
    ensure_eq!(
        case.bodies(&later, 1).await?,
        ["taken"],
        "what was delivered after a reopen"
    );
    Ok(())
}

pub(super) async fn dead_letters_survive_a_reopen(case: &Case<'_>) -> Outcome {
    let subscription = case.subscription()?;
    let sink = case.sink(|_| Disposition::Dead {
        reason: "of no use".to_owned(),
    });
    case.apply(&subscription, &sink).await?;
    case.publish_all(&subscription, ["1", "2"].map(str::to_owned))
        .await?;
    let before = case.dead(&subscription.trigger, 2).await?;
    if !case.harness.reopen().await? {
        return Ok(());
    }
    let after = case
        .letters(&subscription.trigger, 10)
        .await
        .while_("after a reopen")?;
    ensure_eq!(after, before, "the letters after a reopen");
    ensure!(
        letter_texts(&after).len() == 2,
        "there are {} letters",
        after.len()
    );
    let (dispatcher, later) = (case.dispatcher().await?, case.handling());
    let all = sless_core::DeadLetterSelection::All;
    let count = case
        .passing(dispatcher.redrive(&subscription.trigger, &all))
        .await?;
    ensure_eq!(count, 2, "how many were redriven after a reopen");
    case.apply(&subscription, &later).await?;
    ensure_eq!(
        case.bodies(&later, 2).await?,
        ["1", "2"],
        "what was delivered after that"
    );
    Ok(())
}
