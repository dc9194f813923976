//! The reconciler of event triggers: the queue that this process consumes, and what came of it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{Engine, events::FunctionSink, leadership::Post};
use crate::{
    CatalogExt as _, Function, FunctionPhase, Result, Subscription, SubscriptionStatus, Trigger,
    TriggerId, reason,
    resource::{EventCounts, ObjectKey, Resource as _, TriggerStatus},
};

/// How soon to look again at a subscription: should its hint be lost, and to store what it counted.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// The triggers whose queues this process consumes.
#[derive(Debug, Default)]
pub(super) struct Subscriptions(Mutex<BTreeMap<ObjectKey, Consumed>>);

#[derive(Clone, Debug)]
struct Consumed {
    trigger: TriggerId,
    /// What was counted here and is stored with the trigger.
    stored: EventCounts,
}

impl Subscriptions {
    fn trigger(&self, key: &ObjectKey) -> Option<TriggerId> {
        self.lock()
            .get(key)
            .map(|consumed| consumed.trigger.clone())
    }

    /// Takes note of a trigger, with what was counted of it before this engine came. One of the same
    /// name that was there before is another one.
    fn begin(&self, key: ObjectKey, trigger: &TriggerId, before: EventCounts) {
        let consumed = Consumed {
            trigger: trigger.clone(),
            stored: before,
        };
        self.lock().insert(key, consumed);
    }

    fn all(&self) -> Vec<(ObjectKey, TriggerId)> {
        let all = self.lock();
        let each = all.iter();
        each.map(|(key, consumed)| (key.clone(), consumed.trigger.clone()))
            .collect()
    }

    /// What was counted here and is not stored yet. A subscription that began again counts from zero.
    fn unstored(&self, trigger: &Trigger, seen: &SubscriptionStatus) -> EventCounts {
        let all = self.lock();
        let id = TriggerId::of(&trigger.metadata);
        let consumed = all
            .get(&trigger.key())
            .filter(|consumed| consumed.trigger == id);
        let stored = consumed.map_or_else(EventCounts::default, |consumed| consumed.stored);
        EventCounts::of(seen).since(stored)
    }

    fn stored(&self, key: &ObjectKey, seen: &SubscriptionStatus) {
        if let Some(consumed) = self.lock().get_mut(key) {
            consumed.stored = EventCounts::of(seen);
        }
    }

    fn end(&self, key: &ObjectKey) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Consumed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Consumes an event trigger's queue where this process dispatches; its status and its end are
    /// the leading dispatcher's.
    pub(super) async fn reconcile_event(
        self: &Arc<Self>,
        trigger: Trigger,
    ) -> Result<Option<Duration>> {
        if !self.takes_on(Post::Dispatcher) {
            return Ok(None);
        }
        let key = trigger.key();
        if trigger.metadata.is_deleting() {
            if self.leads(Post::Dispatcher) {
                self.subscriptions.end(&key);
                return self.take_trigger_apart(trigger).await;
            }
            self.end_subscription(&key).await?;
            return Ok(None);
        }
        let trigger = self.with_finalizer(trigger).await?;
        let function = self.function_of(&trigger).await?;
        let mut status = self.observed(&trigger, function.as_ref());
        if status.active && !function.is_some_and(|function| serves(&function)) {
            status.active = false;
            reason::FUNCTION_NOT_READY.clone_into(&mut status.reason);
            "its function is not ready; messages wait in the queue".clone_into(&mut status.message);
        }
        if !status.active || self.stop.is_cancelled() {
            let id = TriggerId::of(&trigger.metadata);
            let seen = self.backends.dispatcher.status(&id).await?;
            self.backends.dispatcher.remove(&id).await?;
            status.connected = Some(false);
            self.write_event(&trigger, status, &seen.unwrap_or_default())
                .await?;
            self.subscriptions.end(&key);
            return Ok(None);
        }
        let seen = self.consume(&trigger).await?;
        status.connected = Some(seen.connected);
        if !seen.connected {
            status.active = false;
            status.reason = match seen.reason.as_str() {
                "" => reason::DISCONNECTED.to_owned(),
                word => word.to_owned(),
            };
            status.message.clone_from(&seen.message);
        }
        self.write_event(&trigger, status, &seen).await?;
        Ok(Some(LOOK_AGAIN))
    }

