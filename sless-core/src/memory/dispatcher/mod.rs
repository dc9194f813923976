//! [`MemoryDispatcher`].

mod consumer;
mod queue;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::{
    consumer::{Consumer, Counters},
    queue::Store,
};
use super::{BACKEND, lock, tasks::Tasks};
use crate::{
    ChangeStream, Changes, Clock, DeadLetterPage, DeadLetterQuery, DeadLetterSelection, Dispatcher,
    EventSink, Held, HeldStream, Message, Namespace, Publish, Receipt, Result, Subscription,
    SubscriptionStatus, SystemClock, resource::TriggerId,
};

/// The limits of a [`MemoryDispatcher`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MemoryDispatcherConfig {
    /// Messages in one queue. Messages that come back, and redriven dead letters, always find a
    /// place.
    pub queue_messages: usize,
    /// Bytes of one message: of its content, id, media type and headers.
    pub message_bytes: usize,
    /// Queues.
    pub queues: usize,
    /// Dead letters of one trigger. A message that would be one more stays in its queue and is tried
    /// again after the longest delay of its subscription, and the subscription's status tells.
    pub dead_letters: usize,
}

impl Default for MemoryDispatcherConfig {
    /// 100,000 messages of one mebibyte in each of 100,000 queues, and 10,000 dead letters.
    fn default() -> Self {
        Self {
            queue_messages: 100_000,
            message_bytes: 1 << 20,
            queues: 100_000,
            dead_letters: 10_000,
        }
    }
}

/// A [`Dispatcher`] in memory, with a queue for each name in each namespace.
///
/// One task per subscription takes messages, oldest first, and calls the sink with as many at once
/// as [`DeliveryOptions::in_flight`](crate::DeliveryOptions::in_flight) says; nothing is taken ahead.
/// Applying the same subscription again with another sink moves it to that sink, as an engine does
/// that was started anew over this dispatcher.
#[derive(Debug)]
pub struct MemoryDispatcher {
    shared: Arc<Shared>,
    live: Mutex<BTreeMap<TriggerId, Live>>,
    tasks: Tasks,
}

/// What the tasks share.
#[derive(Debug)]
struct Shared {
    clock: Arc<dyn Clock>,
    store: Arc<Store>,
    changes: Changes,
}

/// What belongs to one trigger.
#[derive(Debug)]
struct Live {
    /// What is served; `None` after `remove`, until the last consumer has ended.
    consumer: Option<Current>,
    /// Held by the consumer that works, so that there is only one.
    turn: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug)]
struct Current {
    subscription: Subscription,
    sink: Arc<RwLock<Arc<dyn EventSink>>>,
    counters: Arc<Counters>,
    stop: CancellationToken,
    /// Closed when the consumer has ended.
    ended: watch::Receiver<()>,
}

impl Current {
    fn status(&self, store: &Store) -> SubscriptionStatus {
        let mut status = self.counters.status();
        let (namespace, queue) = (
            &self.subscription.trigger.namespace,
            &self.subscription.queue,
        );
        status.waiting = Some(store.waiting(namespace, queue));
        status
    }
}

impl MemoryDispatcher {
    /// A dispatcher with the default limits and no queue.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_config(clock, MemoryDispatcherConfig::default())
    }

    /// A dispatcher with no queue.
    pub fn with_config(clock: Arc<dyn Clock>, config: MemoryDispatcherConfig) -> Self {
        Self::over(Arc::clone(&clock), Arc::new(Store::new(clock, config)))
    }

    fn over(clock: Arc<dyn Clock>, store: Arc<Store>) -> Self {
        Self {
            shared: Arc::new(Shared {
                clock,
                store,
                changes: Changes::default(),
            }),
            live: Mutex::default(),
            tasks: Tasks::default(),
        }
    }

    /// The triggers that something is kept for: those that are subscribed, and those whose consumer
    /// has not ended yet.
    pub fn subscribed(&self) -> Vec<TriggerId> {
        lock(&self.live).keys().cloned().collect()
    }

    /// Stops taking messages and ends once what is in flight is finished.
    pub async fn shutdown(&self) {
        let ending: Vec<_> = {
            let live = lock(&self.live);
            let current = live.values().filter_map(|live| live.consumer.as_ref());
            current
                .inspect(|current| current.stop.cancel())
                .map(|c| c.ended.clone())
                .collect()
        };
        for ended in ending {
            closed(ended).await;
        }
    }

    /// What is left after a crash of the whole process: the queues and dead letters. What is in
    /// flight is cut off here and is in its queue again; there is no subscription.
    pub async fn restarted(&self) -> Self {
        self.tasks.end().await;
        lock(&self.live).clear();
        Self::over(
            Arc::clone(&self.shared.clock),
            Arc::clone(&self.shared.store),
        )
    }

    fn begin(&self, live: &mut Live, subscription: &Subscription, sink: Arc<dyn EventSink>) {
        let before = live.consumer.take();
        if let Some(before) = &before {
            before.stop.cancel();
        }
        let counters = before.map(|before| before.counters).unwrap_or_default();
        let sink = Arc::new(RwLock::new(sink));
        let stop = CancellationToken::new();
        let (alive, ended) = watch::channel(());
        let consumer = Consumer {
            shared: Arc::clone(&self.shared),
            subscription: subscription.clone(),
            sink: Arc::clone(&sink),
            counters: Arc::clone(&counters),
            stop: stop.clone(),
        };
        let turn = Arc::clone(&live.turn);
        self.tasks.spawn(async move {
            let turn = turn.lock().await;
            consumer.run().await;
            drop((turn, alive));
        });
        live.consumer = Some(Current {
            subscription: subscription.clone(),
            sink,
            counters,
            stop,
            ended,
        });
    }
}

