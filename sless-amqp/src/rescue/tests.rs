use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use sless_core::{
    DeadLetter, DeadLetterQuery, DeadLetterSelection, Delivery, DeliveryOptions, Dispatcher as _,
    Disposition, EventSink, Message, Name, Namespace, Publish as _, QueueDeclare, Uid,
    resource::TriggerId,
};

use super::*;
use crate::AmqpDispatcher;

#[derive(Debug, Default)]
struct Bodies(Mutex<Vec<Bytes>>);

#[async_trait]
impl EventSink for Bodies {
    async fn deliver(&self, delivery: Delivery) -> Disposition {
        self.0.lock().expect("no panic").push(delivery.message.body);
        Disposition::Done
    }
}

fn subscription() -> Subscription {
    let uid = Uid::random();
    Subscription {
        queue: format!("tests.unreadable.{}", uid.as_str()),
        trigger: TriggerId {
            namespace: Namespace::new("tests").expect("a label"),
            name: Name::new("unreadable").expect("a label"),
            uid,
        },
        generation: 1,
        declare: QueueDeclare::Quorum,
        delivery: DeliveryOptions {
            in_flight: 2,
            ..DeliveryOptions::default()
        },
    }
}

async fn letters(dispatcher: &AmqpDispatcher, of: &Subscription, count: usize) -> Vec<DeadLetter> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let query = DeadLetterQuery::first(10);
        let found = dispatcher.dead_letters(&of.trigger, &query).await;
        let found = found.map(|page| page.items);
        match found {
            Ok(items) if items.len() == count => return items,
            seen => assert!(
                Instant::now() < deadline,
                "{count} letters, seen last: {seen:?}"
            ),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
#[ignore = "needs RabbitMQ: testing/rabbitmq/up"]
async fn a_message_that_the_client_cannot_read_is_a_dead_letter_and_the_rest_goes_on() {
    let url = std::env::var("SLESS_TEST_RABBITMQ_URL").expect("SLESS_TEST_RABBITMQ_URL is set");
    let mut config = AmqpConfig::new(&url);
    config.max_backoff_ms = 500;
    let dispatcher = AmqpDispatcher::connect(config).await.expect("a dispatcher");
    let (broken, other) = (subscription(), subscription());
    let namespace = &broken.trigger.namespace;
    let put = |queue: &str, body: &'static str| {
        let message = Message {
            body: body.into(),
            ..Message::default()
        };
        let queue = queue.to_owned();
        let dispatcher = &dispatcher;
        async move {
            dispatcher
                .publish(namespace, &queue, message)
                .await
                .expect("published")
        }
    };
    put(&broken.queue, "before").await;
    let mut wire = Wire::connect(&url.parse().expect("an address"), None)
        .await
        .expect("a wire");
    // A content type that is no UTF-8, and a header whose name is none.
    wire.put(&broken.queue, b"\x80\x00\x03a\xffb", b"latin")
        .await
        .expect("published");
    let table = b"\x20\x00\x00\x00\x00\x09\x02\xe9\xe8S\x00\x00\x00\x01x";
    wire.put(&broken.queue, table, b"names")
        .await
        .expect("published");
    wire.close().await.expect("closed");
    put(&broken.queue, "after").await;
    put(&other.queue, "other").await;
    let sink = Arc::new(Bodies::default());
    dispatcher
        .apply(&broken, sink.clone())
        .await
        .expect("applied");
    dispatcher
        .apply(&other, sink.clone())
        .await
        .expect("applied");
    let found = letters(&dispatcher, &broken, 2).await;
    let bodies: Vec<_> = found
        .iter()
        .map(|letter| &letter.message.body[..])
        .collect();
    assert_eq!(bodies, [b"latin", b"names"]);
    for letter in &found {
        assert!(
            letter.reason.contains("cannot be read"),
            "{}",
            letter.reason
        );
        assert!(
            letter.message.headers.contains_key(RAW),
            "{:?}",
            letter.message.headers
        );
    }
    // Redriven, they can be read: what could not is bytes in a header now.
    let redriven = dispatcher
        .redrive(&broken.trigger, &DeadLetterSelection::All)
        .await;
    assert_eq!(redriven.expect("redriven"), 2);
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let mut seen = sink.0.lock().expect("no panic").clone();
        seen.sort();
        // What was under way when the connection ended may have come twice.
        seen.dedup();
        if seen == ["after", "before", "latin", "names", "other"] {
            break;
        }
        assert!(Instant::now() < deadline, "seen last: {seen:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for subscription in [&broken, &other] {
        dispatcher
            .forget(&subscription.trigger)
            .await
            .expect("forgotten");
    }
    let (_, channel) = dispatcher_channel(&url).await;
    for queue in [&broken.queue, &other.queue] {
        let options = lapin::options::QueueDeleteOptions::default();
        channel
            .queue_delete(queue.as_str().into(), options)
            .await
            .expect("deleted");
    }
}

async fn dispatcher_channel(url: &str) -> (lapin::Connection, lapin::Channel) {
    let properties = lapin::ConnectionProperties::default();
    let connection = lapin::Connection::connect(url, properties)
        .await
        .expect("connected");
    let channel = connection.create_channel().await.expect("a channel");
    (connection, channel)
}
