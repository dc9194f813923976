//! The reconciler of triggers: URL, schedule or queue; or take apart.

use std::{
    collections::HashMap,
    sync::{Arc, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;

use super::{Engine, events::FunctionSink};
use crate::{
    CatalogExt as _, Function, FunctionPhase, Kind, Receipt, Result, Subscription, Trigger,
    TriggerId, TriggerType,
    cron::{Cause, Decision, Ledger, decide},
    reason,
    resource::{Condition, ObjectKey, Resource as _, TriggerStatus},
};

const ACTIVE: &str = "Active";

/// How soon to look again at a subscription, should its hint be lost.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// A step of a cron trigger.
struct Step {
    ledger: Ledger,
    next: Option<Timestamp>,
    fire: Option<(Timestamp, Cause)>,
}

impl Engine {
    /// One step of a trigger towards what is wanted of it. Answers when to look again.
    pub(super) async fn reconcile_trigger(
        self: &Arc<Self>,
        key: &ObjectKey,
    ) -> Result<Option<Duration>> {
        let found = self
            .backends
            .catalog
            .find(&key.namespace, &key.name)
            .await?;
        let Some(trigger) = found else {
            self.end_subscription(key).await?;
            self.forget_trigger(key, None);
            return Ok(None);
        };
        let trigger: Trigger = trigger;
        if self.index.put(&trigger.clone().into()) {
            self.wake(function_key(&trigger));
        }
        let mine = match trigger.spec.kind {
            TriggerType::Event => self.options.roles.dispatcher,
            TriggerType::Http | TriggerType::Cron => self.options.roles.operator,
        };
        if !mine {
            return Ok(None);
        }
        if trigger.spec.kind != TriggerType::Event {
            self.end_subscription(key).await?;
        }
        if trigger.metadata.is_deleting() {
            return self.take_trigger_apart(trigger).await;
        }
        let trigger = self.with_finalizer(trigger).await?;
        let name = &trigger.spec.function_ref;
        let function: Option<Function> = self.backends.catalog.find(&key.namespace, name).await?;
        let function = function.filter(|function| !function.metadata.is_deleting());
        match trigger.spec.kind {
            TriggerType::Http => self.reconcile_http(trigger, function).await,
            TriggerType::Cron => self.reconcile_cron(trigger, function).await,
            TriggerType::Event => self.reconcile_event(trigger, function).await,
        }
    }

    async fn reconcile_http(
        &self,
        trigger: Trigger,
        function: Option<Function>,
    ) -> Result<Option<Duration>> {
        let mut status = self.observed(&trigger, function.as_ref());
        let metadata = &trigger.metadata;
        status.url = Some(self.function_url(&metadata.namespace, &trigger.spec.function_ref));
        self.write_trigger(&trigger, status).await?;
        Ok(None)
    }

    async fn reconcile_cron(
        self: &Arc<Self>,
        trigger: Trigger,
        function: Option<Function>,
    ) -> Result<Option<Duration>> {
        let key = trigger.key();
        let mut status = self.observed(&trigger, function.as_ref());
        let ended = self.timetable.ended(&key);
        let step = self.step(&trigger, status.active, &ended)?;
        status.ledger = Some(step.ledger);
        status.next_fire_at = step.next;
        self.write_trigger(&trigger, status).await?;
        // The claim is stored: from here on the time is this process's to run.
        self.timetable.written(&key, &ended);
        if let Some((at, cause)) = step.fire {
            self.fire(&trigger, at, cause);
        }
        self.timetable.set(&key, step.next);
        Ok(None)
    }

    /// What is to be stored, and then run, for a cron trigger now.
    fn step(
        &self,
        trigger: &Trigger,
        active: bool,
        ended: &[(Timestamp, crate::cron::RunEnd)],
    ) -> Result<Step> {
        let now = self.backends.clock.now();
        let schedule = trigger.spec.parse_schedule()?;
        let before = &trigger.status;
        let mut ledger = before.ledger.clone().unwrap_or_default();
        if self.timetable.takes_over(&trigger.metadata.uid) {
            ledger = ledger.recover();
        }
        for (at, end) in ended {
            ledger = ledger.finish(*at, *end);
        }
        let first_time = before.observed_generation == 0;
        let changed = before.observed_generation != trigger.metadata.generation;
        if active && !first_time && (changed || !before.active) {
            ledger = ledger.resume(now);
        }
        if !active || self.stop.is_cancelled() {
            return Ok(Step {
                ledger,
                next: None,
                fire: None,
            });
        }
        let policies = trigger.spec.policies.clone().unwrap_or_default();
        let mut fire = None;
        // Each decision but the last one passes over times; a few are always enough, and whatever
        // is left comes with the next look.
        for _ in 0..8 {
            match decide(
                &schedule,
                &policies,
                &ledger,
                trigger.metadata.created_at,
                now,
            ) {
                Decision::Wait { until } => {
                    return Ok(Step {
                        ledger,
                        next: until,
                        fire,
                    });
                }
                Decision::Skip { ledger: next } => ledger = next,
                Decision::Fire {
                    at,
                    cause,
                    ledger: next,
                } => {
                    if fire.is_some() {
                        break;
                    }
                    fire = Some((at, cause));
                    ledger = next;
                }
            }
        }
        Ok(Step {
            ledger,
            next: Some(now),
            fire,
        })
    }

    async fn reconcile_event(
        self: &Arc<Self>,
        trigger: Trigger,
        function: Option<Function>,
    ) -> Result<Option<Duration>> {
        let id = TriggerId::of(&trigger.metadata);
        let mut status = self.observed(&trigger, function.as_ref());
        let serves = function.is_some_and(|function| {
            function.status.phase == FunctionPhase::Ready
                || (function.status.phase != FunctionPhase::Stopped
                    && function.status.serving.is_some())
        });
        if status.active && !serves {
            status.active = false;
            reason::FUNCTION_NOT_READY.clone_into(&mut status.reason);
            "its function is not ready; messages wait in the queue".clone_into(&mut status.message);
        }
        if !status.active || self.stop.is_cancelled() {
            self.backends.dispatcher.remove(&id).await?;
            status.connected = Some(false);
            self.write_trigger(&trigger, status).await?;
            return Ok(None);
        }
        let delivery = trigger.spec.delivery.unwrap_or_default();
        let sink = FunctionSink {
            engine: Arc::downgrade(self),
            namespace: trigger.metadata.namespace.clone(),
            trigger: trigger.metadata.name.clone(),
            function: trigger.spec.function_ref.clone(),
            delivery,
        };
        let subscription = Subscription {
            trigger: id,
            generation: trigger.metadata.generation,
            queue: trigger.spec.queue.clone().unwrap_or_default(),
            declare: trigger.spec.queue_declare.unwrap_or_default(),
            delivery,
        };
        self.subscribed()
            .insert(trigger.key(), subscription.trigger.clone());
        let seen = self
            .backends
            .dispatcher
            .apply(&subscription, Arc::new(sink))
            .await?;
        status.connected = Some(seen.connected);
        if !seen.connected {
            status.active = false;
            status.reason = match seen.reason {
                word if word.is_empty() => reason::DISCONNECTED.to_owned(),
                word => word,
            };
            status.message = seen.message;
        }
        self.write_trigger(&trigger, status).await?;
        Ok((!seen.connected).then_some(LOOK_AGAIN))
    }

    /// The status of a trigger that works if it is enabled and its function is there.
    fn observed(&self, trigger: &Trigger, function: Option<&Function>) -> TriggerStatus {
        let mut status = trigger.status.clone();
        status.observed_generation = trigger.metadata.generation;
        let (active, word, message) = match (trigger.spec.enabled, function) {
            (false, _) => (false, "disabled", "the trigger is disabled"),
            (true, None) => (false, reason::FUNCTION_MISSING, "its function is not there"),
            (true, Some(_)) => (true, "", ""),
        };
        status.active = active;
        word.clone_into(&mut status.reason);
        message.clone_into(&mut status.message);
        status
    }

    async fn write_trigger(&self, trigger: &Trigger, mut status: TriggerStatus) -> Result<()> {
        let now = self.backends.clock.now();
        let (reason, message) = (status.reason.clone(), status.message.clone());
        let active = Some(status.active);
        Condition::set(
            &mut status.conditions,
            ACTIVE,
            active,
            &reason,
            &message,
            now,
        );
        if status == trigger.status {
            return Ok(());
        }
        let changed = Trigger {
            status,
            ..trigger.clone()
        };
        self.backends
            .catalog
            .update_status(changed.into())
            .await
            .map(drop)
    }

    /// Where a function is called.
    pub(super) fn function_url(
        &self,
        namespace: &crate::Namespace,
        function: &crate::Name,
    ) -> String {
        format!(
            "{}/fn/{namespace}/{function}",
            self.options.external_url.trim_end_matches('/')
        )
    }

    async fn take_trigger_apart(&self, trigger: Trigger) -> Result<Option<Duration>> {
        let id = TriggerId::of(&trigger.metadata);
        let mut receipt = Receipt::default();
        let mut failed = None;
        if trigger.spec.kind == TriggerType::Event {
            receipt.merge_or_keep(self.backends.dispatcher.forget(&id).await, &mut failed);
        }
        let unfinished = receipt.is_unfinished();
        self.receipts.add(&id.uid, receipt);
        if let Some(error) = failed {
            return Err(error);
        }
        if unfinished {
            return Ok(Some(super::function::ENDING));
        }
        let key = trigger.key();
        self.without_finalizer(trigger.into()).await?;
        self.forget_trigger(&key, Some(&id.uid));
        self.receipts.close(&id.uid);
        Ok(None)
    }

    /// Ends what this process consumes for a trigger that is gone, or is none of events any more.
    async fn end_subscription(&self, key: &ObjectKey) -> Result<()> {
        let Some(trigger) = self.subscribed().get(key).cloned() else {
            return Ok(());
        };
        self.backends.dispatcher.remove(&trigger).await?;
        self.subscribed().remove(key);
        Ok(())
    }

    fn subscribed(&self) -> MutexGuard<'_, HashMap<ObjectKey, TriggerId>> {
        self.subscribed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn forget_trigger(&self, key: &ObjectKey, uid: Option<&crate::Uid>) {
        self.timetable.remove(key, uid);
        if let Some(function) = self.index.remove(key) {
            self.wake(function);
        }
    }
}

fn function_key(trigger: &Trigger) -> ObjectKey {
    let namespace = trigger.metadata.namespace.clone();
    ObjectKey::new(Kind::Function, namespace, trigger.spec.function_ref.clone())
}
