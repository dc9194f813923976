//! [`AmqpDispatcher`]: queues of a broker.

mod call;
mod consumer;
mod counters;
mod dead_letters;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use async_trait::async_trait;
use futures::{StreamExt as _, stream::FuturesUnordered};
use jiff::Timestamp;
use lapin::Channel;
use sless_core::{
    ChangeStream, Changes, DeadLetterPage, DeadLetterQuery, DeadLetterSelection, Dispatcher, Error,
    EventSink, Held, HeldStream, Message, Namespace, Publish, Receipt, Result, Subscription,
    SubscriptionStatus, resource::TriggerId,
};
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use self::{call::Calls, consumer::Consumer, counters::Counters, dead_letters::DeadLetters};
use crate::{
    AmqpConfig,
    connection::{Link, State, check},
    error::{BACKEND, Fault},
    message, names,
    publisher::{Publisher, Wanted, look, quorum},
};

/// How long a status waits for the count of messages.
const COUNT: Duration = Duration::from_secs(2);

/// A [`Dispatcher`] on RabbitMQ 3.10 to 4. Queues are those of one virtual host, for all namespaces.
///
/// - A message is acknowledged once the sink has answered `Done`, or once the broker has confirmed that
///   it waits for another attempt, or is a dead letter. Until then the broker gives it to another
///   consumer when this process or its connection ends.
/// - A message that waits for another attempt is in a *delay queue*, one for each queue and power of two
///   of milliseconds; see the crate's docs for the names.
/// - Dead letters are in a queue of their trigger.
/// - Each process has two connections, one that consumes and one that publishes: a broker that is short
///   of memory or disk stops reading from the latter, and acknowledgements go on. Both come back by
///   themselves.
pub struct AmqpDispatcher {
    config: Arc<AmqpConfig>,
    link: Arc<Link>,
    publisher: Arc<Publisher>,
    letters: Arc<DeadLetters>,
    changes: Changes,
    live: Mutex<Live>,
}

#[derive(Default)]
struct Live {
    consumers: HashMap<TriggerId, Serving>,
    shut_down: bool,
}

/// The consumer of a trigger, and whatever consumers went before it and are not finished.
struct Serving {
    subscription: Subscription,
    sink: Arc<RwLock<Arc<dyn EventSink>>>,
    counters: Arc<Counters>,
    seen: Arc<Mutex<Option<Channel>>>,
    stop: CancellationToken,
    /// Cancelled when the broker gives this consumer nothing any more.
    silent: CancellationToken,
    /// Cancelled when another consumer follows.
    followed: CancellationToken,
    /// Cancelled when the task has ended, however it does.
    ended: CancellationToken,
    task: AbortOnDropHandle<()>,
}

impl AmqpDispatcher {
    /// Begins to connect. A broker that is not there is no error: it is waited for, and told as the
    /// status of subscriptions and of [`health`](Self::health).
    ///
    /// Has to be called within a tokio runtime. Reads the file of the authorities.
    ///
    /// # Errors
    /// `Invalid`, naming the field of the config.
    pub async fn connect(config: AmqpConfig) -> Result<Self> {
        let named = |error: Error| error.during("dispatcher.connect").at(BACKEND);
        check(&config).map_err(named)?;
        let config = Arc::new(config);
        let link = Arc::new(Link::open(&config, "consume").map_err(named)?);
        let publisher = Arc::new(Publisher::open(&config).map_err(named)?);
        let letters = DeadLetters::new(link.clone(), publisher.clone(), config.clone());
        Ok(Self {
            config,
            link,
            publisher,
            letters,
            changes: Changes::default(),
            live: Mutex::default(),
        })
    }

    /// Whether the broker is there and takes messages. Answers at once, from what is known.
    ///
    /// # Errors
    /// `Unavailable`, with why it is not.
    pub fn health(&self) -> Result<()> {
        for link in [&self.link, self.publisher.link()] {
            if let State::Down(why) = link.state() {
                return Err(why.into());
            }
        }
        match self.publisher.link().blocked() {
            Some(why) => Err(Fault::Blocked(why).into()),
            None => Ok(()),
        }
    }

