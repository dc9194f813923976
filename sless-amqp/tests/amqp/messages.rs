//! What becomes of messages of all kinds.

use std::time::Duration;

use lapin::{
    BasicProperties,
    options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldArray, FieldTable},
};
use sless_core::{
    DeadLetterQuery, DeadLetterSelection, Dispatcher as _, Disposition, Message, Publish as _,
};

use super::support::{
    client, delete, eventually, handling, look, open, shared, sink, subscription, unique, when,
};

/// Puts a message into a queue as another program would.
async fn send(queue: &str, exchange: &str, properties: BasicProperties, body: &[u8]) {
    let (connection, channel) = client(&shared()).await;
    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await
        .expect("confirms");
    let options = BasicPublishOptions::default();
    let sent = channel.basic_publish(exchange.into(), queue.into(), options, body, properties);
    let confirmed = sent.await.expect("sent").await.expect("confirmed");
    assert!(confirmed.is_ack());
    connection.close(200, "OK".into()).await.expect("closed");
}

#[tokio::test]
#[ignore = "needs RabbitMQ: testing/rabbitmq/up"]
async fn properties_and_headers_of_a_sender_survive_retries_dead_letters_and_a_redrive() {
    let url = shared();
    let dispatcher = open(&url).await;
    let subscription = subscription(1);
    let copies = unique("tests.copies");
    let (connection, channel) = client(&url).await;
    let options = QueueDeclareOptions::durable();
    channel
        .queue_declare(copies.as_str().into(), options, FieldTable::default())
        .await
        .expect("made");
    connection.close(200, "OK".into()).await.expect("closed");
    let sink = sink(|delivery| {
        // Twice it fails, then it is dead; redriven, the same once more.
        if delivery.attempt < 3 {
            Disposition::Retry {
                after: Duration::from_millis(10),
                reason: "not yet".to_owned(),
            }
        } else {
            Disposition::Dead {
                reason: "no".to_owned(),
            }
        }
    });
    dispatcher
        .apply(&subscription, sink.clone())
        .await
        .expect("applied");
    eventually("the queue is there", || async {
        let seen = look(&url, &subscription.queue).await;
        when(seen.is_some_and(|(_, consumers)| consumers == 1), seen)
    })
    .await;
    let mut headers = FieldTable::default();
    let long = |text: &str| AMQPValue::LongString(text.into());
    headers.insert(
        "CC".into(),
        AMQPValue::FieldArray(FieldArray::from(vec![long(&copies)])),
    );
    headers.insert("x-sless".into(), long("the sender's own"));
    headers.insert(
        "x-death".into(),
        AMQPValue::FieldArray(FieldArray::default()),
    );
    headers.insert("number".into(), AMQPValue::LongInt(7));
    let properties = BasicProperties::default()
        .with_headers(headers)
        .with_delivery_mode(1)
        .with_expiration("60000".into())
        .with_user_id("sless".into())
        .with_message_id("m-1".into())
        .with_content_type("text/plain".into())
        .with_correlation_id("c-1".into())
        .with_priority(3);
    send(&subscription.queue, "", properties, b"body").await;
    let query = DeadLetterQuery::first(10);
    let letters = || dispatcher.dead_letters(&subscription.trigger, &query);
    let dead = eventually("it is dead", || async {
        let page = letters().await.expect("read");
        when(page.items.len() == 1, page.items)
    })
    .await;
    let count = dispatcher.redrive(&subscription.trigger, &DeadLetterSelection::All);
    assert_eq!(count.await.expect("redriven"), 1);
    let again = eventually("it is dead again", || async {
        let page = letters().await.expect("read");
        when(
            page.items.len() == 1 && page.items[0].id != dead[0].id,
            page.items,
        )
    })
    .await;
    let calls = sink.calls();
    let attempts: Vec<_> = calls.iter().map(|call| call.delivery.attempt).collect();
    assert_eq!(attempts, [1, 2, 3, 1, 2, 3]);
    let first = &calls[0].delivery.message;
    for (name, value) in [
        ("x-amqp-correlation-id", "c-1"),
        ("x-amqp-expiration", "60000"),
        ("x-amqp-user-id", "sless"),
        ("x-amqp-priority", "3"),
        ("x-sless", "the sender's own"),
        ("number", "7"),
    ] {
        assert_eq!(
            first.headers.get(name).map(String::as_str),
            Some(value),
            "{name}"
        );
    }
    for call in &calls {
        assert_eq!(
            &call.delivery.message, first,
            "attempt {}",
            call.delivery.attempt
        );
    }
    assert_eq!((&dead[0].message, &again[0].message), (first, first));
    let (copied, _) = look(&url, &copies).await.expect("a queue");
    assert_eq!(copied, 1, "copies that the broker made in all");
    dispatcher
        .forget(&subscription.trigger)
        .await
        .expect("forgotten");
    delete(&url, &subscription.queue).await;
    delete(&url, &copies).await;
}

