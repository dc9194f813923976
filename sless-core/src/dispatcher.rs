//! [`Dispatcher`]: queue in, calls out.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;

use crate::{
    ChangeStream, HeldStream, Namespace, Receipt, Result,
    resource::{DeliveryOptions, QueueDeclare, TriggerId},
};

/// Takes messages from queues and gives them to a sink.
///
/// In memory, in SQLite, or in RabbitMQ. Backends run `sless_conformance::dispatcher!`; the clauses
/// stand in `docs/contracts/dispatcher.md`.
///
/// # Contract
/// - Every message is delivered at least once: it leaves the queue when the sink has answered
///   [`Disposition::Done`], or once it is stored as a dead letter, and not before. A crash in between
///   delivers it again.
/// - *What* an answer means is the sink's rule, one for all queues; *how* a message is delayed and
///   parked is the backend's.
/// - Never more calls at once than [`DeliveryOptions::in_flight`], never more messages held than
///   that and [`DeliveryOptions::prefetch`].
#[async_trait]
pub trait Dispatcher: fmt::Debug + Send + Sync + 'static {
    /// Sees to it that this subscription is served, as it is described now, by exactly one consumer of
    /// this process. Consumers of several processes share the messages of a queue, and each keeps the
    /// limits for itself.
    ///
    /// Another description of the same trigger replaces the consumer, with what is in flight
    /// finished; with the same one, a new sink replaces the old one and nothing else happens.
    ///
    /// # Errors
    /// Only if nothing could be begun; a broker that is not there is a status.
    async fn apply(
        &self,
        subscription: &Subscription,
        sink: Arc<dyn EventSink>,
    ) -> Result<SubscriptionStatus>;

    /// Ends a subscription, with what is in flight finished. Messages stay in the queue, and dead
    /// letters where they are. One that is not there is fine.
    async fn remove(&self, trigger: &TriggerId) -> Result<Receipt>;

    /// Ends a subscription for good, as its trigger is deleted: as [`remove`](Dispatcher::remove), and
    /// removes what was made for this trigger alone, its dead letters included. The queue and the
    /// messages in it stay. Repeated, it removes nothing.
    async fn forget(&self, trigger: &TriggerId) -> Result<Receipt>;

    /// What is seen of a subscription; `None` where there is none.
    async fn status(&self, trigger: &TriggerId) -> Result<Option<SubscriptionStatus>>;

    /// Reads a page of the dead letters of a trigger, oldest first. They outlive the subscription, until
    /// [`forget`](Dispatcher::forget).
    async fn dead_letters(
        &self,
        trigger: &TriggerId,
        query: &DeadLetterQuery,
    ) -> Result<DeadLetterPage>;

    /// Puts dead letters back into their queue, with the count of attempts at zero, and answers how
    /// many. Each is in the queue again before it is no dead letter any more.
    async fn redrive(&self, trigger: &TriggerId, which: &DeadLetterSelection) -> Result<u64>;

    /// Drops dead letters, and answers how many.
    async fn purge(&self, trigger: &TriggerId, which: &DeadLetterSelection) -> Result<u64>;

    /// Lists what this backend keeps for triggers: what [`forget`](Dispatcher::forget) would remove, each
    /// with its trigger. Queues and what waits in them are not in it. What comes or goes meanwhile may be
    /// in it or not.
    ///
    /// # Errors
    /// `Unsupported`, in the stream, for each thing that is kept and cannot be listed; the rest is.
    fn held(&self) -> HeldStream;

    /// Hints that the connection of a subscription came or went.
    fn changes(&self) -> ChangeStream;
}

/// An extra ability of a [`Dispatcher`]: putting messages into its queues.
#[async_trait]
pub trait Publish: fmt::Debug + Send + Sync + 'static {
    /// Puts a message into a queue, which is made if it is not there, and answers once it is stored.
    ///
    /// # Errors
    /// `LimitExceeded` naming `message_bytes` or `queue_messages`.
    async fn publish(&self, namespace: &Namespace, queue: &str, message: Message) -> Result<()>;
}