    /// Stops taking messages, waits for the calls under way as long as
    /// [`AmqpConfig::drain_ms`] says, and closes the connections. What is cut off then comes again.
    pub async fn shutdown(&self) {
        let mut ending: FuturesUnordered<_> = {
            let mut live = self.live();
            live.shut_down = true;
            let serving = live
                .consumers
                .values()
                .inspect(|serving| serving.stop.cancel());
            serving
                .map(|serving| serving.ended.clone().cancelled_owned())
                .collect()
        };
        let all = async { while ending.next().await.is_some() {} };
        if timeout(self.config.drain(), all).await.is_err() {
            tracing::warn!(
                drain_ms = self.config.drain_ms,
                "calls are cut off at shutdown; their messages come again"
            );
        }
        self.live().consumers.clear();
        self.link.close().await;
        self.publisher.link().close().await;
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(
        &self,
        before: Option<Serving>,
        subscription: &Subscription,
        sink: Arc<dyn EventSink>,
    ) -> Serving {
        let counters = before
            .as_ref()
            .map(|b| b.counters.clone())
            .unwrap_or_default();
        counters.disconnect("connecting", "the queue is being connected");
        let sink = Arc::new(RwLock::new(sink));
        let seen = Arc::default();
        let (stop, silent) = (CancellationToken::new(), CancellationToken::new());
        let (followed, ended) = (CancellationToken::new(), CancellationToken::new());
        let consumer = Consumer {
            link: self.link.clone(),
            changes: self.changes.clone(),
            calls: Arc::new(Calls {
                config: self.config.clone(),
                publisher: self.publisher.clone(),
                subscription: subscription.clone(),
                sink: sink.clone(),
                counters: counters.clone(),
                stop: stop.clone(),
            }),
            seen: Arc::clone(&seen),
            silent: silent.clone(),
            followed: followed.clone(),
        };
        if let Some(before) = &before {
            before.followed.cancel();
            before.stop.cancel();
        }
        let guards = [silent.clone().drop_guard(), ended.clone().drop_guard()];
        let task = tokio::spawn(async move {
            match before {
                Some(before) => {
                    // One consumer at a time. Calls of the one before may still be under way: they
                    // count against the limit of this one.
                    before.silent.cancelled().await;
                    tokio::join!(consumer.run(), async {
                        // A panic in the one before is its end, too.
                        let _ = before.task.await;
                    });
                }
                None => consumer.run().await,
            }
            drop(guards);
        });
        Serving {
            subscription: subscription.clone(),
            sink,
            counters,
            seen,
            stop,
            silent,
            followed,
            ended,
            task: AbortOnDropHandle::new(task),
        }
    }

    async fn seen(
        &self,
        counters: &Counters,
        seen: &Mutex<Option<Channel>>,
        queue: &str,
    ) -> SubscriptionStatus {
        let channel = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let ready = match channel {
            // The counts are worth telling without this one.
            Some(channel) => match timeout(COUNT, look(&self.config, &channel, queue)).await {
                Ok(Ok((ready, _))) => Some(ready.into()),
                _ => None,
            },
            None => None,
        };
        counters.status(ready)
    }

    /// Runs a task on dead letters to its end, also where whoever waits for it goes away: it holds a
    /// lock and letters.
    async fn to_the_end<T, F>(&self, task: impl FnOnce(Arc<DeadLetters>) -> F) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        match tokio::spawn(task(self.letters.clone())).await {
            Ok(ended) => ended,
            Err(_) => Err(Error::internal("the work on dead letters ended unexpectedly").into()),
        }
    }
}

