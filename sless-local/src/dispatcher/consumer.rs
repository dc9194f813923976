//! The task that serves one subscription.

use std::{
    collections::VecDeque,
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use futures::{FutureExt as _, StreamExt as _, future, stream::FuturesUnordered};
use jiff::Timestamp;
use sless_core::{
    Changes, Clock, Delivery, Disposition, EventSink, Subscription, SubscriptionStatus,
};
use tokio_util::sync::CancellationToken;

use super::{
    queue::Queue,
    store::{Batch, Settlement, Taken, due_after, nanoseconds},
};
use crate::error::Fault;

/// The delay after the first failure of the file; it doubles from there.
const FIRST_DELAY: Duration = Duration::from_millis(100);

/// The longest delay between two attempts at the file.
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// How often a consumer that is to end tries to write down what became of a message.
const LAST_ATTEMPTS: u32 = 3;

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
    pub(super) fn status(&self, waiting: Option<u64>) -> SubscriptionStatus {
        let mut status = SubscriptionStatus::default();
        status.connected = self.connected.load(Relaxed);
        status.delivered = self.delivered.load(Relaxed);
        status.failed = self.failed.load(Relaxed);
        status.dead_lettered = self.dead_lettered.load(Relaxed);
        status.in_flight = self.in_flight.load(Relaxed);
        status.waiting = waiting;
        self.message
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone_into(&mut status.message);
        status
    }

    fn tell(&self, message: &str) {
        let mut kept = self.message.lock().unwrap_or_else(PoisonError::into_inner);
        message.clone_into(&mut kept);
    }

    fn count(&self, settlement: &Disposition) {
        match settlement {
            Disposition::Done => {
                self.delivered.fetch_add(1, Relaxed);
            }
            Disposition::Retry { reason, .. } => {
                self.failed.fetch_add(1, Relaxed);
                self.tell(reason);
            }
            Disposition::Release => {}
            Disposition::Dead { reason } => {
                self.failed.fetch_add(1, Relaxed);
                self.dead_lettered.fetch_add(1, Relaxed);
                self.tell(reason);
            }
        }
    }
}

/// Takes the count of calls under way down again, also where a call is cut off.
struct InFlight<'a>(&'a Counters);

impl<'a> InFlight<'a> {
    fn new(counters: &'a Counters) -> Self {
        counters.in_flight.fetch_add(1, Relaxed);
        Self(counters)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Relaxed);
    }
}

pub(super) struct Consumer {
    pub(super) queue: Arc<Queue>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) changes: Changes,
    pub(super) subscription: Subscription,
    /// Where the same subscription is applied with another sink, that one is called from then on.
    pub(super) sink: Arc<RwLock<Arc<dyn EventSink>>>,
    pub(super) counters: Arc<Counters>,
    pub(super) stop: CancellationToken,
}

/// Whether there may be something to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outlook {
    /// Look now.
    Look,
    /// Not before somebody says so, or this time comes, in milliseconds of the wall clock.
    Wait(Option<i64>),
}

/// A call that has ended.
struct Ended {
    id: i64,
    then: Then,
}

/// What is left of a message when its call has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// It left the queue.
    Gone,
    /// It comes again.
    Again,
    /// The sink takes nothing now: there is no use in trying again at once.
    Released,
}

impl Consumer {
    /// Serves until told to stop, and then finishes what is in flight.
    pub(super) async fn run(self) {
        if self.stop.is_cancelled() {
            return;
        }
        self.connected(true);
        self.serve().await;
        self.connected(false);
    }

    fn connected(&self, connected: bool) {
        if self.counters.connected.swap(connected, Relaxed) != connected {
            self.changes.notify(self.subscription.trigger.key());
        }
    }

    async fn serve(&self) {
        let delivery = self.subscription.delivery;
        let at_once = (delivery.in_flight as usize).max(1);
        let ahead = delivery.prefetch as usize;
        let mut calls = FuturesUnordered::new();
        let mut ready: VecDeque<Taken> = VecDeque::new();
        let mut outlook = Outlook::Look;
        let mut failures = 0;
        while !self.stop.is_cancelled() {
            while calls.len() < at_once
                && let Some(taken) = ready.pop_front()
            {
                calls.push(self.deliver(taken));
            }
            let room = at_once + ahead - calls.len() - ready.len();
            // Several at a time are cheaper than one by one.
            let low = ready.len() <= ahead / 2;
            if outlook == Outlook::Look && room > 0 && low {
                match self.take(room, &mut calls).await {
                    Ok(batch) => {
                        failures = 0;
                        self.connected(true);
                        let all = batch.messages.len() < room;
                        outlook = if all {
                            Outlook::Wait(batch.next_due)
                        } else {
                            Outlook::Look
                        };
                        ready.extend(batch.messages);
                    }
                    Err(fault) => {
                        self.fail(&fault);
                        self.pause(failures, &mut calls).await;
                        failures += 1;
                    }
                }
                continue;
            }
            tokio::select! {
                biased;
                () = self.stop.cancelled() => {}
                Some(first) = calls.next() => {
                    let mut ended = vec![first];
                    while let Some(Some(next)) = calls.next().now_or_never() {
                        ended.push(next);
                    }
                    self.queue.release(ended.iter().map(|call| call.id)).await;
                    if ended.iter().any(|call| call.then != Then::Gone) {
                        outlook = Outlook::Look;
                    }
                    if ended.iter().any(|call| call.then == Then::Released) {
                        self.pause(0, &mut calls).await;
                    }
                }
                () = self.queue.wake.notified(), if outlook != Outlook::Look => {
                    outlook = Outlook::Look;
                }
                () = self.due(outlook), if outlook != Outlook::Look => outlook = Outlook::Look,
            }
        }
        self.queue
            .release(ready.drain(..).map(|taken| taken.id))
            .await;
        while let Some(call) = calls.next().await {
            self.queue.release([call.id]).await;
        }
        // What was told to this one may be for another consumer of the queue.
        self.queue.wake.notify_one();
    }

