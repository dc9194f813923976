//! [`Publisher`]: puts messages into queues, and knows that they are there.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use lapin::{
    BasicProperties, Channel, Confirmation,
    options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable},
};
use tokio::{sync::Semaphore, time::timeout};

use crate::{
    AmqpConfig,
    connection::{Link, answer},
    error::Fault,
    names::Delay,
};

/// For how long a delay queue is known to be there without asking; well below what it lives.
const KNOWN: Duration = Duration::from_secs(600);

/// How often a message is offered that the broker refuses, and the first pause between; it doubles.
const ATTEMPTS: u32 = 5;
const REFUSED: Duration = Duration::from_millis(50);

/// The most delay queues that are remembered.
const KNOWN_MAX: usize = 4096;

/// How many delay queues stand in for one that takes nothing any more.
const SPARES: u8 = 3;

/// Publishes over a connection of its own, since a broker that is short of memory stops reading from
/// those that publish: acknowledgements go on meanwhile.
///
/// Each message has a channel for itself while it is under way. On a shared one, it is not certain which
/// of several messages a broker has given back as one that goes nowhere.
#[derive(Debug)]
pub(crate) struct Publisher {
    link: Link,
    config: Arc<AmqpConfig>,
    places: Semaphore,
    /// Channels at rest, with the numbers of their connections.
    idle: Mutex<Vec<(u64, Channel)>>,
    /// Queues that were seen or made, on which connection and when.
    known: Mutex<HashMap<String, (u64, Instant)>>,
    /// Delay queues that gave no word, and when.
    silent: Mutex<HashMap<String, Instant>>,
}

/// What is made where a queue is not there.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) queue: String,
    pub(crate) arguments: FieldTable,
}

impl Publisher {
    pub(crate) fn open(config: &Arc<AmqpConfig>) -> Result<Self, sless_core::Error> {
        Ok(Self {
            link: Link::open(config, "publish")?,
            config: config.clone(),
            places: Semaphore::new(config.publish_channels.into()),
            idle: Mutex::default(),
            known: Mutex::default(),
            silent: Mutex::default(),
        })
    }

    pub(crate) const fn link(&self) -> &Link {
        &self.link
    }

    /// Puts a message into a queue that is there, and answers once the broker has it safe.
    ///
    /// A broker refuses a message where the queue is full, but also for a moment after the queue was
    /// made or has moved. So it is asked again before that is taken for an answer.
    pub(crate) async fn publish(
        &self,
        queue: &str,
        properties: BasicProperties,
        body: &[u8],
    ) -> Result<(), Fault> {
        let mut pause = REFUSED;
        for _ in 1..ATTEMPTS {
            match self.publish_once(queue, properties.clone(), body).await {
                Err(Fault::Full(_)) => tokio::time::sleep(pause).await,
                other => return other,
            }
            pause *= 2;
        }
        self.publish_once(queue, properties, body).await
    }

    async fn publish_once(
        &self,
        queue: &str,
        properties: BasicProperties,
        body: &[u8],
    ) -> Result<(), Fault> {
        let _place = self.place().await?;
        let (number, channel) = self.channel().await?;
        let publish = async {
            let mandatory = BasicPublishOptions {
                mandatory: true,
                ..BasicPublishOptions::default()
            };
            channel
                .basic_publish("".into(), queue.into(), mandatory, body, properties)
                .await?
                .await
        };
        let confirmation = match timeout(self.config.confirm(), publish).await {
            Ok(confirmation) => confirmation?,
            // The channel is not used again, so that a late word does not answer another message.
            Err(_) => return Err(self.late()),
        };
        self.rest(number, channel);
        match confirmation {
            Confirmation::Ack(None) => Ok(()),
            Confirmation::Ack(Some(_)) => Err(Fault::NoQueue(queue.to_owned())),
            Confirmation::Nack(_) => Err(Fault::Full(queue.to_owned())),
            Confirmation::NotRequested => Err(sless_core::Error::internal(
                "a channel confirms nothing that is to confirm",
            )
            .into()),
        }
    }

