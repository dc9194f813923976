use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use super::*;
use crate::{
    DeadLetterQuery, DeadLetterSelection, Delivery, DeliveryOptions, Dispatcher, Disposition,
    EventSink, Message, Publish, Subscription, TriggerId,
};

/// Keeps what was delivered, and answers what the test says.
#[derive(Debug)]
struct Sink {
    delivered: Mutex<Vec<(String, u32)>>,
    answer: fn(&Delivery) -> Disposition,
    takes: Duration,
    clock: Arc<dyn Clock>,
}

impl Sink {
    fn new(
        clock: &Arc<dyn Clock>,
        takes: Duration,
        answer: fn(&Delivery) -> Disposition,
    ) -> Arc<Self> {
        Arc::new(Self {
            delivered: Mutex::default(),
            answer,
            takes,
            clock: Arc::clone(clock),
        })
    }

    fn delivered(&self) -> Vec<(String, u32)> {
        lock(&self.delivered).clone()
    }
}

#[async_trait]
impl EventSink for Sink {
    async fn deliver(&self, delivery: Delivery) -> Disposition {
        self.clock.sleep(self.takes).await;
        lock(&self.delivered).push((delivery.message.id.clone(), delivery.attempt));
        (self.answer)(&delivery)
    }
}

fn subscription(generation: i64) -> Subscription {
    let trigger = TriggerId {
        namespace: namespace(),
        name: name("t"),
        uid: Uid::new("t"),
    };
    Subscription {
        trigger,
        generation,
        queue: "q".to_owned(),
        declare: crate::QueueDeclare::default(),
        delivery: DeliveryOptions::default(),
    }
}

fn message(id: &str) -> Message {
    Message {
        id: id.to_owned(),
        body: "x".into(),
        ..Message::default()
    }
}

fn owned(delivered: &[(&str, u32)]) -> Vec<(String, u32)> {
    delivered
        .iter()
        .map(|(id, attempt)| ((*id).to_owned(), *attempt))
        .collect()
}

#[tokio::test]
async fn messages_are_tried_again_given_up_and_redriven() {
    let (time, clock) = clocks();
    let dispatcher = MemoryDispatcher::new(Arc::clone(&clock));
    let sink = Sink::new(&clock, Duration::ZERO, |delivery| match delivery.attempt {
        _ if delivery.message.id == "good" => Disposition::Done,
        1 => Disposition::Retry {
            after: 5 * SECOND,
            reason: "once more".to_owned(),
        },
        _ => Disposition::Dead {
            reason: "enough".to_owned(),
        },
    });
    for id in ["bad", "good"] {
        dispatcher
            .publish(&namespace(), "q", message(id))
            .await
            .expect("stored");
    }
    let subscription = subscription(1);
    dispatcher
        .apply(&subscription, sink.clone())
        .await
        .expect("applied");
    time.advance(4 * SECOND).await;
    assert_eq!(sink.delivered(), owned(&[("bad", 1), ("good", 1)]));
    time.advance(SECOND).await;
    let trigger = &subscription.trigger;
    let page = dispatcher
        .dead_letters(trigger, &DeadLetterQuery::first(10))
        .await
        .expect("a page");
    assert_eq!((page.items.len(), &*page.items[0].reason), (1, "enough"));
    assert_eq!(
        (page.items[0].attempts, &*page.items[0].message.id),
        (2, "bad")
    );
    let status = dispatcher
        .status(trigger)
        .await
        .expect("there")
        .expect("served");
    assert_eq!(
        (status.delivered, status.failed, status.dead_lettered),
        (1, 2, 1)
    );
    assert!(status.connected);

    let all = DeadLetterSelection::All;
    assert_eq!(
        dispatcher.redrive(trigger, &all).await.expect("redriven"),
        1
    );
    time.advance(5 * SECOND).await;
    assert_eq!(sink.delivered()[3..], owned(&[("bad", 1), ("bad", 2)]));
    assert_eq!(dispatcher.purge(trigger, &all).await.expect("purged"), 1);
    assert_eq!(dispatcher.purge(trigger, &all).await.expect("purged"), 0);
}

#[tokio::test]
async fn a_new_description_waits_for_what_is_in_flight() {
    let (time, clock) = clocks();
    let dispatcher = MemoryDispatcher::new(Arc::clone(&clock));
    let sinks = [(); 2].map(|()| Sink::new(&clock, 10 * SECOND, |_| Disposition::Done));
    for id in ["1", "2"] {
        dispatcher
            .publish(&namespace(), "q", message(id))
            .await
            .expect("stored");
    }
    dispatcher
        .apply(&subscription(1), sinks[0].clone())
        .await
        .expect("applied");
    time.advance(SECOND).await;
    let status = dispatcher
        .apply(&subscription(2), sinks[1].clone())
        .await
        .expect("applied");
    assert_eq!((status.in_flight, status.waiting), (1, Some(1)));
    time.advance(9 * SECOND).await;
    assert_eq!(sinks[0].delivered(), owned(&[("1", 1)]));
    assert_eq!(sinks[1].delivered(), []);
    time.advance(10 * SECOND).await;
    assert_eq!(sinks[1].delivered(), owned(&[("2", 1)]));
    assert_eq!(sinks[0].delivered().len(), 1);
}

