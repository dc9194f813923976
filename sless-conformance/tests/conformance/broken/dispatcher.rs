use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::StreamExt as _;
use sless_conformance::dispatcher::{DispatcherHarness, clauses};
use sless_core::{
    ChangeStream, DeadLetterPage, DeadLetterQuery, DeadLetterSelection, Delivery, Dispatcher,
    Disposition, EventSink, HeldStream, Message, Namespace, Publish, Receipt, Result, Subscription,
    SubscriptionStatus, TriggerId, VirtualClock, memory::MemoryDispatcher,
};

use super::{Broken, Expected, expect};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Defect {
    /// What was taken has been handled.
    AtMostOnce,
    /// A message comes again at once.
    Impatient,
    /// Every attempt is the first.
    AlwaysFirst,
    /// What is given up is dropped.
    DropsDead,
    /// More is taken than may be.
    Greedy,
    /// Headers are lost.
    LosesHeaders,
    /// The acknowledgement of one message is lost.
    LosesOneDone,
    /// `remove` does not wait.
    RemovesAtOnce,
    /// All letters are redriven.
    RedrivesAll,
    /// Nothing is purged, and all is said to be.
    PurgesNothing,
    /// A page of letters begins anew.
    OnePage,
    /// Messages of any size are taken, and dropped.
    SwallowsLarge,
    /// Nothing is hinted.
    Silent,
    /// The status counts nothing.
    CountsNothing,
    /// What a crash leaves is nothing.
    Volatile,
    /// It says that it holds nothing.
    Hides,
}

/// The sink with the defect.
#[derive(Debug)]
struct FaultySink {
    inner: Arc<dyn EventSink>,
    defect: Defect,
}

#[async_trait]
impl EventSink for FaultySink {
    async fn deliver(&self, mut delivery: Delivery) -> Disposition {
        match self.defect {
            Defect::AlwaysFirst => delivery.attempt = 1,
            Defect::LosesHeaders => delivery.message.headers.clear(),
            _ => {}
        }
        let lost = self.defect == Defect::LosesOneDone
            && delivery.attempt == 1
            && &delivery.message.body[..] == b"7";
        match (self.defect, self.inner.deliver(delivery).await) {
            (_, Disposition::Done) if lost => Disposition::Retry {
                after: Duration::ZERO,
                reason: String::new(),
            },
            (Defect::AtMostOnce, Disposition::Retry { .. })
            | (Defect::DropsDead, Disposition::Dead { .. }) => Disposition::Done,
            (Defect::Impatient, Disposition::Retry { reason, .. }) => Disposition::Retry {
                after: Duration::ZERO,
                reason,
            },
            (_, other) => other,
        }
    }
}

/// The dispatcher with the defect.
#[derive(Debug)]
struct Faulty {
    inner: Arc<MemoryDispatcher>,
    defect: Defect,
}

#[async_trait]
impl Dispatcher for Faulty {
    async fn apply(
        &self,
        subscription: &Subscription,
        sink: Arc<dyn EventSink>,
    ) -> Result<SubscriptionStatus> {
        let mut subscription = subscription.clone();
        if self.defect == Defect::Greedy {
            subscription.delivery.in_flight *= 4;
        }
        let sink = Arc::new(FaultySink {
            inner: sink,
            defect: self.defect,
        });
        self.inner.apply(&subscription, sink).await
    }

    async fn remove(&self, trigger: &TriggerId) -> Result<Receipt> {
        if self.defect == Defect::RemovesAtOnce {
            let (inner, trigger) = (self.inner.clone(), trigger.clone());
            let there = inner.status(&trigger).await?.is_some();
            let mut removal = tokio::spawn(async move { inner.remove(&trigger).await });
            let mut receipt = Receipt::default();
            if there {
                receipt.add("subscription", "soon", "broken");
            }
            // What ends at once ends.
            for _ in 0..8 {
                tokio::task::yield_now().await;
            }
            let _ = futures::poll!(&mut removal);
            return Ok(receipt);
        }
        self.inner.remove(trigger).await
    }