/// Where messages go.
#[async_trait]
pub trait EventSink: fmt::Debug + Send + Sync + 'static {
    /// Handles one message and says what becomes of it. Dropping the future leaves the message
    /// undelivered: it comes again.
    async fn deliver(&self, delivery: Delivery) -> Disposition;
}

/// What is wanted of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The trigger.
    pub trigger: TriggerId,
    /// The generation of the trigger's spec.
    pub generation: i64,
    /// The name of the queue. A backend with one space of names for all namespaces, as a broker's
    /// virtual host, says so.
    pub queue: String,
    /// What to do where the queue is not there. In a backend whose queues are there as soon as they
    /// are named, as in memory, it makes no difference.
    pub declare: QueueDeclare,
    /// How messages are delivered.
    pub delivery: DeliveryOptions,
}

/// A message of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The sender's name for it, empty where none was given.
    pub id: String,
    /// The content.
    pub body: Bytes,
    /// The media type, where one was given.
    pub content_type: Option<String>,
    /// Named values beside the content. A backend puts properties of its own here too, and keeps the
    /// original whole for dead letters and redrive.
    pub headers: BTreeMap<String, String>,
    /// When it was put into the queue, where that is known.
    pub published_at: Option<Timestamp>,
}

/// A message that is being delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The trigger.
    pub trigger: TriggerId,
    /// The queue.
    pub queue: String,
    /// The message.
    pub message: Message,
    /// Which attempt this is, from 1. One that ended without an answer, in a crash, need not be
    /// counted.
    pub attempt: u32,
}

/// What becomes of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// It was handled, and leaves the queue.
    Done,
    /// It comes again after this time.
    Retry {
        /// Not sooner than this.
        after: Duration,
        /// Why it was not handled.
        reason: String,
    },
    /// It becomes a dead letter.
    Dead {
        /// Why.
        reason: String,
    },
    /// It was not tried: it goes back to the queue, and this attempt is not counted.
    Release,
}

/// What is seen of a subscription. The counts are since the subscription began in this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscriptionStatus {
    /// Whether messages can come.
    pub connected: bool,
    /// Messages that were handled.
    pub delivered: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Messages that became dead letters.
    pub dead_lettered: u64,
    /// Calls under way.
    pub in_flight: u64,
    /// Messages that wait in the queue, where the backend can tell.
    pub waiting: Option<u64>,
    /// A machine word where it is not connected, such as `queue_missing`; those that several backends
    /// use stand in [`reason`](crate::reason).
    pub reason: String,
    /// Why it is not connected, or what went wrong last.
    pub message: String,
}

/// A message that was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// Its name among the dead letters of its trigger.
    pub id: String,
    /// The message, whole.
    pub message: Message,
    /// Why it was given up.
    pub reason: String,
    /// How often it was tried.
    pub attempts: u32,
    /// When it was given up.
    pub died_at: Timestamp,
}

/// Which dead letters to read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetterQuery {
    /// At most so many.
    pub limit: usize,
    /// From the `next` of the page before.
    pub cursor: Option<String>,
}

impl DeadLetterQuery {
    /// At most so many on a page, from the beginning.
    pub const fn first(limit: usize) -> Self {
        Self {
            limit,
            cursor: None,
        }
    }

    /// From the `next` of the page before.
    #[must_use]
    pub fn from_cursor(mut self, cursor: Option<String>) -> Self {
        self.cursor = cursor;
        self
    }
}

/// Part of the dead letters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterPage {
    /// The letters, oldest first.
    pub items: Vec<DeadLetter>,
    /// Where the next page begins; `None` on the last.
    pub next: Option<String>,
}

/// Which dead letters to act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeadLetterSelection {
    /// All that are there at the call.
    All,
    /// Those with these ids; ids that are not there are passed over.
    Ids(Vec<String>),
}

impl DeadLetterSelection {
    /// Whether this letter is meant.
    pub fn contains(&self, id: &str) -> bool {
        match self {
            Self::All => true,
            Self::Ids(ids) => ids.iter().any(|wanted| wanted == id),
        }
    }
}