#[tokio::test]
async fn a_crash_gives_messages_back_and_another_sink_takes_over() {
    let (time, clock) = clocks();
    let dispatcher = MemoryDispatcher::new(Arc::clone(&clock));
    let slow = Sink::new(&clock, 10 * SECOND, |_| Disposition::Done);
    dispatcher
        .publish(&namespace(), "q", message("1"))
        .await
        .expect("stored");
    dispatcher
        .apply(&subscription(1), slow.clone())
        .await
        .expect("applied");
    time.advance(SECOND).await;
    let dispatcher = dispatcher.restarted().await;
    assert_eq!(
        dispatcher
            .status(&subscription(1).trigger)
            .await
            .expect("asked"),
        None
    );
    let quick = Sink::new(&clock, SECOND, |_| Disposition::Done);
    dispatcher
        .apply(&subscription(1), slow.clone())
        .await
        .expect("applied");
    // The same description: only the sink changes, before anything is taken.
    dispatcher
        .apply(&subscription(1), quick.clone())
        .await
        .expect("applied");
    time.advance(60 * SECOND).await;
    assert_eq!(quick.delivered(), owned(&[("1", 1)]));
    assert_eq!(slow.delivered(), []);
    let receipt = dispatcher
        .remove(&subscription(1).trigger)
        .await
        .expect("removed");
    assert_eq!(receipt.removed.len(), 1);
    let receipt = dispatcher
        .remove(&subscription(1).trigger)
        .await
        .expect("removed");
    assert_eq!(receipt.removed, []);
}

#[tokio::test]
async fn queues_messages_and_dead_letters_have_limits() {
    let (time, clock) = clocks();
    let config = MemoryDispatcherConfig {
        queue_messages: 2,
        message_bytes: 10,
        queues: 1,
        dead_letters: 1,
    };
    let dispatcher = MemoryDispatcher::with_config(Arc::clone(&clock), config);
    let publish = async |queue: &str, message| {
        dispatcher
            .publish(&namespace(), queue, message)
            .await
            .map_err(|e| e.reason().to_owned())
    };
    for id in ["1", "2"] {
        assert_eq!(publish("q", message(id)).await, Ok(()));
    }
    assert_eq!(
        publish("q", message("3")).await,
        Err("limit_queue_messages".to_owned())
    );
    assert_eq!(
        publish("other", message("3")).await,
        Err("limit_queues".to_owned())
    );
    let long = message("0123456789");
    assert_eq!(
        publish("q", long).await,
        Err("limit_message_bytes".to_owned())
    );

    let sink = Sink::new(&clock, Duration::ZERO, |_| Disposition::Dead {
        reason: "no".to_owned(),
    });
    dispatcher
        .apply(&subscription(1), sink)
        .await
        .expect("applied");
    time.settle().await;
    let trigger = &subscription(1).trigger;
    let status = dispatcher
        .status(trigger)
        .await
        .expect("asked")
        .expect("served");
    assert_eq!((status.dead_lettered, status.waiting), (1, Some(1)));
    assert_eq!(
        status.message,
        "limit dead_letters of 1 dead letters exceeded"
    );
    dispatcher.shutdown().await;
    let status = dispatcher
        .status(trigger)
        .await
        .expect("asked")
        .expect("served");
    assert!(!status.connected);
}

#[tokio::test]
async fn a_released_message_comes_again_as_the_same_attempt_after_a_pause() {
    let (time, clock) = clocks();
    let dispatcher = MemoryDispatcher::new(Arc::clone(&clock));
    let sink = Sink::new(&clock, Duration::ZERO, |_| Disposition::Release);
    dispatcher
        .publish(&namespace(), "q", message("1"))
        .await
        .expect("stored");
    dispatcher
        .apply(&subscription(1), sink.clone())
        .await
        .expect("applied");
    time.settle().await;
    assert_eq!(sink.delivered(), owned(&[("1", 1)]));
    time.advance(Duration::from_millis(
        subscription(1).delivery.min_backoff_ms,
    ))
    .await;
    assert_eq!(sink.delivered(), owned(&[("1", 1), ("1", 1)]));
    let status = dispatcher
        .status(&subscription(1).trigger)
        .await
        .expect("asked")
        .expect("served");
    assert_eq!((status.delivered, status.failed), (0, 0));
}
