//! [`LocalDispatcher`]: durable queues in SQLite.

mod consumer;
mod dead_letters;
mod queue;
mod store;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

use async_trait::async_trait;
use futures::{StreamExt as _, TryStreamExt as _, stream, stream::FuturesUnordered};
use rusqlite::Connection;
use sless_core::{
    ChangeStream, Changes, Clock, DeadLetterPage, DeadLetterQuery, DeadLetterSelection, Dispatcher,
    Error, EventSink, Held, HeldStream, Message, Namespace, Publish, Receipt, Result, Subscription,
    SubscriptionStatus, clock::timeout, resource::TriggerId,
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::AbortOnDropHandle,
};

use self::{
    consumer::{Consumer, Counters},
    queue::Queue,
};
use crate::{
    QueueConfig,
    data_dir::DataDir,
    database::{Database, Durability, Schema},
    error::{BACKEND, Fault},
};

pub(crate) static SCHEMA: Schema = Schema {
    file: "queue.db",
    steps: &[include_str!("schema.sql")],
    // Names of queues that hold nothing are not kept for ever.
    tidy: &["DELETE FROM queues WHERE waiting = 0 AND dead = 0"],
};

/// A [`Dispatcher`] with its queues in the file `db/queue.db`. A queue belongs to a namespace.
///
/// - What was published survives a killed process and a power cut. What became of a delivery survives a
///   killed process; a power cut may take its last moments, and then those messages come again.
/// - A message that is under way is held in memory alone: when the process ends, it is free again at
///   once, with the count of attempts that were finished.
/// - Messages that come again go before new ones, and when they do is kept by the wall clock, so that it
///   outlives the process.
/// - The limits of a queue count its dead letters, so that one can always be kept: a queue whose dead
///   letters pile up refuses new messages in the end, until they are purged or redriven.
///
/// One task serves each subscription; it sleeps while there is nothing to do.
pub struct LocalDispatcher {
    database: Database,
    config: QueueConfig,
    clock: Arc<dyn Clock>,
    changes: Changes,
    queues: Mutex<HashMap<(Namespace, String), Arc<Queue>>>,
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
    queue: Arc<Queue>,
    sink: Arc<RwLock<Arc<dyn EventSink>>>,
    counters: Arc<Counters>,
    stop: CancellationToken,
    /// Cancelled when the task has ended, however it does.
    ended: CancellationToken,
    task: AbortOnDropHandle<()>,
}

impl LocalDispatcher {
    /// Opens the queues of a data folder. Touches the file system.
    ///
    /// # Errors
    /// `Unsupported`, reason `schema_too_new`, if a newer version of sless wrote them; `Corrupt` if
    /// they are damaged.
    pub fn open(dir: &DataDir, config: &QueueConfig, clock: Arc<dyn Clock>) -> Result<Self> {
        let database = Database::open(dir, &SCHEMA, &config.database)?;
        Ok(Self {
            database,
            config: config.clone(),
            clock,
            changes: Changes::default(),
            queues: Mutex::default(),
            live: Mutex::default(),
        })
    }

    /// Stops taking messages, waits for the calls under way as long as
    /// [`QueueConfig::drain_ms`] says, and closes the file. What is cut off then comes again.
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
        if timeout(&*self.clock, self.config.drain(), all)
            .await
            .is_err()
        {
            tracing::warn!(
                drain_ms = self.config.drain_ms,
                "calls are cut off at shutdown; their messages come again"
            );
        }
        self.live().consumers.clear();
        self.database.close().await;
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<(Namespace, String), Arc<Queue>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn queue(&self, namespace: &Namespace, name: &str) -> Result<Arc<Queue>, Fault> {
        let key = (namespace.clone(), name.to_owned());
        if let Some(queue) = self.known().get(&key) {
            return Ok(queue.clone());
        }
        let limits = self.config.clone();
        let (namespace, name) = key.clone();
        let ensure = move |connection: &Connection| {
            store::ensure_queue(connection, &namespace, &name, &limits)
        };
        let id = self.database.write(Durability::Synced, ensure).await?;
        let queue = Arc::new(Queue::new(id, self.database.clone(), self.clock.clone()));
        // Whoever was first gives the one that all share.
        Ok(self.known().entry(key).or_insert(queue).clone())
    }

