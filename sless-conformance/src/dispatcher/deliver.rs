//! Delivering.

use std::collections::BTreeMap;

use bytes::Bytes;
use sless_core::{ErrorKind, Message};

use super::{
    Case,
    case::{message, texts},
};
use crate::{
    Outcome, Violation,
    clause::{While as _, ensure, ensure_eq, refused},
    harness::{eventually, when},
    unique,
};

pub(super) async fn a_message_arrives_whole(case: &Case<'_>) -> Outcome {
    let (subscription, sink) = (case.subscription()?, case.handling());
    case.apply(&subscription, &sink).await?;
    let headers = [
        ("x-one", "1"),
        ("traceparent", "00-a-b-01"),
        ("Upper", "ü \"quoted\""),
    ];
    let sent = [
        Message {
            id: "message-1".to_owned(),
            body: Bytes::from_iter(0..=u8::MAX),
            content_type: Some("application/x-test".to_owned()),
            headers: headers
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            published_at: None,
        },
        Message::default(),
    ];
    for (at, message) in sent.into_iter().enumerate() {
        case.publish(&subscription, message.clone()).await?;
        case.bodies(&sink, at + 1).await?;
        let calls = sink.calls();
        ensure_eq!(calls.len(), at + 1, "how often the sink was called");
        let delivery = &calls[at].delivery;
        ensure_eq!(delivery.trigger, subscription.trigger, "the trigger");
        ensure_eq!(delivery.queue, subscription.queue, "the queue");
        ensure_eq!(delivery.attempt, 1, "the attempt");
        ensure_eq!(delivery.message.body, message.body, "the body");
        ensure_eq!(
            delivery.message.content_type,
            message.content_type,
            "the media type"
        );
        let missing: BTreeMap<_, _> = message
            .headers
            .iter()
            .filter(|(name, value)| delivery.message.headers.get(*name) != Some(*value))
            .collect();
        ensure!(
            missing.is_empty(),
            "headers that did not arrive: {missing:?}"
        );
        if !message.id.is_empty() {
            ensure_eq!(delivery.message.id, message.id, "the id");
        }
    }
    Ok(())
}

pub(super) async fn messages_wait_for_a_subscription(case: &Case<'_>) -> Outcome {
    let (subscription, sink) = (case.subscription()?, case.handling());
    // The queue is made by the first message.
    case.publish_all(&subscription, ["one", "two"].map(str::to_owned))
        .await?;
    case.apply(&subscription, &sink).await?;
    ensure_eq!(
        case.bodies(&sink, 2).await?,
        ["one", "two"],
        "what was waiting"
    );
    Ok(())
}

pub(super) async fn a_handled_message_does_not_come_again(case: &Case<'_>) -> Outcome {
    let (mut subscription, sink) = (case.subscription()?, case.handling());
    case.apply(&subscription, &sink).await?;
    case.publish_all(&subscription, (0..10).map(|number| number.to_string()))
        .await?;
    ensure_eq!(
        case.bodies(&sink, 10).await?.len(),
        10,
        "how many calls there were"
    );
    // Nor does another consumer get it.
    subscription.generation = 2;
    let later = case.handling();
    case.apply(&subscription, &later).await?;
    case.publish(&subscription, message("last")).await?;
    ensure_eq!(
        case.bodies(&later, 1).await?,
        ["last"],
        "what another consumer got"
    );
    ensure_eq!(sink.calls().len(), 10, "how many calls the first sink got");
    Ok(())
}

pub(super) async fn every_published_message_arrives(case: &Case<'_>) -> Outcome {
    const PUBLISHERS: usize = 8;
    const EACH: usize = 25;
    let mut subscription = case.subscription()?;
    subscription.delivery.in_flight = 4;
    let sink = case.handling();
    case.apply(&subscription, &sink).await?;
    let mut tasks = Vec::new();
    for publisher in 0..PUBLISHERS {
        let (publish, subscription) = (case.harness.publisher().await?, subscription.clone());
        tasks.push(tokio::spawn(async move {
            let namespace = &subscription.trigger.namespace;
            for number in 0..EACH {
                let message = message(format!("{publisher}-{number:02}"));
                publish
                    .publish(namespace, &subscription.queue, message)
                    .await?;
            }
            Ok::<_, sless_core::Error>(())
        }));
    }
    for task in tasks {
        let ended = case
            .passing(task)
            .await
            .map_err(|error| Violation::new(error.to_string()))?;
        ended.while_("publishing")?;
    }
    let found = case.bodies(&sink, PUBLISHERS * EACH).await?;
    let expected = (0..PUBLISHERS)
        .flat_map(|publisher| (0..EACH).map(move |number| format!("{publisher}-{number:02}")));
    ensure_eq!(found, expected.collect::<Vec<_>>(), "what arrived");
    Ok(())
}

