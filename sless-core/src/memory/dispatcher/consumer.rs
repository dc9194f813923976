//! The task that serves one subscription.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};
use tokio_util::sync::CancellationToken;

use super::{
    super::lock,
    Shared,
    queue::{Held, QueueName},
};
use crate::{Delivery, Disposition, EventSink, Subscription, SubscriptionStatus};

/// What is counted for one trigger. It stays over new descriptions of its subscription.
#[derive(Debug, Default)]
pub(super) struct Counters {
    connected: AtomicBool,
    delivered: AtomicU64,
    failed: AtomicU64,
    dead_lettered: AtomicU64,
    in_flight: AtomicU64,
    message: Mutex<String>,
}

impl Counters {
    pub(super) fn status(&self) -> SubscriptionStatus {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        SubscriptionStatus {
            connected: self.connected.load(Ordering::Relaxed),
            delivered: read(&self.delivered),
            failed: read(&self.failed),
            dead_lettered: read(&self.dead_lettered),
            in_flight: read(&self.in_flight),
            waiting: None,
            reason: String::new(),
            message: lock(&self.message).clone(),
        }
    }

    fn failed(&self, message: String) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        *lock(&self.message) = message;
    }
}

/// Takes the count of calls under way down again, also where a call is cut off.
struct InFlight<'a>(&'a Counters);

impl<'a> InFlight<'a> {
    fn new(counters: &'a Counters) -> Self {
        counters.in_flight.fetch_add(1, Ordering::Relaxed);
        Self(counters)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) struct Consumer {
    pub(super) shared: Arc<Shared>,
    pub(super) subscription: Subscription,
    pub(super) sink: Arc<RwLock<Arc<dyn EventSink>>>,
    pub(super) counters: Arc<Counters>,
    pub(super) stop: CancellationToken,
}

impl Consumer {
    /// Serves until told to stop, and then finishes what is in flight.
    pub(super) async fn run(self) {
        if self.stop.is_cancelled() {
            return;
        }
        let key = self.subscription.trigger.key();
        self.counters.connected.store(true, Ordering::Relaxed);
        self.shared.changes.notify(key.clone());
        self.serve().await;
        self.counters.connected.store(false, Ordering::Relaxed);
        self.shared.changes.notify(key);
    }

    async fn serve(&self) {
        let trigger = &self.subscription.trigger;
        let name: QueueName = (trigger.namespace.clone(), self.subscription.queue.clone());
        let at_once = (self.subscription.delivery.in_flight as usize).max(1);
        let mut tick = self.shared.store.subscribe(&name);
        let mut calls = FuturesUnordered::new();
        while !self.stop.is_cancelled() {
            tick.mark_seen();
            let mut wait = None;
            while calls.len() < at_once {
                match self.shared.store.take(&name) {
                    Ok(held) => calls.push(self.deliver(held)),
                    Err(next) => {
                        wait = next;
                        break;
                    }
                }
            }
            let full = calls.len() >= at_once;
            tokio::select! {
                biased;
                () = self.stop.cancelled() => {}
                Some(()) = calls.next() => {}
                // The store holds what tells, so that it is never over.
                _ = tick.next(), if !full => {}
                () = self.due(wait), if !full && wait.is_some() => {}
            }
        }
        while calls.next().await.is_some() {}
    }

    async fn due(&self, wait: Option<Duration>) {
        self.shared.clock.sleep(wait.unwrap_or_default()).await;
    }

    async fn deliver(&self, held: Held) {
        let _in_flight = InFlight::new(&self.counters);
        let delivery = Delivery {
            trigger: self.subscription.trigger.clone(),
            queue: self.subscription.queue.clone(),
            message: held.message(),
            attempt: held.attempt(),
        };
        let sink = Arc::clone(&*self.sink.read().unwrap_or_else(PoisonError::into_inner));
        // A sink that panics must not take the other calls of this subscription with it.
        let answer = AssertUnwindSafe(async move { sink.deliver(delivery).await }).catch_unwind();
        let options = self.subscription.delivery;
        let disposition = answer.await.unwrap_or_else(|_| Disposition::Retry {
            after: Duration::from_millis(options.min_backoff_ms),
            reason: "the sink panicked".to_owned(),
        });
        match disposition {
            Disposition::Done => {
                self.counters.delivered.fetch_add(1, Ordering::Relaxed);
                held.done();
            }
            // Not at once: a sink that takes nothing for now would be asked without a pause.
            Disposition::Release => {
                held.release(Duration::from_millis(options.min_backoff_ms));
            }
            Disposition::Retry { after, reason } => {
                self.counters.failed(reason);
                held.retry(after);
            }
            Disposition::Dead { reason } => {
                self.counters.failed(reason.clone());
                match held.dead(&self.subscription.trigger, reason) {
                    Ok(()) => {
                        self.counters.dead_lettered.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(refused) => {
                        let (held, limit) = *refused;
                        limit
                            .message()
                            .clone_into(&mut lock(&self.counters.message));
                        held.retry(Duration::from_millis(options.max_backoff_ms));
                    }
                }
            }
        }
    }
}
