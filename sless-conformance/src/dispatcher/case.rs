//! One run of one clause: triggers and queues of its own, removed at its end.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use sless_core::{
    DeadLetter, DeadLetterQuery, Delivery, DeliveryOptions, Dispatcher, Disposition, EventSink,
    Message, Namespace, Result, Subscription, TriggerId, Uid,
};

use super::{DispatcherHarness, RecordingSink};
use crate::{
    Outcome, Violation,
    clause::While as _,
    harness::{eventually, passing, when},
    unique,
};

pub(crate) struct Case<'a> {
    pub(super) harness: &'a dyn DispatcherHarness,
    pub(super) namespace: Namespace,
    triggers: Mutex<Vec<TriggerId>>,
    queues: Mutex<Vec<(Namespace, String)>>,
    sinks: Mutex<Vec<Arc<RecordingSink>>>,
}

impl<'a> Case<'a> {
    pub(super) async fn open(harness: &'a dyn DispatcherHarness) -> Result<Self, Violation> {
        let namespace = unique::namespace()?;
        Ok(Self {
            harness,
            namespace,
            triggers: Mutex::default(),
            queues: Mutex::default(),
            sinks: Mutex::default(),
        })
    }

    pub(super) async fn close(&self) -> Outcome {
        // A clause that failed may have left one that is held, for which a removal would wait.
        for sink in self
            .sinks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
        {
            sink.release();
        }
        let dispatcher = self.dispatcher().await?;
        let triggers = self
            .triggers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for trigger in triggers {
            self.passing(dispatcher.forget(&trigger))
                .await
                .while_("cleaning up")?;
        }
        let queues = self
            .queues
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for (namespace, queue) in queues {
            self.harness
                .remove_queue(&namespace, &queue)
                .await
                .while_("cleaning up")?;
        }
        Ok(self.harness.clean_up().await?)
    }

    pub(super) async fn dispatcher(&self) -> Result<Arc<dyn Dispatcher>> {
        self.harness.dispatcher().await
    }

    /// Awaits, while the backend's time passes.
    pub(super) async fn passing<T>(&self, future: impl Future<Output = T>) -> T {
        passing(self.harness, future).await
    }

    /// A subscription to a queue of its own.
    pub(super) fn subscription(&self) -> Result<Subscription> {
        self.subscription_in(&self.namespace, &format!("conformance.{}", unique::tag()))
    }

    pub(super) fn subscription_in(
        &self,
        namespace: &Namespace,
        queue: &str,
    ) -> Result<Subscription> {
        let trigger = TriggerId {
            namespace: namespace.clone(),
            name: unique::name("on-event")?,
            uid: Uid::random(),
        };
        let place = (namespace.clone(), queue.to_owned());
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        if !queues.contains(&place) {
            queues.push(place);
        }
        self.triggers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(trigger.clone());
        let delivery = DeliveryOptions {
            min_backoff_ms: 10,
            max_backoff_ms: 1_000,
            ..DeliveryOptions::default()
        };
        Ok(Subscription {
            trigger,
            generation: 1,
            queue: queue.to_owned(),
            declare: sless_core::QueueDeclare::default(),
            delivery,
        })
    }

    /// A sink that gives these answers.
    pub(super) fn sink(
        &self,
        answer: impl Fn(&Delivery) -> Disposition + Send + Sync + 'static,
    ) -> Arc<RecordingSink> {
        let sink = RecordingSink::new(self.harness.clock(), answer);
        self.sinks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(sink.clone());
        sink
    }

    /// A sink that handles everything.
    pub(super) fn handling(&self) -> Arc<RecordingSink> {
        self.sink(|_| Disposition::Done)
    }

    /// Applies until messages can come.
    pub(super) async fn apply(
        &self,
        subscription: &Subscription,
        sink: &Arc<RecordingSink>,
    ) -> Outcome {
        self.apply_any(subscription, sink.clone()).await
    }

    pub(super) async fn apply_any(
        &self,
        subscription: &Subscription,
        sink: Arc<dyn EventSink>,
    ) -> Outcome {
        let dispatcher = self.dispatcher().await?;
        self.passing(dispatcher.apply(subscription, sink))
            .await
            .while_("applying")?;
        eventually!(self.harness, "the subscription is connected", {
            let status = dispatcher
                .status(&subscription.trigger)
                .await
                .while_("asking")?;
            when(
                status.as_ref().is_some_and(|status| status.connected),
                status,
            )
        });
        Ok(())
    }

    pub(super) async fn publish(
        &self,
        subscription: &Subscription,
        message: Message,
    ) -> Result<(), Violation> {
        let publisher = self.harness.publisher().await?;
        let namespace = &subscription.trigger.namespace;
        let publish = publisher.publish(namespace, &subscription.queue, message);
        self.passing(publish).await.while_("publishing")
    }

    /// Publishes messages with these bodies.
    pub(super) async fn publish_all(
        &self,
        subscription: &Subscription,
        bodies: impl IntoIterator<Item = String>,
    ) -> Outcome {
        for body in bodies {
            self.publish(subscription, message(body)).await?;
        }
        Ok(())
    }

    /// Waits for so many calls, looks on for a while, and gives the bodies that came.
    pub(super) async fn bodies(
        &self,
        sink: &RecordingSink,
        count: usize,
    ) -> Result<Vec<String>, Violation> {
        eventually!(self.harness, format!("{count} messages are delivered"), {
            let calls = sink.calls().len();
            when(calls >= count, calls)
        });
        self.quiet().await;
        Ok(texts(sink))
    }

    /// Looks on for a while.
    pub(super) async fn quiet(&self) {
        self.harness.pass(self.harness.quiet()).await;
    }

    /// All dead letters, from pages of this size.
    pub(super) async fn letters(
        &self,
        trigger: &TriggerId,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, Violation> {
        let dispatcher = self.dispatcher().await?;
        let mut query = DeadLetterQuery::first(limit);
        let mut all = Vec::new();
        loop {
            let read = dispatcher.dead_letters(trigger, &query);
            let page = self.passing(read).await.while_("reading dead letters")?;
            crate::clause::ensure!(
                page.items.len() <= limit,
                "a page of at most {limit} has {} letters",
                page.items.len()
            );
            all.extend(page.items);
            match page.next {
                Some(next) => query = query.from_cursor(Some(next)),
                None => return Ok(all),
            }
        }
    }

    /// Waits for so many dead letters.
    pub(super) async fn dead(
        &self,
        trigger: &TriggerId,
        count: usize,
    ) -> Result<Vec<DeadLetter>, Violation> {
        Ok(eventually!(
            self.harness,
            format!("there are {count} dead letters"),
            {
                let letters = self.letters(trigger, 100).await?;
                when(letters.len() == count, letters)
            }
        ))
    }
}

/// A message with this body.
pub(super) fn message(body: impl Into<Bytes>) -> Message {
    Message {
        body: body.into(),
        ..Message::default()
    }
}

fn text(message: &Message) -> String {
    String::from_utf8_lossy(&message.body).into_owned()
}

/// The bodies that came, in order of the bodies.
pub(super) fn texts(sink: &RecordingSink) -> Vec<String> {
    let mut texts: Vec<_> = sink
        .calls()
        .iter()
        .map(|call| text(&call.delivery.message))
        .collect();
    texts.sort_unstable();
    texts
}

/// The bodies of letters, in their order.
pub(super) fn letter_texts(letters: &[DeadLetter]) -> Vec<String> {
    letters.iter().map(|letter| text(&letter.message)).collect()
}