pub(super) async fn queues_of_namespaces_are_apart(case: &Case<'_>) -> Outcome {
    let (here, there) = (case.namespace.clone(), unique::namespace()?);
    let queue = format!("conformance.{}", unique::tag());
    let one = case.subscription_in(&here, &queue)?;
    let other = case.subscription_in(&there, &queue)?;
    let (first, second) = (case.handling(), case.handling());
    case.apply(&one, &first).await?;
    case.apply(&other, &second).await?;
    case.publish_all(&one, ["a1", "a2", "a3"].map(str::to_owned))
        .await?;
    case.publish_all(&other, ["b1", "b2"].map(str::to_owned))
        .await?;
    eventually!(case.harness, "five messages are delivered", {
        let calls = first.calls().len() + second.calls().len();
        when(calls >= 5, calls)
    });
    case.quiet().await;
    if case.harness.separates_namespaces() {
        ensure_eq!(
            texts(&first),
            ["a1", "a2", "a3"],
            "what the first namespace got"
        );
        ensure_eq!(
            texts(&second),
            ["b1", "b2"],
            "what the second namespace got"
        );
    } else {
        let mut both = texts(&first);
        both.extend(texts(&second));
        both.sort_unstable();
        ensure_eq!(
            both,
            ["a1", "a2", "a3", "b1", "b2"],
            "what two consumers of one queue got"
        );
    }
    Ok(())
}

pub(super) async fn a_message_that_is_too_large_is_refused(case: &Case<'_>) -> Outcome {
    let Some(most) = case.harness.message_bytes_max() else {
        return Ok(());
    };
    let (subscription, sink) = (case.subscription()?, case.handling());
    case.apply(&subscription, &sink).await?;
    let publisher = case.harness.publisher().await?;
    let large = message(vec![b'x'; most + 1]);
    let (namespace, queue) = (&subscription.trigger.namespace, &subscription.queue);
    let published = case
        .passing(publisher.publish(namespace, queue, large))
        .await;
    let error = refused(
        published,
        ErrorKind::LimitExceeded,
        "a message that is too large",
    )?;
    ensure!(
        error.message().contains("message_bytes"),
        "it names no limit message_bytes: {error}"
    );
    case.publish(&subscription, message("small")).await?;
    ensure_eq!(
        case.bodies(&sink, 1).await?,
        ["small"],
        "what arrived after a refusal"
    );
    Ok(())
}

pub(super) async fn no_more_calls_at_once_than_allowed(case: &Case<'_>) -> Outcome {
    for in_flight in [1, 3] {
        let (mut subscription, sink) = (case.subscription()?, case.handling());
        subscription.delivery.in_flight = in_flight;
        sink.hold();
        case.apply(&subscription, &sink).await?;
        case.publish_all(&subscription, (0..12).map(|number| number.to_string()))
            .await?;
        eventually!(case.harness, format!("{in_flight} calls are under way"), {
            let now = sink.at_once();
            when(now >= in_flight as usize, now)
        });
        case.quiet().await;
        ensure_eq!(
            sink.at_once(),
            in_flight as usize,
            "calls under way of {in_flight} allowed"
        );
        sink.release();
        let count = case.bodies(&sink, 12).await?.len();
        ensure_eq!(count, 12, "how many messages were delivered in the end");
        let most = sink.most_at_once();
        ensure!(
            most <= in_flight as usize,
            "{most} calls at once of {in_flight} allowed"
        );
    }
    Ok(())
}

pub(super) async fn a_busy_consumer_holds_no_more_than_it_may(case: &Case<'_>) -> Outcome {
    // Two triggers on one queue: what one of them does not hold, the other one gets.
    let busy = case.subscription()?;
    let free = case.subscription_in(&case.namespace, &busy.queue)?;
    let (held, sink) = (case.handling(), case.handling());
    held.hold();
    case.apply(&busy, &held).await?;
    case.publish_all(&busy, (0..6).map(|number| number.to_string()))
        .await?;
    eventually!(case.harness, "the busy one has its message", {
        let now = held.at_once();
        when(now == 1, now)
    });
    case.apply(&free, &sink).await?;
    ensure_eq!(
        case.bodies(&sink, 5).await?.len(),
        5,
        "how many the free one got"
    );
    held.release();
    ensure_eq!(
        case.bodies(&held, 1).await?.len(),
        1,
        "how many the busy one got"
    );
    Ok(())
}
