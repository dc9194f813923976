//! How many messages a second go from a queue through an HTTP request to their acknowledgement: the
//! dispatcher beside a bare lapin consumer that posts to the same place, and the dispatcher where one
//! message in ten fails.
//!
//! ```sh
//! export $(testing/rabbitmq/up /tmp/rabbitmq | xargs)
//! cargo run --release -p sless-amqp --example rates
//! ```
//!
//! Contestants take turns, so that whatever else the machine does meets all of them. A queue is filled
//! first; a round is the time from the first message to the last acknowledgement.

#![allow(clippy::print_stdout, reason = "a program that prints a table")]

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures::StreamExt as _;
use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties,
    options::{
        BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions,
        ConfirmSelectOptions, QueueDeclareOptions, QueueDeleteOptions,
    },
    types::{AMQPValue, FieldTable},
};
use sless_amqp::{AmqpConfig, AmqpDispatcher};
use sless_core::{
    Delivery, DeliveryOptions, Dispatcher as _, Disposition, EventSink, Name, Namespace,
    QueueDeclare, Subscription, Uid, resource::TriggerId,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};

const ROUNDS: usize = 5;
const BODY: usize = 256;

/// Answers 500 to what begins with `p`, and 200 to the rest.
async fn serve(stream: TcpStream) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let (mut line, mut body) = (String::new(), Vec::new());
    loop {
        let mut length = 0;
        loop {
            line.clear();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap_or(0);
            }
            if line == "\r\n" {
                break;
            }
        }
        body.resize(length, 0);
        stream.read_exact(&mut body).await?;
        let answer: &[u8] = if body.first() == Some(&b'p') {
            b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n"
        } else {
            b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
        };
        stream.write_all(answer).await?;
    }
}

/// Posts over connections that are kept.
#[derive(Debug)]
struct Poster {
    to: SocketAddr,
    idle: Mutex<Vec<BufReader<TcpStream>>>,
}

impl Poster {
    async fn post(&self, body: &[u8]) -> std::io::Result<bool> {
        let kept = self.idle.lock().expect("no panic").pop();
        let mut stream = match kept {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect(self.to).await?;
                stream.set_nodelay(true)?;
                BufReader::new(stream)
            }
        };
        let mut request = format!(
            "POST / HTTP/1.1\r\nhost: sink\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        stream.write_all(&request).await?;
        let (mut line, mut ok) = (String::new(), false);
        loop {
            line.clear();
            stream.read_line(&mut line).await?;
            ok |= line.starts_with("HTTP/1.1 200");
            if line == "\r\n" {
                break;
            }
        }
        self.idle.lock().expect("no panic").push(stream);
        Ok(ok)
    }
}

/// Counts up to what is expected.
#[derive(Debug)]
struct Count {
    seen: AtomicUsize,
    expected: usize,
    all: tokio::sync::Notify,
}

impl Count {
    fn new(expected: usize) -> Arc<Self> {
        Arc::new(Self {
            seen: AtomicUsize::new(0),
            expected,
            all: tokio::sync::Notify::new(),
        })
    }

    fn one(&self) {
        if self.seen.fetch_add(1, Ordering::SeqCst) + 1 == self.expected {
            self.all.notify_one();
        }
    }
}

#[derive(Debug)]
struct Posting {
    poster: Arc<Poster>,
    count: Arc<Count>,
}

#[async_trait]
impl EventSink for Posting {
    async fn deliver(&self, delivery: Delivery) -> Disposition {
        let ok = self
            .poster
            .post(&delivery.message.body)
            .await
            .unwrap_or(false);
        if delivery.attempt == 1 {
            self.count.one();
        }
        if ok {
            Disposition::Done
        } else if delivery.attempt < 3 {
            Disposition::Retry {
                after: Duration::from_secs(1),
                reason: "the sink answered 500".to_owned(),
            }
        } else {
            Disposition::Dead {
                reason: "the sink answered 500".to_owned(),
            }
        }
    }
}

struct Bench {
    url: String,
    channel: Channel,
    poster: Arc<Poster>,
}

impl Bench {
    /// Fills a queue, of which `poison` in a hundred fail.
    async fn fill(&self, queue: &str, count: usize, poison: usize) {
        let mut arguments = FieldTable::default();
        arguments.insert(
            "x-queue-type".into(),
            AMQPValue::LongString("quorum".into()),
        );
        let options = QueueDeclareOptions::durable();
        self.channel
            .queue_declare(queue.into(), options, arguments)
            .await
            .expect("declared");
        let mut confirms = Vec::new();
        for number in 0..count {
            let mut body = vec![b'x'; BODY];
            if number * poison % 100 < poison {
                body[0] = b'p';
            }
            let properties = BasicProperties::default().with_delivery_mode(2);
            let options = BasicPublishOptions::default();
            let sent =
                self.channel
                    .basic_publish("".into(), queue.into(), options, &body, properties);
            confirms.push(sent.await.expect("sent"));
        }
        for confirm in confirms {
            confirm.await.expect("confirmed");
        }
    }

