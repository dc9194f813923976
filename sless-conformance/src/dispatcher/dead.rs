//! Dead letters.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use sless_core::{DeadLetterSelection, Disposition, Message, Subscription};

use super::{
    Case, RecordingSink,
    case::{letter_texts, message, texts},
};
use crate::{
    Outcome, Violation,
    clause::{ensure, ensure_eq},
    harness::{eventually, when},
};

/// A sink that gives messages up as long as `broken`.
fn breaking(case: &Case<'_>) -> (Arc<RecordingSink>, Arc<AtomicBool>) {
    let broken = Arc::new(AtomicBool::new(true));
    let sink = case.sink({
        let broken = broken.clone();
        move |_| {
            if broken.load(Ordering::SeqCst) {
                Disposition::Dead {
                    reason: "it is of no use".to_owned(),
                }
            } else {
                Disposition::Done
            }
        }
    });
    (sink, broken)
}

/// Lets these messages die, one after the other.
async fn kill(case: &Case<'_>, subscription: &Subscription, bodies: &[&str]) -> Outcome {
    let before = case.letters(&subscription.trigger, 100).await?.len();
    for (at, body) in bodies.iter().enumerate() {
        case.publish(subscription, message((*body).to_owned()))
            .await?;
        case.dead(&subscription.trigger, before + at + 1).await?;
    }
    Ok(())
}

pub(super) async fn a_dead_message_is_kept_whole(case: &Case<'_>) -> Outcome {
    let subscription = case.subscription()?;
    let sink = case.sink(|delivery| {
        if delivery.attempt < 3 {
            let reason = "not yet".to_owned();
            Disposition::Retry {
                after: Duration::from_millis(10),
                reason,
            }
        } else {
            Disposition::Dead {
                reason: "three times is enough".to_owned(),
            }
        }
    });
    case.apply(&subscription, &sink).await?;
    let sent = Message {
        id: "message-1".to_owned(),
        body: (0..=u8::MAX).collect::<Vec<_>>().into(),
        content_type: Some("application/x-test".to_owned()),
        headers: [("x-one".to_owned(), "1".to_owned())].into(),
        published_at: None,
    };
    let before = case.harness.clock().now();
    case.publish(&subscription, sent.clone()).await?;
    let letters = case.dead(&subscription.trigger, 1).await?;
    let letter = &letters[0];
    ensure!(!letter.id.is_empty(), "the letter has no id");
    ensure_eq!(letter.message.body, sent.body, "the body");
    ensure_eq!(letter.message.id, sent.id, "the id");
    ensure_eq!(
        letter.message.content_type,
        sent.content_type,
        "the media type"
    );
    let header = letter.message.headers.get("x-one").map(String::as_str);
    ensure_eq!(header, Some("1"), "a header");
    ensure_eq!(letter.reason, "three times is enough", "the reason");
    ensure_eq!(letter.attempts, 3, "the attempts");
    let age = letter.died_at.duration_since(before).abs().as_secs();
    ensure!(
        age < 600,
        "it died at {}, and was sent at {before}",
        letter.died_at
    );
    case.quiet().await;
    ensure_eq!(
        sink.calls().len(),
        3,
        "how often a dead message was delivered"
    );
    Ok(())
}

pub(super) async fn dead_letters_are_read_in_pages_oldest_first(case: &Case<'_>) -> Outcome {
    let (subscription, other) = (case.subscription()?, case.subscription()?);
    let (sink, _) = breaking(case);
    case.apply(&subscription, &sink).await?;
    case.apply(&other, &sink).await?;
    let none = case.letters(&subscription.trigger, 1).await?;
    ensure_eq!(none, [], "the letters of a trigger without any");
    let bodies = ["1", "2", "3", "4", "5"];
    kill(case, &subscription, &bodies).await?;
    kill(case, &other, &["other"]).await?;
    for limit in [1, 2, 5, 6] {
        let letters = case.letters(&subscription.trigger, limit).await?;
        ensure_eq!(
            letter_texts(&letters),
            bodies,
            "the letters in pages of {limit}"
        );
    }
    let letters = case.letters(&other.trigger, 10).await?;
    ensure_eq!(
        letter_texts(&letters),
        ["other"],
        "the letters of another trigger"
    );
    Ok(())
}

pub(super) async fn dead_letters_outlive_their_subscription(case: &Case<'_>) -> Outcome {
    let mut subscription = case.subscription()?;
    let (sink, broken) = breaking(case);
    case.apply(&subscription, &sink).await?;
    kill(case, &subscription, &["1", "2"]).await?;
    let before = case.letters(&subscription.trigger, 10).await?;
    let dispatcher = case.dispatcher().await?;
    case.passing(dispatcher.remove(&subscription.trigger))
        .await?;
    let after = case.letters(&subscription.trigger, 10).await?;
    ensure_eq!(
        after,
        before,
        "the letters after the subscription was removed"
    );
    // What is redriven without a subscription waits in the queue.
    let redrive = dispatcher.redrive(&subscription.trigger, &DeadLetterSelection::All);
    ensure_eq!(case.passing(redrive).await?, 2, "how many were redriven");
    broken.store(false, Ordering::SeqCst);
    subscription.generation = 2;
    let later = case.handling();
    case.apply(&subscription, &later).await?;
    ensure_eq!(
        case.bodies(&later, 2).await?,
        ["1", "2"],
        "what a later subscription got"
    );
    Ok(())
}