    fn begin(
        &self,
        before: Option<Serving>,
        subscription: &Subscription,
        queue: Arc<Queue>,
        sink: Arc<dyn EventSink>,
    ) -> Serving {
        if let Some(before) = &before {
            before.stop.cancel();
        }
        let counters = before
            .as_ref()
            .map(|b| b.counters.clone())
            .unwrap_or_default();
        let sink = Arc::new(RwLock::new(sink));
        let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
        let consumer = Consumer {
            queue: queue.clone(),
            clock: self.clock.clone(),
            changes: self.changes.clone(),
            subscription: subscription.clone(),
            sink: sink.clone(),
            counters: counters.clone(),
            stop: stop.clone(),
        };
        let guard: DropGuard = ended.clone().drop_guard();
        let task = tokio::spawn(async move {
            if let Some(before) = before {
                // One consumer at a time; a panic in the one before is its end too.
                let _ = before.task.await;
            }
            consumer.run().await;
            drop(guard);
        });
        Serving {
            subscription: subscription.clone(),
            queue,
            sink,
            counters,
            stop,
            ended,
            task: AbortOnDropHandle::new(task),
        }
    }

    async fn seen(&self, counters: &Counters, queue: &Queue) -> SubscriptionStatus {
        // The counts are worth telling without this one.
        counters.status(queue.waiting().await.ok())
    }

    /// Runs `step` on the dead letters that are meant, a bounded number of them in one transaction, and
    /// answers for how many it told a queue.
    async fn step_through(
        &self,
        trigger: &TriggerId,
        which: &DeadLetterSelection,
        step: fn(&Connection, i64) -> Result<Option<i64>, Fault>,
    ) -> Result<u64, Fault> {
        let (trigger, which) = (trigger.clone(), which.clone());
        let select =
            move |connection: &Connection| dead_letters::select(connection, &trigger, &which);
        let ids = self.database.read(select).await?;
        let mut count = 0;
        for some in ids.chunks(dead_letters::STEP) {
            let some = some.to_vec();
            let job = move |connection: &Connection| -> Result<Vec<i64>, Fault> {
                let mut queues = Vec::new();
                for id in some {
                    queues.extend(step(connection, id)?);
                }
                Ok(queues)
            };
            let queues = self.database.write(Durability::Synced, job).await?;
            count += queues.len() as u64;
            for queue in self
                .known()
                .values()
                .filter(|queue| queues.contains(&queue.id()))
            {
                queue.wake.notify_one();
            }
        }
        Ok(count)
    }
}