#[tokio::test]
#[ignore = "needs RabbitMQ: testing/rabbitmq/up"]
async fn a_cloud_event_in_binary_mode_has_the_fields_of_http() {
    let url = shared();
    let (dispatcher, subscription, sink) = (open(&url).await, subscription(1), handling());
    dispatcher
        .apply(&subscription, sink.clone())
        .await
        .expect("applied");
    eventually("the queue is there", || async {
        let seen = look(&url, &subscription.queue).await;
        when(seen.is_some_and(|(_, consumers)| consumers == 1), seen)
    })
    .await;
    let mut headers = FieldTable::default();
    for (name, value) in [
        ("cloudEvents:specversion", "1.0"),
        ("cloudEvents:type", "com.example.some event"),
        ("cloudEvents_source", "/mycontext"),
        ("other", "as it was"),
    ] {
        headers.insert(name.into(), AMQPValue::LongString(value.into()));
    }
    let properties = BasicProperties::default()
        .with_headers(headers)
        .with_content_type("application/json".into());
    send(&subscription.queue, "", properties, b"{}").await;
    eventually("it is delivered", || async {
        let calls = sink.calls().len();
        when(calls == 1, calls)
    })
    .await;
    let message = sink.calls().remove(0).delivery.message;
    let mut fields: Vec<_> = message
        .headers
        .iter()
        .filter(|(name, _)| !name.starts_with("x-amqp-"))
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    fields.sort_unstable();
    let expected = [
        ("ce-source", "/mycontext"),
        ("ce-specversion", "1.0"),
        ("ce-type", "com.example.some%20event"),
        ("other", "as it was"),
    ];
    assert_eq!(fields, expected);
    assert_eq!(message.content_type.as_deref(), Some("application/json"));
    dispatcher
        .forget(&subscription.trigger)
        .await
        .expect("forgotten");
    delete(&url, &subscription.queue).await;
}

#[tokio::test]
#[ignore = "needs RabbitMQ: testing/rabbitmq/up"]
async fn a_message_that_is_too_long_is_a_dead_letter_without_a_call() {
    let url = shared();
    let (dispatcher, subscription, sink) = (open(&url).await, subscription(1), handling());
    dispatcher
        .apply(&subscription, sink.clone())
        .await
        .expect("applied");
    eventually("the queue is there", || async {
        let seen = look(&url, &subscription.queue).await;
        when(seen.is_some_and(|(_, consumers)| consumers == 1), seen)
    })
    .await;
    let long = vec![b'x'; (1 << 20) + 1];
    send(&subscription.queue, "", BasicProperties::default(), &long).await;
    let small = Message {
        body: "small".into(),
        ..Message::default()
    };
    let published = dispatcher.publish(&subscription.trigger.namespace, &subscription.queue, small);
    published.await.expect("published");
    let letters = eventually("it is dead", || async {
        let query = DeadLetterQuery::first(10);
        let page = dispatcher
            .dead_letters(&subscription.trigger, &query)
            .await
            .expect("read");
        when(page.items.len() == 1, page.items)
    })
    .await;
    assert!(
        letters[0].reason.contains("message_bytes"),
        "{}",
        letters[0].reason
    );
    assert_eq!(
        (letters[0].message.body.len(), letters[0].attempts),
        (long.len(), 0)
    );
    eventually("the small one is delivered", || async {
        let calls = sink.calls().len();
        when(calls == 1, calls)
    })
    .await;
    assert_eq!(&sink.calls()[0].delivery.message.body[..], b"small");
    let status = dispatcher
        .status(&subscription.trigger)
        .await
        .expect("a status")
        .expect("one");
    assert_eq!(
        (status.delivered, status.dead_lettered),
        (1, 1),
        "{status:?}"
    );
    dispatcher
        .forget(&subscription.trigger)
        .await
        .expect("forgotten");
    delete(&url, &subscription.queue).await;
}

#[tokio::test]
#[ignore = "needs RabbitMQ: testing/rabbitmq/up"]
async fn a_message_that_waits_long_holds_up_none_that_waits_shortly() {
    let url = shared();
    let (dispatcher, subscription) = (open(&url).await, subscription(1));
    let sink = sink(
        |delivery| match (&delivery.message.body[..], delivery.attempt) {
            (b"long", 1) => Disposition::Retry {
                after: Duration::from_secs(20),
                reason: "later".to_owned(),
            },
            (_, 1) => Disposition::Retry {
                after: Duration::from_millis(100),
                reason: "soon".to_owned(),
            },
            _ => Disposition::Done,
        },
    );
    dispatcher
        .apply(&subscription, sink.clone())
        .await
        .expect("applied");
    for body in ["long", "short"] {
        let message = Message {
            body: body.into(),
            ..Message::default()
        };
        let namespace = &subscription.trigger.namespace;
        dispatcher
            .publish(namespace, &subscription.queue, message)
            .await
            .expect("published");
    }
    eventually("the short one has come twice", || async {
        let calls = sink.calls();
        let short = calls
            .iter()
            .filter(|call| call.delivery.message.body == "short")
            .count();
        when(short == 2, short)
    })
    .await;
    let (first, last) = (sink.calls()[0].at, sink.calls().pop().expect("a call").at);
    assert!(
        last - first < Duration::from_secs(15),
        "it took {:?}",
        last - first
    );
    dispatcher
        .forget(&subscription.trigger)
        .await
        .expect("forgotten");
    delete(&url, &subscription.queue).await;
}
