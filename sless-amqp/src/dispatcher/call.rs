//! One message: from the broker to the sink, and on to what becomes of it.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use futures::FutureExt as _;
use lapin::{
    Acker,
    options::{BasicAckOptions, BasicNackOptions},
};
use sless_core::{Delivery, Disposition, Error, EventSink, Subscription};
use tokio_util::sync::CancellationToken;

use super::counters::{Counters, InFlight};
use crate::{
    AmqpConfig,
    connection::answer,
    error::Fault,
    message::{Death, Parcel},
    names,
    publisher::{Publisher, Wanted, keeping},
};

/// How long a released message is kept from coming again, so that a sink that takes nothing now is not
/// asked all the time.
const RELEASE: Duration = Duration::from_millis(100);

/// How often a consumer that is to end tries to write down what became of a message.
const LAST_ATTEMPTS: u32 = 3;

/// What all calls of a consumer share.
#[derive(Debug)]
pub(super) struct Calls {
    pub(super) config: Arc<AmqpConfig>,
    pub(super) publisher: Arc<Publisher>,
    pub(super) subscription: Subscription,
    /// Where the same subscription is applied with another sink, that one is called from then on.
    pub(super) sink: Arc<RwLock<Arc<dyn EventSink>>>,
    pub(super) counters: Arc<Counters>,
    pub(super) stop: CancellationToken,
}

/// What becomes of a message.
#[derive(Debug)]
enum Settlement {
    Done,
    Again { after: Duration },
    Dead { reason: String, attempts: u32 },
    Released,
}

impl Calls {
    /// Delivers a message and sees to it that the broker knows what became of it.
    pub(super) async fn run(&self, parcel: Parcel, acker: Acker, in_flight: InFlight) {
        let settlement = match self.refusal(&parcel) {
            Some(reason) => Settlement::Dead {
                attempts: parcel.note.attempts,
                reason,
            },
            None => self.deliver(&parcel).await,
        };
        drop(in_flight);
        self.settle(parcel, &acker, settlement).await;
    }

    /// Why a message is not delivered at all.
    fn refusal(&self, parcel: &Parcel) -> Option<String> {
        let limit = self.config.message_bytes;
        // The body alone decides it nearly always, and is cheap to ask.
        let long = parcel.body.len() > limit || parcel.bytes() > limit;
        long.then(|| {
            Error::limit("message_bytes", limit, "bytes")
                .message()
                .to_owned()
        })
    }

    async fn deliver(&self, parcel: &Parcel) -> Settlement {
        let attempt = parcel.note.attempts.saturating_add(1);
        let delivery = Delivery {
            trigger: self.subscription.trigger.clone(),
            queue: self.subscription.queue.clone(),
            message: parcel.message(),
            attempt,
        };
        let sink = self
            .sink
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        // A sink that panics must not take its consumer with it.
        let answer = AssertUnwindSafe(async move { sink.deliver(delivery).await }).catch_unwind();
        let disposition = answer.await.unwrap_or_else(|_| Disposition::Retry {
            after: Duration::from_millis(self.subscription.delivery.min_backoff_ms),
            reason: "the sink panicked".to_owned(),
        });
        match disposition {
            Disposition::Done => Settlement::Done,
            Disposition::Retry { after, reason } => {
                self.counters.count_failed(&reason);
                Settlement::Again { after }
            }
            Disposition::Dead { reason } => {
                self.counters.count_failed(&reason);
                Settlement::Dead {
                    reason,
                    attempts: attempt,
                }
            }
            Disposition::Release => Settlement::Released,
        }
    }

    async fn settle(&self, parcel: Parcel, acker: &Acker, settlement: Settlement) {
        match settlement {
            Settlement::Done => {
                self.counters.count_delivered();
                ack(&self.config, acker).await;
            }
            Settlement::Released => {
                tokio::select! {
                    () = tokio::time::sleep(RELEASE) => {}
                    () = self.stop.cancelled() => {}
                }
                give_back(&self.config, acker).await;
            }
            Settlement::Again { .. } | Settlement::Dead { .. } => {
                let dead = matches!(settlement, Settlement::Dead { .. });
                // It is safe elsewhere before it leaves its queue.
                if self.park(parcel, acker, settlement).await {
                    if dead {
                        self.counters.count_dead();
                    }
                    ack(&self.config, acker).await;
                } else {
                    give_back(&self.config, acker).await;
                }
            }
        }
    }

    /// Puts a message where it waits or stays, however long that takes. Answers `false` where the
    /// broker gives it out again in any case, or this consumer ends and it still cannot be done.
    async fn park(&self, mut parcel: Parcel, acker: &Acker, settlement: Settlement) -> bool {
        let queue = &self.subscription.queue;
        parcel.note.queue = Some(queue.clone());
        let attempts = parcel.note.attempts.saturating_add(1);
        let (properties, after) = match settlement {
            Settlement::Again { after } => (parcel.wrapped(attempts, None), Some(after)),
            Settlement::Dead { reason, attempts } => {
                (parcel.wrapped(attempts, Some(Death::new(&reason))), None)
            }
            Settlement::Done | Settlement::Released => return true,
        };
        let mut failures = 0;
        loop {
            if acker.poisoned() {
                return false;
            }
            let (properties, body) = (properties.clone(), &parcel.body);
            let parked = match after {
                Some(after) => {
                    self.publisher
                        .publish_after(queue, after, properties, body)
                        .await
                }
                None => {
                    let letters = self.letters();
                    self.publisher
                        .publish_into(&letters, properties, body)
                        .await
                }
            };
            let Err(fault) = parked else {
                return true;
            };
            self.fail(&fault);
            failures += 1;
            if self.stop.is_cancelled() && failures >= LAST_ATTEMPTS {
                return false;
            }
            tokio::select! {
                () = tokio::time::sleep(self.config.backoff(failures)) => {}
                () = self.stop.cancelled(), if failures < LAST_ATTEMPTS => {}
            }
        }
    }

    fn letters(&self) -> Wanted {
        Wanted {
            queue: names::dead(&self.subscription.trigger),
            arguments: keeping(&self.config),
        }
    }

    fn fail(&self, fault: &Fault) {
        let sentence = match fault {
            Fault::Full(_) => format!(
                "the dead letters of this trigger are at their limit dead_letters of {} or \
                 dead_letter_bytes of {}: purge or redrive some",
                self.config.dead_letters, self.config.dead_letter_bytes
            ),
            other => other.sentence(),
        };
        tracing::warn!(
            trigger = %self.subscription.trigger,
            queue = self.subscription.queue,
            why = sentence,
            "a message cannot be put aside; it is tried again"
        );
        self.counters.tell(&sentence);
    }
}

/// Takes a message from its queue. Where that fails, its channel is gone, and it comes again.
async fn ack(config: &AmqpConfig, acker: &Acker) {
    let ack = acker.ack(BasicAckOptions::default());
    // One that was on its way when the connection ended may never be answered.
    if let Err(fault) = answer(config, "an acknowledgement", ack).await {
        let why = fault.sentence();
        tracing::debug!(why, "a message is not acknowledged; it comes again");
    }
}

/// Gives a message back to its queue.
pub(super) async fn give_back(config: &AmqpConfig, acker: &Acker) {
    let requeue = BasicNackOptions {
        requeue: true,
        ..BasicNackOptions::default()
    };
    if let Err(fault) = answer(config, "giving back", acker.nack(requeue)).await {
        let why = fault.sentence();
        tracing::debug!(why, "a message is not given back; it comes again");
    }
}