impl fmt::Debug for LocalDispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalDispatcher")
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Dispatcher for LocalDispatcher {
    async fn apply(
        &self,
        subscription: &Subscription,
        sink: Arc<dyn EventSink>,
    ) -> Result<SubscriptionStatus> {
        let trigger = &subscription.trigger;
        let named = |fault| Error::from(fault).during("dispatcher.apply").on(trigger);
        let queue = self
            .queue(&trigger.namespace, &subscription.queue)
            .await
            .map_err(named)?;
        let (counters, queue) = {
            let mut live = self.live();
            if live.shut_down {
                return Err(shut_down().during("dispatcher.apply").on(trigger));
            }
            let before = live.consumers.remove(trigger);
            let serving = match before {
                Some(same) if same.subscription == *subscription && !same.stop.is_cancelled() => {
                    *same.sink.write().unwrap_or_else(PoisonError::into_inner) = sink;
                    same
                }
                before => self.begin(before, subscription, queue, sink),
            };
            let shared = (serving.counters.clone(), serving.queue.clone());
            live.consumers.insert(trigger.clone(), serving);
            shared
        };
        Ok(self.seen(&counters, &queue).await)
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
        let letters = self.purge(trigger, &DeadLetterSelection::All).await?;
        if letters > 0 {
            receipt.add("dead_letters", letters.to_string(), BACKEND);
        }
        Ok(receipt)
    }

    async fn status(&self, trigger: &TriggerId) -> Result<Option<SubscriptionStatus>> {
        let found = {
            let live = self.live();
            let serving = live
                .consumers
                .get(trigger)
                .filter(|serving| !serving.stop.is_cancelled());
            serving.map(|serving| (serving.counters.clone(), serving.queue.clone()))
        };
        match found {
            Some((counters, queue)) => Ok(Some(self.seen(&counters, &queue).await)),
            None => Ok(None),
        }
    }

    async fn dead_letters(
        &self,
        trigger: &TriggerId,
        query: &DeadLetterQuery,
    ) -> Result<DeadLetterPage> {
        let (of, query) = (trigger.clone(), query.clone());
        let page = move |connection: &Connection| dead_letters::page(connection, &of, &query);
        let named = |fault| {
            Error::from(fault)
                .during("dispatcher.dead_letters")
                .on(trigger)
        };
        self.database.read(page).await.map_err(named)
    }

    async fn redrive(&self, trigger: &TriggerId, which: &DeadLetterSelection) -> Result<u64> {
        let redriven = self
            .step_through(trigger, which, dead_letters::redrive)
            .await;
        redriven.map_err(|fault| Error::from(fault).during("dispatcher.redrive").on(trigger))
    }

    async fn purge(&self, trigger: &TriggerId, which: &DeadLetterSelection) -> Result<u64> {
        let purged = self.step_through(trigger, which, dead_letters::purge).await;
        purged.map_err(|fault| Error::from(fault).during("dispatcher.purge").on(trigger))
    }

    fn held(&self) -> HeldStream {
        let of = |kind: &str, name: String, trigger: &TriggerId| {
            Held::new(kind, name, BACKEND).of(trigger.key(), trigger.uid.clone())
        };
        let serving: Vec<_> = {
            let live = self.live();
            let each = live.consumers.iter().map(|(trigger, serving)| {
                let queue = &serving.subscription.queue;
                Ok(of(
                    "subscription",
                    format!("{trigger} on queue {queue}"),
                    trigger,
                ))
            });
            each.collect()
        };
        let database = self.database.clone();
        let letters = stream::once(async move {
            let counted = database.read(dead_letters::count).await;
            counted.map_err(|fault| Error::from(fault).during("dispatcher.held"))
        });
        let letters = letters.map_ok(move |counted| {
            let each = counted.into_iter().map(move |(trigger, count, since)| {
                Ok(of("dead_letters", format!("{trigger}: {count}"), &trigger).since(Some(since)))
            });
            stream::iter(each)
        });
        stream::iter(serving).chain(letters.try_flatten()).boxed()
    }

    fn changes(&self) -> ChangeStream {
        self.changes.subscribe()
    }
}

#[async_trait]
impl Publish for LocalDispatcher {
    async fn publish(
        &self,
        namespace: &Namespace,
        queue: &str,
        mut message: Message,
    ) -> Result<()> {
        let named = |error: Error| error.during("dispatcher.publish").on(queue).at(BACKEND);
        let limit = self.config.message_bytes;
        if store::message_bytes(&message) > limit {
            return Err(named(Error::limit("message_bytes", limit, "bytes")));
        }
        message.published_at.get_or_insert_with(|| self.clock.now());
        let published = async {
            let queue = self.queue(namespace, queue).await?;
            queue.publish(message, self.config.clone()).await
        };
        published.await.map_err(|fault: Fault| named(fault.into()))
    }
}

fn shut_down() -> Error {
    Error::unavailable("the dispatcher is shut down")
        .with_reason("closed")
        .at(BACKEND)
}
