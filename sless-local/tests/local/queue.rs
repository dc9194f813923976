//! What the queues promise beyond the suite: limits, order, restarts.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use sless_core::{
    DeadLetterQuery, DeadLetterSelection, Delivery, DeliveryOptions, Dispatcher as _, Disposition,
    EventSink, Message, Name, Namespace, Publish as _, Subscription, VirtualClock,
    resource::{TriggerId, Uid},
};
use sless_local::{DataDir, LocalDispatcher, QueueConfig};

type Answer = Box<dyn Fn(&Delivery) -> Disposition + Send + Sync>;

/// Keeps what it was given, and answers as told.
struct Sink {
    seen: Mutex<Vec<(String, u32)>>,
    answer: Answer,
}

impl Sink {
    fn new(answer: impl Fn(&Delivery) -> Disposition + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            seen: Mutex::default(),
            answer: Box::new(answer),
        })
    }

    fn seen(&self) -> Vec<(String, u32)> {
        self.seen.lock().expect("no panic").clone()
    }

    fn ids(&self) -> BTreeSet<String> {
        self.seen().into_iter().map(|(id, _)| id).collect()
    }
}

impl std::fmt::Debug for Sink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sink")
    }
}

#[async_trait]
impl EventSink for Sink {
    async fn deliver(&self, delivery: Delivery) -> Disposition {
        let seen = (delivery.message.id.clone(), delivery.attempt);
        self.seen.lock().expect("no panic").push(seen);
        (self.answer)(&delivery)
    }
}

fn trigger(name: &str) -> TriggerId {
    TriggerId {
        namespace: namespace(),
        name: Name::new(name).expect("a name"),
        uid: Uid::new(format!("uid-{name}")),
    }
}

fn namespace() -> Namespace {
    Namespace::new("ns").expect("a namespace")
}

fn subscription(in_flight: u32, prefetch: u32) -> Subscription {
    Subscription {
        trigger: trigger("t"),
        generation: 1,
        queue: "q".to_owned(),
        declare: sless_core::QueueDeclare::default(),
        delivery: DeliveryOptions {
            in_flight,
            prefetch,
            ..DeliveryOptions::default()
        },
    }
}

fn message(id: impl ToString) -> Message {
    Message {
        id: id.to_string(),
        body: vec![0, 255].into(),
        ..Message::default()
    }
}

fn open(dir: &DataDir, clock: &VirtualClock, config: &QueueConfig) -> LocalDispatcher {
    LocalDispatcher::open(dir, config, Arc::new(clock.clone())).expect("opens")
}