impl fmt::Debug for AmqpDispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AmqpDispatcher")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Dispatcher for AmqpDispatcher {
    async fn apply(
        &self,
        subscription: &Subscription,
        sink: Arc<dyn EventSink>,
    ) -> Result<SubscriptionStatus> {
        let trigger = &subscription.trigger;
        let named = |error: Error| error.during("dispatcher.apply").on(trigger).at(BACKEND);
        names::check(&subscription.queue).map_err(named)?;
        let (counters, seen) = {
            let mut live = self.live();
            if live.shut_down {
                return Err(named(shut_down()));
            }
            let before = live.consumers.remove(trigger);
            let serving = match before {
                Some(same) if same.subscription == *subscription && !same.stop.is_cancelled() => {
                    *same.sink.write().unwrap_or_else(PoisonError::into_inner) = sink;
                    same
                }
                before => self.begin(before, subscription, sink),
            };
            let shared = (serving.counters.clone(), serving.seen.clone());
            live.consumers.insert(trigger.clone(), serving);
            shared
        };
        Ok(self.seen(&counters, &seen, &subscription.queue).await)
    }

    async fn remove(&self, trigger: &TriggerId) -> Result<Receipt> {
        let mut receipt = Receipt::default();
        let found = self.live().consumers.get(trigger).map(|serving| {
            serving.stop.cancel();
            (serving.ended.clone(), serving.subscription.queue.clone())
        });
        let Some((ended, queue)) = found else {
            return Ok(receipt);
        };
        // It stays in the map meanwhile: whoever drops this future and asks again waits again.
        ended.cancelled().await;
        let mut live = self.live();
        let gone = live
            .consumers
            .get(trigger)
            .is_some_and(|serving| serving.ended.is_cancelled());
        if gone {
            live.consumers.remove(trigger);
            receipt.add(
                "subscription",
                format!("{trigger} on queue {queue}"),
                BACKEND,
            );
        }
        Ok(receipt)
    }

    async fn forget(&self, trigger: &TriggerId) -> Result<Receipt> {
        let mut receipt = self.remove(trigger).await?;
        let of = trigger.clone();
        let forgotten = self
            .to_the_end(|letters| async move { letters.forget(&of).await })
            .await;
        let named = |fault| Error::from(fault).during("dispatcher.forget").on(trigger);
        receipt.merge(forgotten.map_err(named)?);
        Ok(receipt)
    }

    async fn status(&self, trigger: &TriggerId) -> Result<Option<SubscriptionStatus>> {
        let found = {
            let live = self.live();
            let serving = live
                .consumers
                .get(trigger)
                .filter(|serving| !serving.stop.is_cancelled());
            serving.map(|serving| {
                let queue = serving.subscription.queue.clone();
                (serving.counters.clone(), serving.seen.clone(), queue)
            })
        };
        match found {
            Some((counters, seen, queue)) => Ok(Some(self.seen(&counters, &seen, &queue).await)),
            None => Ok(None),
        }
    }

    async fn dead_letters(
        &self,
        trigger: &TriggerId,
        query: &DeadLetterQuery,
    ) -> Result<DeadLetterPage> {
        let (of, query) = (trigger.clone(), query.clone());
        let read = self
            .to_the_end(|letters| async move { letters.page(&of, &query).await })
            .await;
        read.map_err(|fault| {
            Error::from(fault)
                .during("dispatcher.dead_letters")
                .on(trigger)
        })
    }

    async fn redrive(&self, trigger: &TriggerId, which: &DeadLetterSelection) -> Result<u64> {
        let (of, which) = (trigger.clone(), which.clone());
        let moved = self
            .to_the_end(|letters| async move { letters.redrive(&of, &which).await })
            .await;
        moved.map_err(|fault| Error::from(fault).during("dispatcher.redrive").on(trigger))
    }

    async fn purge(&self, trigger: &TriggerId, which: &DeadLetterSelection) -> Result<u64> {
        let (of, which) = (trigger.clone(), which.clone());
        let purged = self
            .to_the_end(|letters| async move { letters.purge(&of, &which).await })
            .await;
        purged.map_err(|fault| Error::from(fault).during("dispatcher.purge").on(trigger))
    }

    fn held(&self) -> HeldStream {
        let serving = {
            let live = self.live();
            let each = live.consumers.iter().map(|(trigger, serving)| {
                let name = format!("{trigger} on queue {}", serving.subscription.queue);
                Held::new("subscription", name, BACKEND).of(trigger.key(), trigger.uid.clone())
            });
            Held::all(each)
        };
        let rest = "queues of dead letters and of delays cannot be listed over AMQP";
        serving.chain(Held::nothing_listed(BACKEND, rest)).boxed()
    }

    fn changes(&self) -> ChangeStream {
        self.changes.subscribe()
    }
}

#[async_trait]
impl Publish for AmqpDispatcher {
    /// The namespace makes no difference: a broker has one space of names.
    async fn publish(
        &self,
        _namespace: &Namespace,
        queue: &str,
        mut message: Message,
    ) -> Result<()> {
        let named = |error: Error| error.during("dispatcher.publish").on(queue).at(BACKEND);
        names::check(queue).map_err(named)?;
        let limit = self.config.message_bytes;
        if message::message_bytes(&message) > limit {
            return Err(named(Error::limit("message_bytes", limit, "bytes")));
        }
        message.published_at.get_or_insert_with(Timestamp::now);
        let properties = message::properties(&message).map_err(named)?;
        let wanted = Wanted {
            queue: queue.to_owned(),
            arguments: quorum(),
        };
        let published = self
            .publisher
            .publish_into(&wanted, properties, &message.body)
            .await;
        published.map_err(|fault| named(fault.into()))
    }
}

fn shut_down() -> Error {
    Error::unavailable("the dispatcher is shut down").with_reason("closed")
}
