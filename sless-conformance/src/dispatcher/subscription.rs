//! Subscriptions.

use std::time::Duration;

use futures::StreamExt as _;
use sless_core::{Change, Disposition, Receipt};

use super::{
    Case,
    case::{message, texts},
};
use crate::{
    Outcome, Violation,
    clause::{While as _, ensure, ensure_eq},
    harness::{eventually, when},
    held::Kept,
};

pub(super) async fn a_subscription_has_one_consumer(case: &Case<'_>) -> Outcome {
    let (subscription, sink) = (case.subscription()?, case.handling());
    sink.hold();
    for _ in 0..5 {
        case.apply(&subscription, &sink).await?;
    }
    let mut tasks = Vec::new();
    for _ in 0..5 {
        let (dispatcher, subscription, sink) =
            (case.dispatcher().await?, subscription.clone(), sink.clone());
        tasks.push(tokio::spawn(async move {
            dispatcher.apply(&subscription, sink).await
        }));
    }
    for task in tasks {
        let ended = case
            .passing(task)
            .await
            .map_err(|error| Violation::new(error.to_string()))?;
        ended.while_("applying")?;
    }
    case.publish_all(&subscription, (0..6).map(|number| number.to_string()))
        .await?;
    eventually!(case.harness, "a call is under way", {
        let now = sink.at_once();
        when(now >= 1, now)
    });
    case.quiet().await;
    ensure_eq!(
        sink.at_once(),
        1,
        "calls at once of one consumer that may make one"
    );
    sink.release();
    ensure_eq!(
        case.bodies(&sink, 6).await?.len(),
        6,
        "how many messages were delivered"
    );
    ensure_eq!(sink.most_at_once(), 1, "the most calls at once");
    Ok(())
}

pub(super) async fn another_description_replaces_the_consumer(case: &Case<'_>) -> Outcome {
    let (mut subscription, old, new) = (case.subscription()?, case.handling(), case.handling());
    old.hold();
    case.apply(&subscription, &old).await?;
    case.publish_all(&subscription, (0..10).map(|number| number.to_string()))
        .await?;
    eventually!(case.harness, "the old consumer has a message", {
        let now = old.at_once();
        when(now == 1, now)
    });
    subscription.generation = 2;
    subscription.delivery.in_flight = 2;
    // What is in flight is finished: whether `apply` waits for that or not, it has to be let go.
    let dispatcher = case.dispatcher().await?;
    let apply = dispatcher.apply(&subscription, new.clone());
    let release = async {
        case.quiet().await;
        let early = new.most_at_once();
        old.release();
        early
    };
    let (applied, early) = case.passing(async { futures::join!(apply, release) }).await;
    applied.while_("applying another description")?;
    ensure!(
        early <= 2,
        "the new consumer had {early} calls of 2 at once"
    );
    eventually!(case.harness, "all messages are delivered", {
        let calls = old.calls().len() + new.calls().len();
        when(calls >= 10, calls)
    });
    case.quiet().await;
    let mut all = texts(&old);
    all.extend(texts(&new));
    all.sort_unstable();
    let expected: Vec<_> = (0..10).map(|number| number.to_string()).collect();
    ensure_eq!(all, expected, "what both sinks got");
    // From now on all goes to the new one.
    let before = old.calls().len();
    case.publish_all(&subscription, (10..15).map(|number| number.to_string()))
        .await?;
    eventually!(case.harness, "later messages are delivered", {
        let calls = old.calls().len() + new.calls().len();
        when(calls >= 15, calls)
    });
    ensure_eq!(
        old.calls().len(),
        before,
        "calls of the old sink after it was replaced"
    );
    Ok(())
}

pub(super) async fn a_removed_subscription_delivers_nothing(case: &Case<'_>) -> Outcome {
    let (mut subscription, sink) = (case.subscription()?, case.handling());
    case.apply(&subscription, &sink).await?;
    case.publish(&subscription, message("before")).await?;
    case.bodies(&sink, 1).await?;
    let dispatcher = case.dispatcher().await?;
    let receipt = case
        .passing(dispatcher.remove(&subscription.trigger))
        .await?;
    ensure!(!receipt.removed.is_empty(), "the receipt is empty");
    ensure_eq!(
        dispatcher.status(&subscription.trigger).await?,
        None,
        "the status"
    );
    case.publish_all(&subscription, ["one", "two"].map(str::to_owned))
        .await?;
    case.quiet().await;
    ensure_eq!(texts(&sink), ["before"], "what was delivered");
    // They stay in the queue.
    let later = case.handling();
    subscription.generation = 2;
    case.apply(&subscription, &later).await?;
    ensure_eq!(
        case.bodies(&later, 2).await?,
        ["one", "two"],
        "what a later subscription got"
    );
    Ok(())
}

