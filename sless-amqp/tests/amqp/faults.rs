//! Brokers that go, come back, fall silent, take nothing and forget.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures::StreamExt as _;
use sless_amqp::AmqpDispatcher;
use sless_conformance::dispatcher::RecordingSink;
use sless_core::{
    Change, ChangeStream, Delivery, Dispatcher as _, Disposition, Message, Publish as _,
    Subscription, SubscriptionStatus,
};

use super::support::{
    Broker, SETTLED, config, delete, eventually, handling, look, sink, subscription, when,
};

/// A trigger of a broker that is about to break.
struct Scene {
    broker: Broker,
    dispatcher: Arc<AmqpDispatcher>,
    subscription: Subscription,
    sink: Arc<RecordingSink>,
    changes: ChangeStream,
    sent: AtomicU32,
}

impl Scene {
    async fn open() -> Self {
        let broker = Broker::start();
        let opened = AmqpDispatcher::connect(config(broker.url())).await;
        let dispatcher = Arc::new(opened.expect("a dispatcher"));
        // What begins with r fails once.
        let sink = sink(|delivery: &Delivery| {
            if delivery.message.id.starts_with('r') && delivery.attempt == 1 {
                Disposition::Retry {
                    after: Duration::from_millis(10),
                    reason: "once".to_owned(),
                }
            } else {
                Disposition::Done
            }
        });
        let (subscription, changes) = (subscription(2), dispatcher.changes());
        dispatcher
            .apply(&subscription, sink.clone())
            .await
            .expect("applied");
        let scene = Self {
            broker,
            dispatcher,
            subscription,
            sink,
            changes,
            sent: AtomicU32::new(0),
        };
        scene.connected().await;
        scene
    }

    async fn status(&self) -> SubscriptionStatus {
        let status = self.dispatcher.status(&self.subscription.trigger).await;
        status.expect("a status").expect("a subscription")
    }

    async fn connected(&self) {
        eventually("it is connected", || async {
            let status = self.status().await;
            when(status.connected && self.dispatcher.health().is_ok(), status)
        })
        .await;
    }

    async fn disconnected(&self) -> SubscriptionStatus {
        eventually("the status says that it is disconnected", || async {
            let status = self.status().await;
            when(!status.connected && !status.message.is_empty(), status)
        })
        .await
    }

    /// Publishes; answers the id. Where the broker gave no word, it is another message that counts.
    async fn send(&self, prefix: &str) -> String {
        eventually("a message is published", || async {
            let id = format!("{prefix}{}", self.sent.fetch_add(1, Ordering::SeqCst));
            match self.publish(&id).await {
                Ok(()) => Ok(id),
                Err(error) => Err(error.to_string()),
            }
        })
        .await
    }

    async fn publish(&self, id: &str) -> sless_core::Result<()> {
        let message = Message {
            id: id.to_owned(),
            ..Message::default()
        };
        let namespace = &self.subscription.trigger.namespace;
        self.dispatcher
            .publish(namespace, &self.subscription.queue, message)
            .await
    }

    fn times(&self, id: &str) -> usize {
        let calls = self.sink.calls();
        calls
            .iter()
            .filter(|call| call.delivery.message.id == id)
            .count()
    }

    async fn delivered(&self, id: &str, times: usize) {
        eventually(&format!("{id} is delivered {times} times"), || async {
            let seen = self.times(id);
            when(seen >= times, seen)
        })
        .await;
    }

    /// Messages come, once each.
    async fn works(&mut self, after: &str) {
        self.connected().await;
        let (plain, retried) = (self.send("m").await, self.send("r").await);
        self.delivered(&plain, 1).await;
        self.delivered(&retried, 2).await;
        eventually("nothing is left over", || async {
            let seen = look(self.broker.url(), &self.subscription.queue).await;
            when(seen == Some((0, 1)), seen)
        })
        .await;
        assert_eq!(self.times(&plain), 1, "after {after}");
        assert!(self.hints() > 0, "no hint came of {after}");
    }