    /// Puts a message into a queue that is made if it is not there.
    pub(crate) async fn publish_into(
        &self,
        wanted: &Wanted,
        properties: BasicProperties,
        body: &[u8],
    ) -> Result<(), Fault> {
        self.ensure(wanted).await?;
        match self.publish(&wanted.queue, properties.clone(), body).await {
            // It was deleted since it was seen.
            Err(Fault::NoQueue(_)) => {
                self.known().remove(&wanted.queue);
                self.ensure(wanted).await?;
                self.publish(&wanted.queue, properties, body).await
            }
            other => other,
        }
    }

    /// Lets a message wait, and come to `queue` then.
    ///
    /// A quorum queue of a broker that was killed may be there and have no leader ever after: it confirms
    /// nothing. So a delay queue that gave no word in time is not used for a while.
    pub(crate) async fn publish_after(
        &self,
        queue: &str,
        after: Duration,
        properties: BasicProperties,
        body: &[u8],
    ) -> Result<(), Fault> {
        let now = Timestamp::now().as_millisecond();
        let delays = (0..=SPARES).map(|spare| Delay::of(queue, after, now, spare));
        let mut delays = delays.skip_while(|delay| self.is_silent(&delay.queue));
        let delay = delays
            .next()
            .unwrap_or_else(|| Delay::of(queue, after, now, SPARES));
        let wanted = Wanted {
            arguments: waiting(&delay, queue),
            queue: delay.queue,
        };
        let published = self.publish_into(&wanted, properties, body).await;
        if let Err(Fault::Late { .. }) = published {
            self.note_silent(wanted.queue);
        }
        published
    }

    fn is_silent(&self, queue: &str) -> bool {
        let silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        silent.get(queue).is_some_and(|at| at.elapsed() < KNOWN)
    }

    fn note_silent(&self, queue: String) {
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        silent.retain(|_, at| at.elapsed() < KNOWN);
        if silent.len() < KNOWN_MAX {
            silent.insert(queue, Instant::now());
        }
    }

    /// Makes a queue if it is not there; one that is there is taken as it is.
    pub(crate) async fn ensure(&self, wanted: &Wanted) -> Result<(), Fault> {
        let queue = &wanted.queue;
        let (number, _) = self.link.up().await?;
        let fresh = self
            .known()
            .get(queue)
            .is_some_and(|(on, seen)| *on == number && seen.elapsed() < KNOWN);
        if fresh {
            return Ok(());
        }
        let _place = self.place().await?;
        let (number, channel) = self.channel().await?;
        let (number, channel) = match look(&self.config, &channel, queue).await {
            Ok(_) => (number, channel),
            Err(fault) if fault.is_not_found() => {
                // The broker has closed that channel.
                let (number, channel) = self.channel().await?;
                declare(&self.config, &channel, wanted).await?;
                (number, channel)
            }
            Err(fault) => return Err(fault),
        };
        self.rest(number, channel);
        let mut known = self.known();
        if known.len() >= KNOWN_MAX {
            known.retain(|_, (on, seen)| *on == number && seen.elapsed() < KNOWN);
        }
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(queue.clone(), (number, Instant::now()));
        Ok(())
    }