    async fn forget(&self, trigger: &TriggerId) -> Result<Receipt> {
        self.inner.forget(trigger).await
    }

    async fn status(&self, trigger: &TriggerId) -> Result<Option<SubscriptionStatus>> {
        let status = self.inner.status(trigger).await?;
        Ok(status.map(|mut status| {
            if self.defect == Defect::CountsNothing {
                let connected = status.connected;
                status = SubscriptionStatus::default();
                status.connected = connected;
            }
            status
        }))
    }

    async fn dead_letters(
        &self,
        trigger: &TriggerId,
        query: &DeadLetterQuery,
    ) -> Result<DeadLetterPage> {
        let mut page = self.inner.dead_letters(trigger, query).await?;
        if self.defect == Defect::OnePage {
            page.next = None;
        }
        Ok(page)
    }

    async fn redrive(&self, trigger: &TriggerId, which: &DeadLetterSelection) -> Result<u64> {
        match self.defect {
            Defect::RedrivesAll => self.inner.redrive(trigger, &DeadLetterSelection::All).await,
            _ => self.inner.redrive(trigger, which).await,
        }
    }

    async fn purge(&self, trigger: &TriggerId, which: &DeadLetterSelection) -> Result<u64> {
        if self.defect == Defect::PurgesNothing {
            let page = self
                .inner
                .dead_letters(trigger, &DeadLetterQuery::first(100))
                .await?;
            return Ok(page
                .items
                .iter()
                .filter(|letter| which.contains(&letter.id))
                .count() as u64);
        }
        self.inner.purge(trigger, which).await
    }

    fn held(&self) -> HeldStream {
        if self.defect == Defect::Hides {
            return futures::stream::empty().boxed();
        }
        self.inner.held()
    }

    fn changes(&self) -> ChangeStream {
        if self.defect == Defect::Silent {
            return futures::stream::pending().boxed();
        }
        self.inner.changes()
    }
}

#[async_trait]
impl Publish for Faulty {
    async fn publish(&self, namespace: &Namespace, queue: &str, message: Message) -> Result<()> {
        let published = self.inner.publish(namespace, queue, message).await;
        if self.defect == Defect::SwallowsLarge {
            Ok(())
        } else {
            published
        }
    }
}

type Backend = std::sync::Mutex<Arc<Faulty>>;

impl Broken<Backend, Defect> {
    fn faulty(&self) -> Arc<Faulty> {
        self.backend.lock().expect("no panic").clone()
    }
}

#[async_trait]
impl DispatcherHarness for Broken<Backend, Defect> {
    async fn dispatcher(&self) -> Result<Arc<dyn Dispatcher>> {
        Ok(self.faulty())
    }

    async fn publisher(&self) -> Result<Arc<dyn Publish>> {
        Ok(self.faulty())
    }

    async fn reopen(&self) -> Result<bool> {
        let inner = if self.defect == Defect::Volatile {
            MemoryDispatcher::new(Arc::new(self.clock.clone()))
        } else {
            self.faulty().inner.restarted().await
        };
        let after = Arc::new(Faulty {
            inner: Arc::new(inner),
            defect: self.defect,
        });
        *self.backend.lock().expect("no panic") = after;
        Ok(true)
    }

    fn separates_namespaces(&self) -> bool {
        true
    }

    fn message_bytes_max(&self) -> Option<usize> {
        Some(1 << 20)
    }

    async fn remove_queue(&self, _: &Namespace, _: &str) -> Result<()> {
        Ok(())
    }
}