pub(super) async fn removing_waits_for_what_is_in_flight(case: &Case<'_>) -> Outcome {
    let (subscription, sink) = (case.subscription()?, case.handling());
    sink.hold();
    case.apply(&subscription, &sink).await?;
    case.publish(&subscription, message("in flight")).await?;
    eventually!(case.harness, "the call is under way", {
        let now = sink.at_once();
        when(now == 1, now)
    });
    let dispatcher = case.dispatcher().await?;
    let remove = dispatcher.remove(&subscription.trigger);
    futures::pin_mut!(remove);
    let early = tokio::select! {
        biased;
        answer = &mut remove => Some(answer),
        () = case.quiet() => None,
    };
    ensure!(
        early.is_none(),
        "remove answered {early:?} while a call was under way"
    );
    sink.release();
    let receipt = case.passing(remove).await.while_("removing")?;
    ensure!(!receipt.removed.is_empty(), "the receipt is empty");
    ensure_eq!(sink.at_once(), 0, "calls under way after it was removed");
    // It was handled, and does not come again.
    let later = case.handling();
    case.apply(&subscription, &later).await?;
    case.quiet().await;
    ensure_eq!(
        texts(&later),
        Vec::<String>::new(),
        "what a later subscription got"
    );
    Ok(())
}

pub(super) async fn removing_a_subscription_again_removes_nothing(case: &Case<'_>) -> Outcome {
    let dispatcher = case.dispatcher().await?;
    let (subscription, sink) = (case.subscription()?, case.handling());
    ensure_eq!(
        dispatcher.status(&subscription.trigger).await?,
        None,
        "the status of none"
    );
    let none = case
        .passing(dispatcher.remove(&subscription.trigger))
        .await?;
    ensure_eq!(
        none,
        Receipt::default(),
        "the receipt of a subscription that never was"
    );
    case.apply(&subscription, &sink).await?;
    case.passing(dispatcher.remove(&subscription.trigger))
        .await?;
    let again = case
        .passing(dispatcher.remove(&subscription.trigger))
        .await?;
    ensure_eq!(
        again,
        Receipt::default(),
        "the receipt of what is removed already"
    );
    Ok(())
}

pub(super) async fn the_status_tells_what_was_seen(case: &Case<'_>) -> Outcome {
    let subscription = case.subscription()?;
    let sink = case.sink(
        |delivery| match (&delivery.message.body[..], delivery.attempt) {
            (b"retry", 1) => {
                let reason = "not yet".to_owned();
                Disposition::Retry {
                    after: Duration::from_millis(10),
                    reason,
                }
            }
            (b"dead", _) => Disposition::Dead {
                reason: "of no use".to_owned(),
            },
            _ => Disposition::Done,
        },
    );
    case.apply(&subscription, &sink).await?;
    let dispatcher = case.dispatcher().await?;
    case.publish_all(&subscription, ["a", "retry", "dead"].map(str::to_owned))
        .await?;
    let status = eventually!(case.harness, "two are delivered and one is dead", {
        let status = dispatcher
            .status(&subscription.trigger)
            .await?
            .unwrap_or_default();
        when(status.delivered == 2 && status.dead_lettered == 1, status)
    });
    ensure!(status.connected, "it is not connected: {status:?}");
    ensure!(
        status.failed >= 1,
        "the attempt that failed is not counted: {status:?}"
    );
    ensure_eq!(status.in_flight, 0, "calls under way");
    sink.hold();
    case.publish_all(&subscription, (0..5).map(|number| number.to_string()))
        .await?;
    eventually!(case.harness, "one call is under way, and the rest wait", {
        let status = dispatcher
            .status(&subscription.trigger)
            .await?
            .unwrap_or_default();
        when(
            status.in_flight == 1 && status.waiting.is_none_or(|waiting| waiting == 4),
            status,
        )
    });
    sink.release();
    eventually!(case.harness, "all are delivered", {
        let status = dispatcher
            .status(&subscription.trigger)
            .await?
            .unwrap_or_default();
        let none = status.in_flight == 0 && status.waiting.is_none_or(|waiting| waiting == 0);
        when(status.delivered == 7 && none, status)
    });
    Ok(())
}