fn folder() -> (tempfile::TempDir, DataDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = DataDir::open(folder.path()).expect("a data folder");
    (folder, dir)
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// As [`until`], with a second of the clock's time between two looks.
async fn passing(clock: &VirtualClock, what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        clock.advance(Duration::from_secs(1)).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_limit_is_an_error_that_names_it() {
    let (_folder, dir) = folder();
    let config = QueueConfig {
        queues: 2,
        queue_messages: 2,
        queue_bytes: 40,
        message_bytes: 20,
        ..QueueConfig::default()
    };
    let dispatcher = open(&dir, &VirtualClock::default(), &config);
    let publish = async |queue: &str, bytes: usize| {
        let message = Message {
            body: vec![7; bytes].into(),
            ..Message::default()
        };
        dispatcher.publish(&namespace(), queue, message).await
    };
    publish("a", 20).await.expect("as long as may be");
    let reason =
        |outcome: sless_core::Result<()>| outcome.expect_err("over the limit").reason().to_owned();
    assert_eq!(reason(publish("a", 21).await), "limit_message_bytes");
    publish("a", 1).await.expect("the second");
    assert_eq!(reason(publish("a", 1).await), "limit_queue_messages");
    publish("b", 20).await.expect("another queue");
    publish("b", 20).await.expect("full to the byte");
    assert_eq!(reason(publish("c", 1).await), "limit_queues");
    // What dies keeps its place, so that it always finds one.
    let dead = Sink::new(|_| Disposition::Dead {
        reason: "no".to_owned(),
    });
    dispatcher
        .apply(
            &Subscription {
                queue: "a".to_owned(),
                ..subscription(1, 0)
            },
            dead.clone(),
        )
        .await
        .expect("applied");
    until("both are dead", || dead.seen().len() == 2).await;
    assert_eq!(reason(publish("a", 1).await), "limit_queue_messages");
    dispatcher.remove(&trigger("t")).await.expect("removed");
    let purged = dispatcher
        .purge(&trigger("t"), &DeadLetterSelection::All)
        .await;
    assert_eq!(purged.expect("purged"), 2);
    publish("a", 1).await.expect("there is room again");
    let mut other = config.clone();
    other.queue_messages = 10;
    drop(dispatcher);
    let dispatcher = open(&dir, &VirtualClock::default(), &other);
    let third = Message {
        body: vec![7].into(),
        ..Message::default()
    };
    let refused = dispatcher.publish(&namespace(), "b", third).await;
    assert_eq!(reason(refused), "limit_queue_bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_its_next_attempt_outlives_the_process() {
    let (_folder, dir) = folder();
    let clock = VirtualClock::default();
    let dispatcher = open(&dir, &clock, &QueueConfig::default());
    let sent = Message {
        id: "m".to_owned(),
        body: (0..=255).collect::<Vec<u8>>().into(),
        content_type: Some("application/x".to_owned()),
        headers: BTreeMap::from([("a".to_owned(), "\"é\u{1}".to_owned())]),
        published_at: None,
    };
    dispatcher
        .publish(&namespace(), "q", sent.clone())
        .await
        .expect("published");
    let hour = Duration::from_secs(3600);
    let later = Sink::new(move |_| Disposition::Retry {
        after: hour,
        reason: "later".to_owned(),
    });
    dispatcher
        .apply(&subscription(4, 4), later.clone())
        .await
        .expect("applied");
    until("one attempt", || later.seen().len() == 1).await;
    dispatcher.shutdown().await;
    drop(dispatcher);

    let dispatcher = open(&dir, &clock, &QueueConfig::default());
    let dead = Sink::new(|_| Disposition::Dead {
        reason: "enough".to_owned(),
    });
    dispatcher
        .apply(&subscription(4, 4), dead.clone())
        .await
        .expect("applied");
    clock.advance(hour - Duration::from_secs(1)).await;
    let status = dispatcher
        .status(&trigger("t"))
        .await
        .expect("a status")
        .expect("there");
    assert_eq!(
        (status.waiting, dead.seen().len()),
        (Some(1), 0),
        "not sooner than in an hour"
    );
    passing(&clock, "the second attempt", || {
        dead.seen() == [("m".to_owned(), 2)]
    })
    .await;
    dispatcher.remove(&trigger("t")).await.expect("removed");
    let page = dispatcher
        .dead_letters(&trigger("t"), &DeadLetterQuery::first(10))
        .await;
    let letter = page.expect("a page").items.remove(0);
    let expected = Message {
        published_at: letter.message.published_at,
        ..sent
    };
    assert_eq!((letter.message, letter.attempts), (expected, 2));
    assert_eq!(letter.reason, "enough");
}

#[tokio::test(flavor = "multi_thread")]
async fn consumers_of_one_queue_share_its_messages() {
    let (_folder, dir) = folder();
    let dispatcher = open(&dir, &VirtualClock::default(), &QueueConfig::default());
    let sinks: Vec<_> = (0..3).map(|_| Sink::new(|_| Disposition::Done)).collect();
    for (number, sink) in sinks.iter().enumerate() {
        let trigger = trigger(&format!("t{number}"));
        let subscription = Subscription {
            trigger,
            ..subscription(2, 3)
        };
        dispatcher
            .apply(&subscription, sink.clone())
            .await
            .expect("applied");
    }
    let publishing = (0..300).map(|n| {
        let dispatcher = &dispatcher;
        async move {
            dispatcher
                .publish(&namespace(), "q", message(n))
                .await
                .expect("published")
        }
    });
    futures::future::join_all(publishing).await;
    until("all are delivered", || {
        sinks.iter().map(|s| s.seen().len()).sum::<usize>() >= 300
    })
    .await;
    let ids: BTreeSet<_> = sinks.iter().flat_map(|sink| sink.ids()).collect();
    assert_eq!(ids.len(), 300, "each once: none twice, none missing");
    for number in 0..3 {
        dispatcher
            .remove(&trigger(&format!("t{number}")))
            .await
            .expect("removed");
    }
    let delivered: usize = sinks.iter().map(|sink| sink.seen().len()).sum();
    assert_eq!(delivered, 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_that_panics_fails_its_message_alone() {
    let (_folder, dir) = folder();
    let clock = VirtualClock::default();
    let dispatcher = open(&dir, &clock, &QueueConfig::default());
    let sink = Sink::new(|delivery| {
        assert!(
            delivery.message.id != "bad" || delivery.attempt > 1,
            "a defect in a sink"
        );
        Disposition::Done
    });
    dispatcher
        .publish(&namespace(), "q", message("bad"))
        .await
        .expect("published");
    dispatcher
        .publish(&namespace(), "q", message("good"))
        .await
        .expect("published");
    dispatcher
        .apply(&subscription(1, 0), sink.clone())
        .await
        .expect("applied");
    until("the other one is delivered", || sink.ids().contains("good")).await;
    passing(&clock, "it comes again", || {
        sink.seen().contains(&("bad".to_owned(), 2))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_cuts_off_what_takes_too_long_and_it_comes_again() {
    #[derive(Debug, Default)]
    struct Stuck(std::sync::atomic::AtomicBool);

    #[async_trait]
    impl EventSink for Stuck {
        async fn deliver(&self, _: Delivery) -> Disposition {
            self.0.store(true, std::sync::atomic::Ordering::Relaxed);
            std::future::pending().await
        }
    }

    let (_folder, dir) = folder();
    let config = QueueConfig {
        drain_ms: 50,
        ..QueueConfig::default()
    };
    let system = Arc::new(sless_core::SystemClock);
    let dispatcher = LocalDispatcher::open(&dir, &config, system).expect("opens");
    dispatcher
        .publish(&namespace(), "q", message("m"))
        .await
        .expect("published");
    let stuck = Arc::new(Stuck::default());
    dispatcher
        .apply(&subscription(1, 0), stuck.clone())
        .await
        .expect("applied");
    until("it is under way", || {
        stuck.0.load(std::sync::atomic::Ordering::Relaxed)
    })
    .await;
    dispatcher.shutdown().await;
    let refused = dispatcher.publish(&namespace(), "q", message("n")).await;
    assert_eq!(refused.expect_err("shut down").reason(), "closed");
    drop(dispatcher);
    let dispatcher = open(&dir, &VirtualClock::default(), &config);
    let sink = Sink::new(|_| Disposition::Done);
    dispatcher
        .apply(&subscription(1, 0), sink.clone())
        .await
        .expect("applied");
    until("it comes again", || sink.seen() == [("m".to_owned(), 1)]).await;
}
