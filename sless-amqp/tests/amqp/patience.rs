//! What takes too long: a call, for the broker (`consumer_timeout`); a queue's word, for the dispatcher.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use sless_amqp::AmqpDispatcher;
use sless_core::{Delivery, Dispatcher as _, Disposition, EventSink, Message, Publish as _};
use tokio::sync::Semaphore;

use super::support::{Broker, config, eventually, look, sink, subscription, when};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs RabbitMQ: testing/rabbitmq/up"]
async fn a_delay_queue_without_a_leader_is_gone_around() {
    let broker = Broker::start();
    let mut config = config(broker.url());
    config.confirm_ms = 2_000;
    let dispatcher = AmqpDispatcher::connect(config).await.expect("a dispatcher");
    // Each message fails once.
    let sink = sink(|delivery: &Delivery| match delivery.attempt {
        1 => Disposition::Retry {
            after: Duration::from_millis(10),
            reason: "once".to_owned(),
        },
        _ => Disposition::Done,
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
    let calls = |id: &str| {
        let calls = sink.calls();
        let of = calls.iter().filter(|call| call.delivery.message.id == id);
        of.count()
    };
    publish("before").await;
    eventually("a message comes again", || async {
        when(calls("before") == 2, calls("before"))
    })
    .await;
    // What a kill does to a queue at times: it is there, and nobody leads it.
    let ended = broker.ctl(&[
        "eval",
        "[ra:stop_server(quorum_queues, amqqueue:get_pid(Q)) || Q <- rabbit_amqqueue:list(), \
         string:find(element(4, amqqueue:get_name(Q)), <<\"sless.delay\">>) =/= nomatch].",
    ]);
    assert!(ended.contains("ok"), "one queue has no leader: {ended}");
    for id in ["one", "two", "three"] {
        publish(id).await;
    }
    eventually("they come again all the same", || async {
        let seen = ["one", "two", "three"].map(calls);
        when(seen == [2, 2, 2], seen)
    })
    .await;
    let queues = broker.ctl(&["list_queues", "name"]);
    assert!(
        queues.contains("sless.delay-1."),
        "a spare is used: {queues}"
    );
    dispatcher.shutdown().await;
}
