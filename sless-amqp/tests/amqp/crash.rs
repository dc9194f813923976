//! Kills: of a dispatcher under load, and of a broker under one. Nothing is lost, and no more comes
//! twice than was in flight.
//!
//! A ledger outside of what is killed counts. `SLESS_AMQP_LONG=1` makes the rounds many;
//! `SLESS_AMQP_ROUNDS` says how many.

#![allow(clippy::print_stdout, reason = "the counts are told")]

use std::{
    collections::BTreeMap,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use sless_amqp::AmqpDispatcher;
use sless_core::{
    DeadLetterQuery, Delivery, Dispatcher as _, Disposition, EventSink, Message, Name, Namespace,
    Publish as _, QueueDeclare, Subscription, Uid, resource::TriggerId,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

use super::support::{
    Broker, SETTLED, config, delete, eventually, look, open, shared, subscription, when,
};

const IN_FLIGHT: u32 = 8;
const EACH: u32 = 40;

fn rounds(short: u32, long: u32) -> u32 {
    if let Ok(given) = std::env::var("SLESS_AMQP_ROUNDS") {
        given.parse().expect("a number of rounds")
    } else if std::env::var_os("SLESS_AMQP_LONG").is_some() {
        long
    } else {
        short
    }
}

/// What was handled, and how often.
#[derive(Debug, Default)]
struct Ledger(Mutex<BTreeMap<u32, u32>>);

impl Ledger {
    fn note(&self, number: u32) {
        *self.0.lock().expect("no panic").entry(number).or_default() += 1;
    }

    fn handled(&self) -> usize {
        self.0.lock().expect("no panic").len()
    }

    fn doubled(&self) -> u32 {
        self.0
            .lock()
            .expect("no panic")
            .values()
            .map(|times| times - 1)
            .sum()
    }

    fn missing(&self, of: impl Iterator<Item = u32>) -> Vec<u32> {
        let noted = self.0.lock().expect("no panic");
        of.filter(|number| !noted.contains_key(number)).collect()
    }
}

/// One in seven fails once; one in eleven is given up.
fn answer(delivery: &Delivery) -> Disposition {
    let number: u32 = delivery.message.id.parse().expect("a number");
    if number.is_multiple_of(11) {
        Disposition::Dead {
            reason: "given up".to_owned(),
        }
    } else if number.is_multiple_of(7) && delivery.attempt == 1 {
        Disposition::Retry {
            after: Duration::from_millis(5),
            reason: "once".to_owned(),
        }
    } else {
        Disposition::Done
    }
}

fn message(number: u32) -> Message {
    Message {
        id: number.to_string(),
        ..Message::default()
    }
}

/// Tells the ledger of the parent, and waits for its word.
#[derive(Debug)]
struct Remote(tokio::sync::Mutex<(BufReader<OwnedReadHalf>, OwnedWriteHalf)>);

#[async_trait]
impl EventSink for Remote {
    async fn deliver(&self, delivery: Delivery) -> Disposition {
        let answer = answer(&delivery);
        if answer == Disposition::Done {
            // A moment of work, in which a kill meets several calls.
            tokio::time::sleep(Duration::from_millis(2)).await;
            let mut ledger = self.0.lock().await;
            let line = format!("{}\n", delivery.message.id);
            let mut word = String::new();
            if ledger.1.write_all(line.as_bytes()).await.is_err()
                || ledger.0.read_line(&mut word).await.is_err()
            {
                return Disposition::Release;
            }
        }
        answer
    }
}

const LEDGER: &str = "SLESS_AMQP_CRASH_LEDGER";
const QUEUE: &str = "SLESS_AMQP_CRASH_QUEUE";

fn crash_subscription(queue: &str) -> Subscription {
    let mut subscription = subscription(IN_FLIGHT);
    subscription.trigger = TriggerId {
        namespace: Namespace::new("tests").expect("a label"),
        name: Name::new("crash").expect("a label"),
        uid: Uid::new(queue),
    };
    queue.clone_into(&mut subscription.queue);
    subscription.declare = QueueDeclare::Quorum;
    subscription.delivery.prefetch = IN_FLIGHT;
    subscription
}

/// The process that is killed. It is no test of its own: without its variables it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs RabbitMQ: testing/rabbitmq/up"]
async fn child() {
    let (Ok(ledger), Ok(queue)) = (std::env::var(LEDGER), std::env::var(QUEUE)) else {
        return;
    };
    let (read, write) = TcpStream::connect(ledger)
        .await
        .expect("the ledger")
        .into_split();
    let sink = Remote(tokio::sync::Mutex::new((BufReader::new(read), write)));
    let dispatcher = open(&shared()).await;
    dispatcher
        .apply(&crash_subscription(&queue), Arc::new(sink))
        .await
        .expect("applied");
    // Until it is killed, or its parent is gone.
    while std::os::unix::process::parent_id() != 1 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn start(ledger: &str, queue: &str) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "amqp::crash::child", "--include-ignored"])
        .envs([(LEDGER, ledger), (QUEUE, queue)])
        .stdout(Stdio::null())
        .stdin(Stdio::null())
        .spawn()
        .expect("a child")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs RabbitMQ: testing/rabbitmq/up"]
async fn a_dispatcher_that_is_killed_under_load_loses_nothing() {
    let rounds = rounds(50, 1_000);
    let ledger = Arc::new(Ledger::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let noting = ledger.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let ledger = noting.clone();
            tokio::spawn(async move {
                let (read, mut write) = stream.into_split();
                let mut lines = BufReader::new(read).lines();
                while let Ok(Some(line)) = lines.next_line().await {
                    ledger.note(line.parse().expect("a number"));
                    if write.write_all(b"noted\n").await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    let publisher = open(&shared()).await;
    let subscription = crash_subscription(&super::support::unique("tests.crash"));
    let (namespace, queue) = (&subscription.trigger.namespace, &subscription.queue);
    let mut sent = 0;
    for _ in 0..rounds {
        let mut killed = start(&address, queue);
        for _ in 0..EACH {
            sent += 1;
            publisher
                .publish(namespace, queue, message(sent))
                .await
                .expect("published");
        }
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..150))).await;
        killed.kill().expect("killed");
        killed.wait().expect("ended");
    }
    let during = ledger.handled();
    let mut last = start(&address, queue);
    let dead = (1..=sent)
        .filter(|number| number.is_multiple_of(11))
        .count();
    let expected = sent as usize - dead;
    eventually("all are handled", || async {
        when(ledger.handled() == expected, ledger.handled())
    })
    .await;
    eventually("nothing is left in the queue", || async {
        let seen = look(&shared(), queue).await;
        when(seen == Some((0, 1)), seen)
    })
    .await;
    last.kill().expect("killed");
    last.wait().expect("ended");
    let missing = ledger.missing((1..=sent).filter(|number| !number.is_multiple_of(11)));
    assert_eq!(missing, Vec::<u32>::new(), "lost");
    // Those that were given up are dead letters, all of them.
    let mut letters = BTreeMap::<String, u32>::new();
    let mut query = DeadLetterQuery::first(1_000);
    loop {
        let read = publisher.dead_letters(&subscription.trigger, &query).await;
        let page = read.expect("read");
        for letter in page.items {
            *letters.entry(letter.message.id).or_default() += 1;
        }
        match page.next {
            Some(next) => query = query.from_cursor(Some(next)),
            None => break,
        }
    }
    assert_eq!(letters.len(), dead, "dead letters");
    let twice: u32 = letters.values().map(|times| times - 1).sum();
    let (doubled, most) = (ledger.doubled(), rounds * IN_FLIGHT);
    println!(
        "{rounds} kills, {sent} messages, {during} handled before the last start: 0 lost, \
         {doubled} calls and {twice} dead letters double, of {most} that may have been in flight"
    );
    assert!(
        doubled + twice <= most,
        "{doubled} and {twice} double, of {most} in flight"
    );
    assert!(during > 0, "the kills were all too early to meet any work");
    publisher
        .forget(&subscription.trigger)
        .await
        .expect("forgotten");
    delete(&shared(), queue).await;
}

/// Notes within the test's own process, which is not what is killed here.
#[derive(Debug)]
struct Here(Arc<Ledger>);

#[async_trait]
impl EventSink for Here {
    async fn deliver(&self, delivery: Delivery) -> Disposition {
        let answer = answer(&delivery);
        if answer == Disposition::Done {
            tokio::time::sleep(Duration::from_millis(2)).await;
            self.0.note(delivery.message.id.parse().expect("a number"));
        }
        answer
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs RabbitMQ: testing/rabbitmq/up"]
async fn a_broker_that_is_killed_or_restarted_under_load_loses_nothing() {
    let rounds = rounds(3, 50);
    let broker = Arc::new(Broker::start());
    let ledger = Arc::new(Ledger::default());
    let opened = AmqpDispatcher::connect(config(broker.url())).await;
    let dispatcher = Arc::new(opened.expect("a dispatcher"));
    let subscription = crash_subscription(&super::support::unique("tests.restart"));
    let (namespace, queue) = (
        subscription.trigger.namespace.clone(),
        subscription.queue.clone(),
    );
    dispatcher
        .apply(&subscription, Arc::new(Here(ledger.clone())))
        .await
        .expect("applied");
    let (mut next, mut confirmed) = (0, Vec::new());
    // One that fails once and one that is given up make the other queues; then all of them get old.
    for number in [7, 11] {
        let published = dispatcher.publish(&namespace, &queue, message(number));
        published.await.expect("published");
        next = number;
        confirmed.push(number);
    }
    tokio::time::sleep(SETTLED).await;
    for round in 0..rounds {
        let end = {
            let broker = broker.clone();
            tokio::task::spawn_blocking(move || {
                std::thread::sleep(Duration::from_millis(fastrand::u64(50..400)));
                if round % 3 == 2 {
                    broker.ctl(&["stop_app"]);
                    broker.ctl(&["start_app"]);
                } else {
                    broker.kill();
                    broker.restart();
                }
            })
        };
        // What is not confirmed may or may not be there; only what is, counts.
        while !end.is_finished() {
            next += 1;
            if dispatcher
                .publish(&namespace, &queue, message(next))
                .await
                .is_ok()
            {
                confirmed.push(next);
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        end.await.expect("restarted");
    }
    let alive = || {
        confirmed
            .iter()
            .copied()
            .filter(|number| !number.is_multiple_of(11))
    };
    eventually("all that were confirmed are handled", || async {
        let missing = ledger.missing(alive());
        let first: Vec<_> = missing.iter().copied().take(20).collect();
        let status = dispatcher
            .status(&subscription.trigger)
            .await
            .ok()
            .flatten();
        when(missing.is_empty(), (missing.len(), first, status))
    })
    .await;
    let query = DeadLetterQuery::first(1_000);
    let dead: Vec<_> = confirmed
        .iter()
        .filter(|number| number.is_multiple_of(11))
        .collect();
    eventually("all that were given up are dead letters", || async {
        let read = dispatcher.dead_letters(&subscription.trigger, &query).await;
        let letters = read.expect("read").items;
        let there = |number: &u32| letters.iter().any(|l| l.message.id == number.to_string());
        when(dead.iter().all(|number| there(number)), letters.len())
    })
    .await;
    let (doubled, most) = (ledger.doubled(), rounds * IN_FLIGHT);
    println!(
        "{rounds} restarts, {} messages confirmed of {next}: 0 lost, {doubled} calls double, of {most} \
         that may have been in flight",
        confirmed.len()
    );
    assert!(doubled <= most, "{doubled} double, of {most} in flight");
    assert!(
        confirmed.len() > 10 * rounds as usize,
        "too little load: {}",
        confirmed.len()
    );
}