    async fn consume(self: &Arc<Self>, trigger: &Trigger) -> Result<SubscriptionStatus> {
        let metadata = &trigger.metadata;
        let delivery = trigger.spec.delivery.unwrap_or_default();
        let sink = FunctionSink {
            engine: Arc::downgrade(self),
            namespace: metadata.namespace.clone(),
            trigger: metadata.name.clone(),
            function: trigger.spec.function_ref.clone(),
            delivery,
        };
        let subscription = Subscription {
            trigger: TriggerId::of(metadata),
            generation: metadata.generation,
            queue: trigger.spec.queue.clone().unwrap_or_default(),
            declare: trigger.spec.queue_declare.unwrap_or_default(),
            delivery,
        };
        let dispatcher = &self.backends.dispatcher;
        let key = trigger.key();
        if self.subscriptions.trigger(&key).as_ref() != Some(&subscription.trigger) {
            let before = dispatcher.status(&subscription.trigger).await?;
            let before = EventCounts::of(&before.unwrap_or_default());
            self.subscriptions.begin(key, &subscription.trigger, before);
        }
        dispatcher.apply(&subscription, Arc::new(sink)).await
    }

    /// Stores what this process counted, and where it leads, everything else.
    async fn write_event(
        &self,
        trigger: &Trigger,
        seen: TriggerStatus,
        counted: &SubscriptionStatus,
    ) -> Result<()> {
        let mut status = if self.leads(Post::Dispatcher) {
            seen
        } else {
            trigger.status.clone()
        };
        status.counts = status.counts + self.subscriptions.unstored(trigger, counted);
        self.write_trigger(trigger, status).await?;
        self.subscriptions.stored(&trigger.key(), counted);
        Ok(())
    }

    /// Stores what was counted last, after everything else has stopped.
    pub(super) async fn store_last_counts(&self) {
        for (key, id) in self.subscriptions.all() {
            for _ in 0..crate::catalog::MODIFY_ATTEMPTS {
                match self.store_counts(&key, &id).await {
                    Err(error) if error.is_conflict() => {}
                    Err(error) => {
                        tracing::warn!(trigger = %key, error = %error.chain(), "the last counts were not stored");
                        break;
                    }
                    Ok(()) => break,
                }
            }
        }
    }

    async fn store_counts(&self, key: &ObjectKey, id: &TriggerId) -> Result<()> {
        let Some(counted) = self.backends.dispatcher.status(id).await? else {
            return Ok(());
        };
        let catalog = &self.backends.catalog;
        let found: Option<Trigger> = catalog.find(&key.namespace, &key.name).await?;
        let Some(trigger) = found.filter(|trigger| TriggerId::of(&trigger.metadata) == *id) else {
            return Ok(());
        };
        let mut status = trigger.status.clone();
        status.counts = status.counts + self.subscriptions.unstored(&trigger, &counted);
        self.write_trigger(&trigger, status).await?;
        self.subscriptions.stored(key, &counted);
        Ok(())
    }

    /// What came of a trigger's messages, over all processes: what is stored, and what this one has
    /// counted since.
    pub(super) async fn event_counts(&self, trigger: &Trigger) -> Result<EventCounts> {
        let id = TriggerId::of(&trigger.metadata);
        let seen = self
            .backends
            .dispatcher
            .status(&id)
            .await?
            .unwrap_or_default();
        Ok(trigger.status.counts + self.subscriptions.unstored(trigger, &seen))
    }

    /// Ends what this process consumes for a trigger that is gone, or is none of events any more.
    pub(super) async fn end_subscription(&self, key: &ObjectKey) -> Result<()> {
        let Some(trigger) = self.subscriptions.trigger(key) else {
            return Ok(());
        };
        self.backends.dispatcher.remove(&trigger).await?;
        self.subscriptions.end(key);
        Ok(())
    }
}

/// Whether a function answers: its wanted version, or the one before.
fn serves(function: &Function) -> bool {
    let status = &function.status;
    status.phase == FunctionPhase::Ready
        || (status.phase != FunctionPhase::Stopped && status.serving.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Name, Namespace, TriggerSpec, resource::Metadata};

    fn seen(delivered: u64) -> SubscriptionStatus {
        SubscriptionStatus {
            delivered,
            ..SubscriptionStatus::default()
        }
    }

    #[test]
    fn what_was_counted_is_stored_once_and_a_new_count_begins_at_zero() {
        let name = Name::new("t").expect("a label");
        let metadata = Metadata::new(Namespace::new("ns").expect("a label"), name.clone());
        let trigger = Trigger::new(metadata, TriggerSpec::event(name, "q"));
        let subscriptions = Subscriptions::default();
        let key = trigger.key();
        let id = TriggerId::of(&trigger.metadata);
        subscriptions.begin(key.clone(), &id, EventCounts::default());
        assert_eq!(subscriptions.unstored(&trigger, &seen(5)).delivered, 5);
        subscriptions.stored(&key, &seen(5));
        assert_eq!(subscriptions.unstored(&trigger, &seen(7)).delivered, 2);
        assert_eq!(subscriptions.unstored(&trigger, &seen(3)).delivered, 3);
    }
}