pub(super) async fn a_change_is_hinted_when_a_subscription_comes_and_goes(
    case: &Case<'_>,
) -> Outcome {
    let (subscription, sink) = (case.subscription()?, case.handling());
    let dispatcher = case.dispatcher().await?;
    let key = subscription.trigger.key();
    let mut changes = dispatcher.changes();
    for step in ["comes", "goes"] {
        if step == "comes" {
            case.apply(&subscription, &sink).await?;
        } else {
            case.passing(dispatcher.remove(&subscription.trigger))
                .await?;
        }
        eventually!(
            case.harness,
            format!("a hint when a subscription {step}"),
            {
                match futures::poll!(changes.next()) {
                    std::task::Poll::Ready(Some(Change::All)) => Ok(()),
                    std::task::Poll::Ready(Some(Change::Object(hinted))) if hinted == key => Ok(()),
                    std::task::Poll::Ready(None) => {
                        return Err(Violation::new("the stream of hints ended"));
                    }
                    other => Err(format!("{other:?}")),
                }
            }
        );
        // What was hinted more than once.
        while let std::task::Poll::Ready(Some(_)) = futures::poll!(changes.next()) {}
    }
    Ok(())
}

pub(super) async fn a_new_sink_takes_over(case: &Case<'_>) -> Outcome {
    let (subscription, old, new) = (case.subscription()?, case.handling(), case.handling());
    case.apply(&subscription, &old).await?;
    case.publish_all(&subscription, ["1", "2"].map(str::to_owned))
        .await?;
    ensure_eq!(
        case.bodies(&old, 2).await?,
        ["1", "2"],
        "what the old sink got"
    );
    // The description is the same, as it is for an engine that was started anew.
    case.apply(&subscription, &new).await?;
    case.publish_all(&subscription, ["3", "4"].map(str::to_owned))
        .await?;
    ensure_eq!(
        case.bodies(&new, 2).await?,
        ["3", "4"],
        "what the new sink got"
    );
    ensure_eq!(old.calls().len(), 2, "calls of the old sink after that");
    ensure_eq!(new.most_at_once(), 1, "calls at once of the new sink");
    Ok(())
}

pub(super) async fn a_forgotten_subscription_leaves_its_queue_only(case: &Case<'_>) -> Outcome {
    let (subscription, other) = (case.subscription()?, case.subscription()?);
    let sink = case.sink(|_| Disposition::Dead {
        reason: "of no use".to_owned(),
    });
    for subscription in [&subscription, &other] {
        case.apply(subscription, &sink).await?;
        case.publish(subscription, message("dead")).await?;
        case.dead(&subscription.trigger, 1).await?;
    }
    let dispatcher = case.dispatcher().await?;
    let receipt = case
        .passing(dispatcher.forget(&subscription.trigger))
        .await?;
    ensure!(!receipt.removed.is_empty(), "the receipt is empty");
    ensure_eq!(
        dispatcher.status(&subscription.trigger).await?,
        None,
        "the status"
    );
    ensure_eq!(
        case.letters(&subscription.trigger, 10).await?,
        [],
        "the dead letters"
    );
    let again = case
        .passing(dispatcher.forget(&subscription.trigger))
        .await?;
    ensure_eq!(again, Receipt::default(), "the receipt of a second forget");
    ensure_eq!(
        case.letters(&other.trigger, 10).await?.len(),
        1,
        "letters of another trigger"
    );
    // Another trigger of the queue gets what comes.
    case.publish(&subscription, message("waits")).await?;
    let heir = case.subscription_in(&subscription.trigger.namespace, &subscription.queue)?;
    let later = case.handling();
    case.apply(&heir, &later).await?;
    ensure_eq!(
        case.bodies(&later, 1).await?,
        ["waits"],
        "what another trigger got"
    );
    // One that was removed before can be forgotten, too.
    case.passing(dispatcher.remove(&other.trigger)).await?;
    let receipt = case.passing(dispatcher.forget(&other.trigger)).await?;
    ensure!(
        !receipt.removed.is_empty(),
        "the receipt of letters without a subscription is empty"
    );
    ensure_eq!(
        case.letters(&other.trigger, 10).await?,
        [],
        "the dead letters"
    );
    Ok(())
}

pub(super) async fn what_is_served_is_held_until_it_is_forgotten(case: &Case<'_>) -> Outcome {
    let subscription = case.subscription()?;
    let sink = case.sink(|_| Disposition::Dead {
        reason: "of no use".to_owned(),
    });
    case.apply(&subscription, &sink).await?;
    case.publish(&subscription, message("dead")).await?;
    let trigger = &subscription.trigger;
    case.dead(trigger, 1).await?;
    let dispatcher = case.dispatcher().await?;
    let kept = async || Kept::of(dispatcher.held(), &trigger.key(), &trigger.uid).await;
    ensure!(
        kept().await?.is_told(),
        "nothing is held of a trigger that is served"
    );
    case.passing(dispatcher.remove(trigger)).await?;
    ensure!(
        kept().await?.is_told(),
        "nothing is held of a trigger that has dead letters"
    );
    case.passing(dispatcher.forget(trigger)).await?;
    ensure_eq!(
        kept().await?.items,
        [],
        "what is held of a forgotten trigger"
    );
    Ok(())
}