fn find(defects: Expected<'_, Defect>) {
    let make = |defect| -> Box<dyn DispatcherHarness> {
        let clock = VirtualClock::default();
        let inner = Arc::new(MemoryDispatcher::new(Arc::new(clock.clone())));
        let backend = std::sync::Mutex::new(Arc::new(Faulty { inner, defect }));
        Box::new(Broken {
            clock,
            backend,
            defect,
        })
    };
    expect(defects, clauses(), make);
}

#[test]
fn a_dispatcher_that_loses_messages_is_found() {
    find(&[
        (
            Defect::AtMostOnce,
            &[
                "a_dead_message_is_kept_whole",
                "a_released_message_comes_again_uncounted",
                "a_retry_waits_its_time",
                "a_waiting_retry_holds_nobody_up",
                "attempts_are_counted",
                "messages_survive_a_reopen",
            ],
        ),
        (
            Defect::DropsDead,
            &[
                "a_dead_message_is_kept_whole",
                "a_forgotten_subscription_leaves_its_queue_only",
                "dead_letters_are_read_in_pages_oldest_first",
                "dead_letters_outlive_their_subscription",
                "dead_letters_survive_a_reopen",
                "only_the_chosen_letters_are_redriven",
                "purged_letters_are_gone",
                "redriven_messages_come_again",
                "the_status_tells_what_was_seen",
                "what_is_served_is_held_until_it_is_forgotten",
            ],
        ),
        (
            Defect::LosesHeaders,
            &["a_message_arrives_whole", "attempts_are_counted"],
        ),
        (
            Defect::SwallowsLarge,
            &["a_message_that_is_too_large_is_refused"],
        ),
        (
            Defect::Volatile,
            &[
                "a_message_that_was_taken_comes_again",
                "dead_letters_survive_a_reopen",
                "messages_survive_a_reopen",
            ],
        ),
    ]);
}

#[test]
fn a_dispatcher_that_tries_again_badly_is_found() {
    find(&[
        (
            Defect::Impatient,
            &[
                "a_retry_waits_its_time",
                "a_waiting_retry_holds_nobody_up",
                "messages_survive_a_reopen",
            ],
        ),
        (
            Defect::AlwaysFirst,
            &[
                "a_dead_message_is_kept_whole",
                "a_released_message_comes_again_uncounted",
                "a_retry_waits_its_time",
                "attempts_are_counted",
                "messages_survive_a_reopen",
                "the_status_tells_what_was_seen",
            ],
        ),
        (
            Defect::LosesOneDone,
            &[
                "a_handled_message_does_not_come_again",
                "another_description_replaces_the_consumer",
                "no_more_calls_at_once_than_allowed",
            ],
        ),
    ]);
}

#[test]
fn a_dispatcher_that_takes_too_much_is_found() {
    find(&[
        (
            Defect::Greedy,
            &[
                "a_busy_consumer_holds_no_more_than_it_may",
                "a_new_sink_takes_over",
                "a_subscription_has_one_consumer",
                "another_description_replaces_the_consumer",
                "no_more_calls_at_once_than_allowed",
                "the_status_tells_what_was_seen",
            ],
        ),
        (
            Defect::RemovesAtOnce,
            &["removing_waits_for_what_is_in_flight"],
        ),
    ]);
}

#[test]
fn a_dispatcher_that_keeps_dead_letters_badly_is_found() {
    find(&[
        (
            Defect::RedrivesAll,
            &["only_the_chosen_letters_are_redriven"],
        ),
        (Defect::PurgesNothing, &["purged_letters_are_gone"]),
        (
            Defect::OnePage,
            &["dead_letters_are_read_in_pages_oldest_first"],
        ),
    ]);
}

#[test]
fn a_dispatcher_that_tells_too_little_is_found() {
    find(&[
        (
            Defect::Silent,
            &["a_change_is_hinted_when_a_subscription_comes_and_goes"],
        ),
        (Defect::CountsNothing, &["the_status_tells_what_was_seen"]),
        (
            Defect::Hides,
            &["what_is_served_is_held_until_it_is_forgotten"],
        ),
    ]);
}
