//! A call that takes longer than the broker waits for an acknowledgement (`consumer_timeout`).

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use sless_amqp::AmqpDispatcher;
use sless_core::{Delivery, Dispatcher as _, Disposition, EventSink, Message, Publish as _};
use tokio::sync::Semaphore;

use super::support::{Broker, config, eventually, look, subscription, when};

/// Keeps the first call of the message `slow` until the test lets it go; all else is done at once.
#[derive(Debug)]
struct Held {
    calls: Mutex<BTreeMap<String, u32>>,
    go: Semaphore,
}

impl Held {
    fn calls(&self, id: &str) -> u32 {
        let calls = self.calls.lock().expect("no panic");
        calls.get(id).copied().unwrap_or_default()
    }
}

#[async_trait]
impl EventSink for Held {
    async fn deliver(&self, delivery: Delivery) -> Disposition {
        let id = delivery.message.id;
        let first = {
            let mut calls = self.calls.lock().expect("no panic");
            let times = calls.entry(id.clone()).or_default();
            *times += 1;
            *times == 1
        };
        if first && id == "slow" {
            self.go.acquire().await.expect("never closed").forget();
        }
        Disposition::Done
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs RabbitMQ: testing/rabbitmq/up"]
async fn a_call_longer_than_the_broker_waits_comes_again_and_stops_nothing() {
    let broker = Broker::start();
    // Channels that are opened from now on wait for two seconds, and look each half second.
    broker.ctl(&[
        "eval",
        "application:set_env(rabbit, consumer_timeout, 2000), \
         application:set_env(rabbit, channel_tick_interval, 500).",
    ]);
    let opened = AmqpDispatcher::connect(config(broker.url())).await;
    let dispatcher = opened.expect("a dispatcher");
    let sink = Arc::new(Held {
        calls: Mutex::default(),
        go: Semaphore::new(0),
    });
    let subscription = subscription(2);
    let (namespace, queue) = (&subscription.trigger.namespace, &subscription.queue);
    let applied = dispatcher.apply(&subscription, sink.clone()).await;
    applied.expect("applied");
    let publish = async |id: &str| {
        let message = Message {
            id: id.to_owned(),
            ..Message::default()
        };
        let published = dispatcher.publish(namespace, queue, message).await;
        published.expect("published");
    };
    publish("slow").await;
    for number in 0..5 {
        publish(&format!("quick{number}")).await;
    }
    // The broker ends the channel while the first call is still under way, and gives the message out
    // again.
    eventually("the message comes again", || async {
        let seen = sink.calls("slow");
        when(seen >= 2, seen)
    })
    .await;
    sink.go.add_permits(1);
    publish("after").await;
    eventually(
        "everything is handled, and one consumer is left",
        || async {
            let quick: Vec<_> = (0..5).map(|n| sink.calls(&format!("quick{n}"))).collect();
            let seen = look(broker.url(), queue).await;
            let handled = quick.iter().all(|times| *times > 0) && sink.calls("after") == 1;
            when(handled && seen == Some((0, 1)), (quick, seen))
        },
    )
    .await;
    assert_eq!(sink.calls("slow"), 2, "the second call is acknowledged");
    dispatcher.shutdown().await;
}
