//! Queues that are there or not, consumers that come and go, and several processes.

use std::{collections::BTreeSet, time::Duration};

use lapin::{options::QueueDeclareOptions, types::FieldTable};
use sless_core::{Dispatcher as _, Disposition, Message, Publish as _, QueueDeclare, Subscription};

use super::support::{
    client, delete, eventually, handling, look, open, shared, sink, subscription, when,
};

fn numbered(number: u32) -> Message {
    Message {
        id: number.to_string(),
        body: number.to_string().into(),
        ..Message::default()
    }
}

#[tokio::test]
#[ignore = "needs RabbitMQ: testing/rabbitmq/up"]
async fn a_queue_that_has_to_be_there_is_waited_for_and_taken_as_it_is() {
    let url = shared();
    let (dispatcher, sink) = (open(&url).await, handling());
    let subscription = Subscription {
        declare: QueueDeclare::Never,
        ..subscription(1)
    };
    dispatcher
        .apply(&subscription, sink.clone())
        .await
        .expect("applied");
    eventually("it says that the queue is missing", || async {
        let status = dispatcher
            .status(&subscription.trigger)
            .await
            .expect("a status")
            .expect("one");
        let missing = !status.connected && status.reason == "queue_missing";
        when(
            missing && status.message.contains(&subscription.queue),
            status,
        )
    })
    .await;
    assert_eq!(
        look(&url, &subscription.queue).await,
        None,
        "nobody made it"
    );
    // Somebody makes one of a kind that sless would not.
    let (connection, channel) = client(&url).await;
    let options = QueueDeclareOptions::default();
    let queue = subscription.queue.as_str().into();
    channel
        .queue_declare(queue, options, FieldTable::default())
        .await
        .expect("made");
    connection.close(200, "OK".into()).await.expect("closed");
    eventually("it is connected", || async {
        let status = dispatcher
            .status(&subscription.trigger)
            .await
            .expect("a status")
            .expect("one");
        when(status.connected && status.reason.is_empty(), status)
    })
    .await;
    let namespace = &subscription.trigger.namespace;
    dispatcher
        .publish(namespace, &subscription.queue, numbered(1))
        .await
        .expect("published");
    eventually("a message is delivered", || async {
        let calls = sink.calls().len();
        when(calls == 1, calls)
    })
    .await;
    dispatcher
        .forget(&subscription.trigger)
        .await
        .expect("forgotten");
    delete(&url, &subscription.queue).await;
}

#[tokio::test]
#[ignore = "needs RabbitMQ: testing/rabbitmq/up"]
async fn a_reserved_queue_is_refused() {
    let dispatcher = open(&shared()).await;
    for queue in ["sless.dead.tests.t.u", "amq.gen-x", ""] {
        let subscription = Subscription {
            queue: queue.to_owned(),
            ..subscription(1)
        };
        let refused = dispatcher
            .apply(&subscription, handling())
            .await
            .expect_err(queue);
        assert_eq!(refused.reason(), "queue_name", "{refused}");
        let namespace = &subscription.trigger.namespace;
        let refused = dispatcher
            .publish(namespace, queue, numbered(1))
            .await
            .expect_err(queue);
        assert_eq!(refused.reason(), "queue_name", "{refused}");
    }
}

#[tokio::test]
#[ignore = "needs RabbitMQ: testing/rabbitmq/up"]
async fn however_often_it_is_taken_away_and_made_again_there_is_one_consumer() {
    let url = shared();
    let (dispatcher, sink) = (open(&url).await, handling());
    let mut subscription = subscription(2);
    for round in 0..5 {
        subscription.generation += 1;
        subscription.delivery.in_flight = 1 + round % 3;
        dispatcher
            .apply(&subscription, sink.clone())
            .await
            .expect("applied");
        if round % 2 == 0 {
            dispatcher
                .remove(&subscription.trigger)
                .await
                .expect("removed");
            dispatcher
                .apply(&subscription, sink.clone())
                .await
                .expect("applied");
        }
    }
    eventually("it is connected", || async {
        let status = dispatcher
            .status(&subscription.trigger)
            .await
            .expect("a status")
            .expect("one");
        when(status.connected, status)
    })
    .await;
    let seen = look(&url, &subscription.queue).await;
    assert_eq!(seen, Some((0, 1)), "messages and consumers");
    dispatcher
        .remove(&subscription.trigger)
        .await
        .expect("removed");
    let seen = look(&url, &subscription.queue).await;
    assert_eq!(
        seen,
        Some((0, 0)),
        "messages and consumers after it was removed"
    );
    delete(&url, &subscription.queue).await;
}