    async fn place(&self) -> Result<tokio::sync::SemaphorePermit<'_>, Fault> {
        match timeout(self.config.confirm(), self.places.acquire()).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(match self.link.blocked() {
                Some(why) => Fault::Blocked(why),
                None => Fault::Late {
                    what: "a message: all publish_channels are in use",
                    limit: "confirm_ms",
                    wait_ms: self.config.confirm_ms,
                },
            }),
        }
    }

    fn late(&self) -> Fault {
        match self.link.blocked() {
            Some(why) => Fault::Blocked(why),
            None => Fault::Late {
                what: "a message",
                limit: "confirm_ms",
                wait_ms: self.config.confirm_ms,
            },
        }
    }

    /// A channel that confirms, of the connection of now.
    async fn channel(&self) -> Result<(u64, Channel), Fault> {
        let (number, connection) = self.link.up().await?;
        loop {
            let rested = self
                .idle
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop();
            match rested {
                Some((of, channel)) if of == number && channel.status().connected() => {
                    return Ok((number, channel));
                }
                Some(_) => {}
                None => break,
            }
        }
        let open = async {
            let channel = connection.create_channel().await?;
            channel
                .confirm_select(ConfirmSelectOptions::default())
                .await?;
            Ok(channel)
        };
        Ok((
            number,
            answer(&self.config, "opening a channel", open).await?,
        ))
    }

    fn rest(&self, number: u64, channel: Channel) {
        if channel.status().connected() {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.push((number, channel));
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<String, (u64, Instant)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks at a queue: how many messages are ready, and how many consumers it has. Where it is not there,
/// the broker closes the channel.
pub(crate) async fn look(
    config: &AmqpConfig,
    channel: &Channel,
    queue: &str,
) -> Result<(u32, u32), Fault> {
    let passive = QueueDeclareOptions {
        passive: true,
        ..QueueDeclareOptions::default()
    };
    let looked = channel.queue_declare(queue.into(), passive, FieldTable::default());
    let seen = answer(config, "a look at a queue", looked).await?;
    Ok((seen.message_count(), seen.consumer_count()))
}

/// Makes a queue that survives a restart of the broker.
pub(crate) async fn declare(
    config: &AmqpConfig,
    channel: &Channel,
    wanted: &Wanted,
) -> Result<(), Fault> {
    let (queue, arguments) = (wanted.queue.as_str().into(), wanted.arguments.clone());
    let declared = channel.queue_declare(queue, QueueDeclareOptions::durable(), arguments);
    answer(config, "making a queue", declared).await.map(drop)
}

fn number(value: u64) -> AMQPValue {
    AMQPValue::LongLongInt(i64::try_from(value).unwrap_or(i64::MAX))
}

/// How often a broker gives a message of our quorum queues out before it drops it: without an end.
///
/// RabbitMQ 4 drops one after 20 times unless told otherwise, and each crash of a consumer counts. It
/// reads -1 as no limit; RabbitMQ 3.10 takes -1 too, but then drops a message at its first return.
const DELIVERY_LIMIT: i64 = i32::MAX as i64;

/// A queue on several nodes.
pub(crate) fn quorum() -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert(
        "x-queue-type".into(),
        AMQPValue::LongString("quorum".into()),
    );
    arguments.insert(
        "x-delivery-limit".into(),
        AMQPValue::LongLongInt(DELIVERY_LIMIT),
    );
    arguments
}

/// A queue on one node.
pub(crate) fn classic() -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert(
        "x-queue-type".into(),
        AMQPValue::LongString("classic".into()),
    );
    arguments
}

/// A queue of dead letters: it refuses what is too much for it, and drops nothing.
pub(crate) fn keeping(config: &AmqpConfig) -> FieldTable {
    let mut arguments = quorum();
    arguments.insert("x-max-length".into(), number(config.dead_letters.into()));
    arguments.insert(
        "x-max-length-bytes".into(),
        number(config.dead_letter_bytes),
    );
    arguments.insert(
        "x-overflow".into(),
        AMQPValue::LongString("reject-publish".into()),
    );
    arguments
}

/// A delay queue. `at-least-once` keeps a message until the broker has it safe in its own queue, also
/// where that is not there for a while; it asks for `reject-publish`.
fn waiting(delay: &Delay, queue: &str) -> FieldTable {
    let text = |text: &str| AMQPValue::LongString(text.into());
    let mut arguments = quorum();
    arguments.insert("x-message-ttl".into(), number(delay.step_ms));
    arguments.insert("x-expires".into(), number(delay.expires_ms));
    arguments.insert("x-dead-letter-exchange".into(), text(""));
    arguments.insert("x-dead-letter-routing-key".into(), text(queue));
    arguments.insert("x-dead-letter-strategy".into(), text("at-least-once"));
    arguments.insert("x-overflow".into(), text("reject-publish"));
    arguments
}