    /// Takes messages, while the calls go on.
    async fn take<F>(&self, room: usize, calls: &mut FuturesUnordered<F>) -> Result<Batch, Fault>
    where
        F: Future<Output = Ended>,
    {
        let mut ended = Vec::new();
        let batch = {
            let batch = self.queue.take(room);
            tokio::pin!(batch);
            loop {
                tokio::select! {
                    biased;
                    batch = &mut batch => break batch,
                    Some(call) = calls.next() => ended.push(call),
                }
            }
        };
        let again = ended.iter().any(|call| call.then != Then::Gone);
        self.queue.release(ended.iter().map(|call| call.id)).await;
        if again {
            self.queue.wake.notify_one();
        }
        batch
    }

    async fn due(&self, outlook: Outlook) {
        match outlook {
            Outlook::Wait(Some(due)) => {
                let due = Timestamp::from_millisecond(due).unwrap_or(Timestamp::MAX);
                self.clock.wake_at(due).await;
            }
            _ => future::pending().await,
        }
    }

    /// Waits, while the calls go on: after a failure of the file, and where the sink takes nothing now.
    async fn pause<F>(&self, failures: u32, calls: &mut FuturesUnordered<F>)
    where
        F: Future<Output = Ended>,
    {
        let delay = self.clock.sleep(delay(failures));
        tokio::pin!(delay);
        loop {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                Some(call) = calls.next() => self.queue.release([call.id]).await,
                () = &mut delay => return,
            }
        }
    }

    fn fail(&self, fault: &Fault) {
        let error = fault.to_error();
        tracing::warn!(
            trigger = %self.subscription.trigger,
            queue = self.subscription.queue,
            %error,
            "the queue cannot be used; it is tried again"
        );
        self.counters.tell(error.message());
        self.connected(false);
    }

    /// Delivers a message and writes down what became of it.
    async fn deliver(&self, taken: Taken) -> Ended {
        let Taken {
            id,
            failed,
            message,
        } = taken;
        let delivery = Delivery {
            trigger: self.subscription.trigger.clone(),
            queue: self.subscription.queue.clone(),
            message,
            attempt: failed.saturating_add(1),
        };
        let sink = self
            .sink
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let in_flight = InFlight::new(&self.counters);
        // A sink that panics must not take the other calls of this subscription with it.
        let answer = AssertUnwindSafe(async move { sink.deliver(delivery).await }).catch_unwind();
        let disposition = answer.await.unwrap_or_else(|_| Disposition::Retry {
            after: Duration::from_millis(self.subscription.delivery.min_backoff_ms),
            reason: "the sink panicked".to_owned(),
        });
        self.counters.count(&disposition);
        drop(in_flight);
        let settlement = match disposition {
            Disposition::Done => Settlement::Done,
            // Its row is as it was.
            Disposition::Release => {
                return Ended {
                    id,
                    then: Then::Released,
                };
            }
            Disposition::Retry { after, .. } => Settlement::Retry {
                due_at: due_after(self.clock.now(), after),
            },
            Disposition::Dead { reason } => Settlement::Dead {
                trigger: self.subscription.trigger.clone(),
                reason,
                died_at: nanoseconds(self.clock.now()),
            },
        };
        let stays = matches!(settlement, Settlement::Retry { .. });
        let settled = self.settle(id, settlement).await;
        Ended {
            id,
            then: if stays || !settled {
                Then::Again
            } else {
                Then::Gone
            },
        }
    }

    /// Writes down what became of a message, however long that takes. Answers `false` where this
    /// consumer ends and it still cannot be written: the message then comes again.
    async fn settle(&self, id: i64, settlement: Settlement) -> bool {
        let mut failures = 0;
        while let Err(fault) = self.queue.settle(id, settlement.clone()).await {
            self.fail(&fault);
            failures += 1;
            if self.stop.is_cancelled() && failures >= LAST_ATTEMPTS {
                return false;
            }
            tokio::select! {
                () = self.clock.sleep(delay(failures)) => {}
                () = self.stop.cancelled(), if failures < LAST_ATTEMPTS => {}
            }
        }
        true
    }
}

fn delay(failures: u32) -> Duration {
    FIRST_DELAY
        .saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX))
        .min(LONGEST_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_a_bound() {
        let millis: Vec<_> = [0, 1, 2, 8, 9, 31, 32, u32::MAX]
            .map(delay)
            .map(|d| d.as_millis())
            .into();
        assert_eq!(
            millis,
            [100, 200, 400, 25_600, 30_000, 30_000, 30_000, 30_000]
        );
    }
}