#[tokio::test]
#[ignore = "needs RabbitMQ: testing/rabbitmq/up"]
async fn a_consumer_is_replaced_at_once_while_a_long_call_goes_on() {
    let url = shared();
    let (dispatcher, old, new) = (open(&url).await, handling(), handling());
    // A quorum queue counts a consumer that was cancelled until it has acknowledged everything.
    let mut subscription = Subscription {
        declare: QueueDeclare::Classic,
        ..subscription(1)
    };
    old.hold();
    dispatcher
        .apply(&subscription, old.clone())
        .await
        .expect("applied");
    let namespace = subscription.trigger.namespace.clone();
    eventually("the queue is made, as a classic one", || async {
        let seen = look(&url, &subscription.queue).await;
        when(seen == Some((0, 1)), seen)
    })
    .await;
    dispatcher
        .publish(&namespace, &subscription.queue, numbered(1))
        .await
        .expect("published");
    eventually("the call is under way", || async {
        let now = old.at_once();
        when(now == 1, now)
    })
    .await;
    subscription.generation = 2;
    subscription.delivery.in_flight = 2;
    dispatcher
        .apply(&subscription, new.clone())
        .await
        .expect("applied");
    dispatcher
        .publish(&namespace, &subscription.queue, numbered(2))
        .await
        .expect("published");
    eventually(
        "the new one delivers, though the old one has not ended",
        || async {
            let calls = new.calls().len();
            when(calls == 1 && old.at_once() == 1, calls)
        },
    )
    .await;
    assert_eq!(
        look(&url, &subscription.queue).await,
        Some((0, 1)),
        "messages and consumers"
    );
    old.release();
    dispatcher
        .remove(&subscription.trigger)
        .await
        .expect("removed");
    let later = handling();
    dispatcher
        .apply(&subscription, later.clone())
        .await
        .expect("applied");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(later.calls().len(), 0, "what was in flight was finished");
    dispatcher
        .forget(&subscription.trigger)
        .await
        .expect("forgotten");
    delete(&url, &subscription.queue).await;
}

#[tokio::test]
#[ignore = "needs RabbitMQ: testing/rabbitmq/up"]
async fn several_dispatchers_share_the_messages_of_a_queue() {
    const MESSAGES: u32 = 120;
    let url = shared();
    let subscription = subscription(2);
    let mut all = Vec::new();
    for _ in 0..3 {
        let (dispatcher, sink) = (open(&url).await, sink(|_| Disposition::Done));
        dispatcher
            .apply(&subscription, sink.clone())
            .await
            .expect("applied");
        all.push((dispatcher, sink));
    }
    eventually("all three consume", || async {
        let seen = look(&url, &subscription.queue).await;
        when(seen.is_some_and(|(_, consumers)| consumers == 3), seen)
    })
    .await;
    for number in 0..MESSAGES {
        let namespace = &subscription.trigger.namespace;
        let published = all[0]
            .0
            .publish(namespace, &subscription.queue, numbered(number));
        published.await.expect("published");
    }
    eventually("all are delivered", || async {
        let calls: usize = all.iter().map(|(_, sink)| sink.calls().len()).sum();
        when(calls == MESSAGES as usize, calls)
    })
    .await;
    let mut bodies = BTreeSet::new();
    for (_, sink) in &all {
        let calls = sink.calls();
        assert!(
            calls.len() > 10,
            "one got only {} of {MESSAGES}",
            calls.len()
        );
        bodies.extend(calls.into_iter().map(|call| call.delivery.message.id));
    }
    assert_eq!(bodies.len(), MESSAGES as usize, "each came once");
    for (dispatcher, _) in &all {
        dispatcher
            .forget(&subscription.trigger)
            .await
            .expect("forgotten");
    }
    delete(&url, &subscription.queue).await;
}

#[tokio::test]
#[ignore = "needs RabbitMQ: testing/rabbitmq/up"]
async fn a_message_that_is_given_back_many_times_is_not_dropped() {
    let url = shared();
    let (dispatcher, subscription) = (open(&url).await, subscription(1));
    let namespace = &subscription.trigger.namespace;
    dispatcher
        .publish(namespace, &subscription.queue, numbered(1))
        .await
        .expect("published");
    let (connection, channel) = client(&url).await;
    // RabbitMQ 4 drops a message after 20 of these, where the queue does not say otherwise.
    for round in 0..30 {
        eventually("the message is there", || async {
            let options = lapin::options::BasicGetOptions::default();
            let got = channel
                .basic_get(subscription.queue.as_str().into(), options)
                .await;
            let Some(got) = got.expect("an answer") else {
                return Err(format!("none in round {round}"));
            };
            let requeue = lapin::options::BasicNackOptions {
                requeue: true,
                ..Default::default()
            };
            got.acker
                .nack(requeue)
                .await
                .map_err(|error| error.to_string())
        })
        .await;
    }
    connection.close(200, "OK".into()).await.expect("closed");
    delete(&url, &subscription.queue).await;
}