pub(super) async fn redriven_messages_come_again(case: &Case<'_>) -> Outcome {
    let subscription = case.subscription()?;
    let (sink, broken) = breaking(case);
    case.apply(&subscription, &sink).await?;
    kill(case, &subscription, &["1", "2", "3"]).await?;
    broken.store(false, Ordering::SeqCst);
    let dispatcher = case.dispatcher().await?;
    let all = DeadLetterSelection::All;
    let count = case
        .passing(dispatcher.redrive(&subscription.trigger, &all))
        .await?;
    ensure_eq!(count, 3, "how many were redriven");
    ensure_eq!(
        case.letters(&subscription.trigger, 10).await?,
        [],
        "the letters after that"
    );
    let found = case.bodies(&sink, 6).await?;
    ensure_eq!(
        found,
        ["1", "1", "2", "2", "3", "3"],
        "what was delivered in all"
    );
    let attempts: Vec<_> = sink.calls()[3..]
        .iter()
        .map(|call| call.delivery.attempt)
        .collect();
    ensure_eq!(attempts, [1, 1, 1], "the attempts after a redrive");
    let none = case
        .passing(dispatcher.redrive(&subscription.trigger, &all))
        .await?;
    ensure_eq!(none, 0, "how many are redriven where there are none");
    Ok(())
}

pub(super) async fn only_the_chosen_letters_are_redriven(case: &Case<'_>) -> Outcome {
    let (subscription, other) = (case.subscription()?, case.subscription()?);
    let (sink, broken) = breaking(case);
    case.apply(&subscription, &sink).await?;
    case.apply(&other, &sink).await?;
    kill(case, &subscription, &["1", "2", "3"]).await?;
    kill(case, &other, &["other"]).await?;
    broken.store(false, Ordering::SeqCst);
    let letters = case.letters(&subscription.trigger, 10).await?;
    let foreign = case.letters(&other.trigger, 10).await?;
    let ids = [
        letters[1].id.clone(),
        "not-there".to_owned(),
        foreign[0].id.clone(),
    ];
    let chosen = DeadLetterSelection::Ids(ids.into());
    let dispatcher = case.dispatcher().await?;
    let count = case
        .passing(dispatcher.redrive(&subscription.trigger, &chosen))
        .await?;
    ensure_eq!(count, 1, "how many were redriven");
    let left = case.letters(&subscription.trigger, 10).await?;
    ensure_eq!(
        letter_texts(&left),
        ["1", "3"],
        "the letters that were not chosen"
    );
    eventually!(case.harness, "the chosen one is delivered again", {
        let found = texts(&sink).iter().filter(|text| *text == "2").count();
        when(found == 2, found)
    });
    let left = case.letters(&other.trigger, 10).await?;
    ensure_eq!(left, foreign, "the letters of another trigger");
    Ok(())
}

pub(super) async fn purged_letters_are_gone(case: &Case<'_>) -> Outcome {
    let subscription = case.subscription()?;
    let (sink, broken) = breaking(case);
    case.apply(&subscription, &sink).await?;
    kill(case, &subscription, &["1", "2", "3", "4"]).await?;
    broken.store(false, Ordering::SeqCst);
    let dispatcher = case.dispatcher().await?;
    let letters = case.letters(&subscription.trigger, 10).await?;
    let some = [
        letters[0].id.clone(),
        letters[2].id.clone(),
        "not-there".to_owned(),
    ];
    let some = DeadLetterSelection::Ids(some.into());
    let count = case
        .passing(dispatcher.purge(&subscription.trigger, &some))
        .await?;
    ensure_eq!(count, 2, "how many were dropped");
    let left = case.letters(&subscription.trigger, 10).await?;
    ensure_eq!(
        letter_texts(&left),
        ["2", "4"],
        "the letters that were not chosen"
    );
    let all = DeadLetterSelection::All;
    for expected in [2, 0] {
        let count = case
            .passing(dispatcher.purge(&subscription.trigger, &all))
            .await?;
        ensure_eq!(count, expected, "how many were dropped of all");
    }
    ensure_eq!(
        case.letters(&subscription.trigger, 10).await?,
        [],
        "the letters after that"
    );
    case.quiet().await;
    if sink.calls().len() != 4 {
        return Err(Violation::new(
            "a letter that was dropped was delivered again",
        ));
    }
    Ok(())
}