    fn hints(&mut self) -> usize {
        let key = self.subscription.trigger.key();
        let mut count = 0;
        while let Some(Some(change)) = futures::FutureExt::now_or_never(self.changes.next()) {
            assert!(matches!(&change, Change::All) || change == Change::Object(key.clone()));
            count += 1;
        }
        count
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs RabbitMQ: testing/rabbitmq/up"]
async fn a_subscription_outlives_whatever_happens_to_its_broker() {
    let mut scene = Scene::open().await;
    scene.works("the begin").await;

    scene.broker.ctl(&["close_all_connections", "maintenance"]);
    scene.works("closing all connections").await;

    let queue = scene.subscription.queue.clone();
    delete(scene.broker.url(), &queue).await;
    scene
        .works("deleting the queue, which the trigger then makes again")
        .await;

    // A call is under way while the broker is killed.
    tokio::time::sleep(SETTLED).await;
    scene.sink.hold();
    let waiting = scene.send("r").await;
    scene.delivered(&waiting, 1).await;
    scene.broker.kill();
    scene.disconnected().await;
    scene.sink.release();
    scene.broker.restart();
    scene.delivered(&waiting, 2).await;
    scene.works("a kill with a call under way").await;
    let again = scene.times(&waiting);
    assert!(
        again <= 3,
        "a message that was in flight came {again} times"
    );

    // Idle while the broker is away.
    scene.broker.kill();
    let status = scene.disconnected().await;
    assert_eq!(status.reason, "disconnected", "{status:?}");
    // The connection that publishes may notice a moment later.
    eventually("readiness tells", || async {
        when(scene.dispatcher.health().is_err(), ())
    })
    .await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(scene.hints() < 8, "hints of one outage");
    scene.broker.restart();
    scene.works("an outage").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs RabbitMQ: testing/rabbitmq/up"]
async fn a_broker_that_is_silent_or_takes_nothing_is_told_and_waited_for() {
    let mut scene = Scene::open().await;
    scene.works("the begin").await;

    // A broker that is stopped holds its connections open and says nothing.
    scene.broker.signal("STOP");
    scene.disconnected().await;
    scene.broker.signal("CONT");
    scene.works("a silence").await;

    // An alarm: the next attempt cannot be written down, and the message is not let go.
    scene
        .broker
        .ctl(&["set_vm_memory_high_watermark", "0.0000001"]);
    // It takes one or two before it stops reading.
    let mut taken = 0;
    let patience = Duration::from_secs(2);
    while tokio::time::timeout(patience, scene.publish("blocked"))
        .await
        .is_ok()
    {
        taken += 1;
        assert!(taken < 20, "a broker under alarm takes {taken} messages");
    }
    let status = eventually("the status names the alarm", || async {
        let status = scene.status().await;
        when(status.reason == "broker_blocked", status)
    })
    .await;
    assert!(
        !status.connected && scene.dispatcher.health().is_err(),
        "{status:?}"
    );
    scene.broker.ctl(&["set_vm_memory_high_watermark", "0.6"]);
    scene.works("an alarm").await;
    // Whether the last one was taken is open, since nobody waited for the answer.
    let seen = scene.times("blocked");
    assert!((taken..=taken + 1).contains(&seen), "{seen} of {taken}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs RabbitMQ: testing/rabbitmq/up"]
async fn a_retry_that_cannot_be_written_during_an_alarm_is_written_after_it() {
    let broker = Broker::start();
    let opened = AmqpDispatcher::connect(config(broker.url())).await;
    let dispatcher = Arc::new(opened.expect("a dispatcher"));
    let (subscription, held) = (
        subscription(1),
        sink(|delivery| {
            if delivery.attempt == 1 {
                Disposition::Retry {
                    after: Duration::from_millis(10),
                    reason: "once".to_owned(),
                }
            } else {
                Disposition::Done
            }
        }),
    );
    held.hold();
    dispatcher
        .apply(&subscription, held.clone())
        .await
        .expect("applied");
    let message = Message {
        id: "one".to_owned(),
        ..Message::default()
    };
    let namespace = &subscription.trigger.namespace;
    dispatcher
        .publish(namespace, &subscription.queue, message)
        .await
        .expect("published");
    eventually("the call is under way", || async {
        let now = held.at_once();
        when(now == 1, now)
    })
    .await;
    broker.ctl(&["set_vm_memory_high_watermark", "0.0000001"]);
    held.release();
    eventually("the status names the alarm", || async {
        let status = dispatcher
            .status(&subscription.trigger)
            .await
            .expect("a status")
            .expect("one");
        when(status.reason == "broker_blocked", status)
    })
    .await;
    assert_eq!(held.calls().len(), 1, "calls during the alarm");
    broker.ctl(&["set_vm_memory_high_watermark", "0.6"]);
    eventually("it has come again", || async {
        let calls = held.calls().len();
        when(calls == 2, calls)
    })
    .await;
    assert_eq!(held.calls()[1].delivery.attempt, 2);
}

#[tokio::test]
async fn a_broker_that_hangs_up_is_not_asked_all_the_time() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let address = listener.local_addr().expect("an address");
    let config = config(&format!("amqp://{address}"));
    let dispatcher = AmqpDispatcher::connect(config).await.expect("a dispatcher");
    dispatcher
        .apply(&subscription(1), handling())
        .await
        .expect("applied");
    let mut asked = 0;
    let count = async {
        loop {
            drop(listener.accept().await);
            asked += 1;
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(3), count).await;
    // Two connections, 50 ms and doubled each time up to a second: six or seven attempts each.
    assert!((4..=18).contains(&asked), "{asked} attempts in 3 s");
    assert!(dispatcher.health().is_err());
}