    async fn delete(&self, queue: &str) {
        let options = QueueDeleteOptions::default();
        self.channel
            .queue_delete(queue.into(), options)
            .await
            .expect("deleted");
    }

    /// The bare consumer.
    async fn bare(&self, queue: &str, in_flight: u16, count: usize) -> Duration {
        let properties = ConnectionProperties::default();
        let connection = Connection::connect(&self.url, properties)
            .await
            .expect("connected");
        let channel = connection.create_channel().await.expect("a channel");
        channel
            .basic_qos(in_flight, BasicQosOptions::default())
            .await
            .expect("set");
        let done = Count::new(count);
        let began = Instant::now();
        let (options, none) = (BasicConsumeOptions::default(), FieldTable::default());
        let consumer = channel
            .basic_consume(queue.into(), "bare".into(), options, none)
            .await;
        let mut consumer = consumer.expect("a consumer");
        let (poster, counting) = (self.poster.clone(), done.clone());
        let task = tokio::spawn(async move {
            while let Some(Ok(delivery)) = consumer.next().await {
                let (poster, counting) = (poster.clone(), counting.clone());
                tokio::spawn(async move {
                    if poster.post(&delivery.data).await.unwrap_or(false) {
                        delivery
                            .acker
                            .ack(BasicAckOptions::default())
                            .await
                            .expect("acknowledged");
                        counting.one();
                    }
                });
            }
        });
        done.all.notified().await;
        let took = began.elapsed();
        task.abort();
        connection.close(200, "OK".into()).await.expect("closed");
        took
    }

    /// The dispatcher, until each message was tried.
    async fn dispatcher(&self, queue: &str, in_flight: u32, count: usize) -> Duration {
        let dispatcher = AmqpDispatcher::connect(AmqpConfig::new(&self.url))
            .await
            .expect("one");
        while dispatcher.health().is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let done = Count::new(count);
        let subscription = Subscription {
            trigger: TriggerId {
                namespace: Namespace::new("rates").expect("a label"),
                name: Name::new("rates").expect("a label"),
                uid: Uid::random(),
            },
            generation: 1,
            queue: queue.to_owned(),
            declare: QueueDeclare::Quorum,
            delivery: DeliveryOptions {
                in_flight,
                prefetch: 0,
                ..DeliveryOptions::default()
            },
        };
        let sink = Posting {
            poster: self.poster.clone(),
            count: done.clone(),
        };
        let began = Instant::now();
        dispatcher
            .apply(&subscription, Arc::new(sink))
            .await
            .expect("applied");
        done.all.notified().await;
        let took = began.elapsed();
        dispatcher
            .forget(&subscription.trigger)
            .await
            .expect("forgotten");
        dispatcher.shutdown().await;
        took
    }
}

fn median(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (
        values[values.len() / 2],
        values[0],
        values[values.len() - 1],
    )
}

#[tokio::main]
async fn main() {
    let url = std::env::var("SLESS_TEST_RABBITMQ_URL").expect("SLESS_TEST_RABBITMQ_URL is set");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let to = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            tokio::spawn(serve(stream));
        }
    });
    let connection = Connection::connect(&url, ConnectionProperties::default())
        .await
        .expect("connected");
    let channel = connection.create_channel().await.expect("a channel");
    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await
        .expect("confirms");
    let bench = Bench {
        url,
        channel,
        poster: Arc::new(Poster {
            to,
            idle: Mutex::default(),
        }),
    };
    println!(
        "at once  bare msg/s  dispatcher msg/s  ratio (min, max)   with 10 % poison msg/s  of clean"
    );
    for (in_flight, count) in [(1_u16, 1_500_usize), (10, 6_000), (50, 10_000)] {
        let (mut bare, mut ours, mut poisoned) = (vec![], vec![], vec![]);
        for round in 0..ROUNDS {
            let rate = |took: Duration| count as f64 / took.as_secs_f64();
            let queue = format!("rates.{in_flight}.{round}.{}", Uid::random().as_str());
            bench.fill(&queue, count, 0).await;
            bare.push(rate(bench.bare(&queue, in_flight, count).await));
            bench.fill(&queue, count, 0).await;
            ours.push(rate(
                bench.dispatcher(&queue, in_flight.into(), count).await,
            ));
            bench.fill(&queue, count, 10).await;
            poisoned.push(rate(
                bench.dispatcher(&queue, in_flight.into(), count).await,
            ));
            bench.delete(&queue).await;
        }
        let of =
            |some: &[f64], all: &[f64]| median(some.iter().zip(all).map(|(a, b)| a / b).collect());
        let (ratio, kept) = (of(&ours, &bare), of(&poisoned, &ours));
        println!(
            "{in_flight:7}  {:10.0}  {:16.0}  {:5.2} ({:.2}, {:.2})  {:22.0}  {:.2} ({:.2}, {:.2})",
            median(bare).0,
            median(ours).0,
            ratio.0,
            ratio.1,
            ratio.2,
            median(poisoned).0,
            kept.0,
            kept.1,
            kept.2,
        );
    }
    connection.close(200, "OK".into()).await.expect("closed");
}