impl Default for MemoryDispatcher {
    /// A dispatcher with no queue, on the system's clock.
    fn default() -> Self {
        Self::new(Arc::new(SystemClock))
    }
}

/// Waits until the other end is dropped.
async fn closed(mut ended: watch::Receiver<()>) {
    while ended.changed().await.is_ok() {}
}

#[async_trait]
impl Dispatcher for MemoryDispatcher {
    async fn apply(
        &self,
        subscription: &Subscription,
        sink: Arc<dyn EventSink>,
    ) -> Result<SubscriptionStatus> {
        let store = &self.shared.store;
        let mut live = lock(&self.live);
        let entry = live
            .entry(subscription.trigger.clone())
            .or_insert_with(|| Live {
                consumer: None,
                turn: Arc::default(),
            });
        match &entry.consumer {
            Some(current) if current.subscription == *subscription => {
                *current.sink.write().unwrap_or_else(PoisonError::into_inner) = sink;
            }
            _ => self.begin(entry, subscription, sink),
        }
        Ok(entry
            .consumer
            .as_ref()
            .map(|current| current.status(store))
            .unwrap_or_default())
    }

    async fn remove(&self, trigger: &TriggerId) -> Result<Receipt> {
        let mut receipt = Receipt::default();
        let taken = lock(&self.live)
            .get_mut(trigger)
            .and_then(|live| live.consumer.take());
        if let Some(current) = taken {
            current.stop.cancel();
            let name = format!("{trigger} on queue {}", current.subscription.queue);
            receipt.add("subscription", name, BACKEND);
            closed(current.ended).await;
        }
        let mut live = lock(&self.live);
        // Kept where a consumer, of an earlier remove or a later apply, still waits for its turn.
        if let Some(entry) = live.get(trigger)
            && entry.consumer.is_none()
            && Arc::strong_count(&entry.turn) == 1
        {
            live.remove(trigger);
        }
        Ok(receipt)
    }

    async fn forget(&self, trigger: &TriggerId) -> Result<Receipt> {
        let mut receipt = self.remove(trigger).await?;
        let letters = self.shared.store.purge(trigger, &DeadLetterSelection::All);
        if letters > 0 {
            receipt.add("dead_letters", letters.to_string(), BACKEND);
        }
        Ok(receipt)
    }

    async fn status(&self, trigger: &TriggerId) -> Result<Option<SubscriptionStatus>> {
        let live = lock(&self.live);
        let current = live.get(trigger).and_then(|live| live.consumer.as_ref());
        Ok(current.map(|current| current.status(&self.shared.store)))
    }

    async fn dead_letters(
        &self,
        trigger: &TriggerId,
        query: &DeadLetterQuery,
    ) -> Result<DeadLetterPage> {
        let page = self.shared.store.dead_letters(trigger, query);
        page.map_err(|error| {
            error
                .during("dispatcher.dead_letters")
                .on(trigger)
                .at(BACKEND)
        })
    }

    async fn redrive(&self, trigger: &TriggerId, which: &DeadLetterSelection) -> Result<u64> {
        Ok(self.shared.store.redrive(trigger, which))
    }

    async fn purge(&self, trigger: &TriggerId, which: &DeadLetterSelection) -> Result<u64> {
        Ok(self.shared.store.purge(trigger, which))
    }

    fn held(&self) -> HeldStream {
        let of = |kind: &str, name: String, trigger: &TriggerId| {
            Held::new(kind, name, BACKEND).of(trigger.key(), trigger.uid.clone())
        };
        let letters = self.shared.store.letters();
        let letters = letters
            .iter()
            .map(|(trigger, count)| of("dead_letters", format!("{trigger}: {count}"), trigger));
        let live = lock(&self.live);
        let subscriptions = live.iter().filter_map(|(trigger, live)| {
            let queue = &live.consumer.as_ref()?.subscription.queue;
            let name = format!("{trigger} on queue {queue}");
            Some(of("subscription", name, trigger))
        });
        Held::all(letters.chain(subscriptions))
    }

    fn changes(&self) -> ChangeStream {
        self.shared.changes.subscribe()
    }
}

#[async_trait]
impl Publish for MemoryDispatcher {
    async fn publish(&self, namespace: &Namespace, queue: &str, message: Message) -> Result<()> {
        let published = self.shared.store.publish(namespace, queue, message);
        published.map_err(|error| error.during("publish.publish").on(queue).at(BACKEND))
    }
}
