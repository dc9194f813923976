//! The reconciler of triggers: URL, schedule or queue; or take apart.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;

use super::{Engine, leadership::Post, points};
use crate::{
    CatalogExt as _, CronScheduler, CronTrigger, Function, Kind, Receipt, Result, Trigger,
    TriggerId, TriggerType,
    cron::{Cause, Decision, Ledger, decide},
    reason,
    resource::{Condition, ObjectKey, Resource as _, TriggerStatus},
};

const ACTIVE: &str = "Active";

/// How long after its time a backend may hint that it has fired.
const FIRED_BY: Duration = Duration::from_secs(15);

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
        let trigger = self.leave_cron(trigger).await?;
        if trigger.spec.kind == TriggerType::Event {
            return self.reconcile_event(trigger).await;
        }
        self.end_subscription(key).await?;
        if !self.leads(Post::Operator) {
            return Ok(None);
        }
        if trigger.metadata.is_deleting() {
            return self.take_trigger_apart(trigger).await;
        }
        let trigger = self.with_finalizer(trigger).await?;
        let function = self.function_of(&trigger).await?;
        match trigger.spec.kind {
            TriggerType::Http => self.reconcile_http(trigger, function).await,
            TriggerType::Cron | TriggerType::Event => self.reconcile_cron(trigger, function).await,
        }
    }

    /// Takes away what a trigger has of a schedule whose type was changed into another one.
    async fn leave_cron(&self, mut trigger: Trigger) -> Result<Trigger> {
        let Trigger {
            metadata,
            spec,
            status,
        } = &trigger;
        let is_new = metadata.generation == 1;
        let told = status.next_fire_at.is_some() || status.ledger.is_some();
        let changed = status.observed_generation != metadata.generation;
        let left = spec.kind != TriggerType::Cron && !is_new && (told || changed);
        // One that is being deleted loses all that any type has.
        if !left || metadata.is_deleting() || !self.leads(Post::Operator) {
            return Ok(trigger);
        }
        if let Some(backend) = &self.backends.cron {
            backend.remove_cron(&TriggerId::of(metadata)).await?;
        }
        self.timetable.remove(&trigger.key(), Some(&metadata.uid));
        if told {
            trigger.status.next_fire_at = None;
            trigger.status.ledger = None;
            let catalog = &self.backends.catalog;
            trigger = Trigger::try_from(catalog.update_status(trigger.into()).await?)?;
        }
        Ok(trigger)
    }

    /// The function that a trigger calls, unless it is about to go.
    pub(super) async fn function_of(&self, trigger: &Trigger) -> Result<Option<Function>> {
        let (namespace, name) = (&trigger.metadata.namespace, &trigger.spec.function_ref);
        let function: Option<Function> = self.backends.catalog.find(namespace, name).await?;
        Ok(function.filter(|function| !function.metadata.is_deleting()))
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
        if let Some(backend) = &self.backends.cron {
            return self.hand_over_cron(&**backend, trigger, function).await;
        }
        let key = trigger.key();
        let mut status = self.observed(&trigger, function.as_ref());
        let ended = self.timetable.ended(&key);
        let step = self.step(&trigger, status.active, &ended)?;
        status.ledger = Some(step.ledger);
        status.next_fire_at = step.next;
        points::LEDGER_BEFORE.pass();
        self.write_trigger(&trigger, status).await?;
        points::LEDGER_AFTER.pass();
        // The claim is stored: from here on the time is this process's to run.
        self.timetable.written(&key, &ended);
        if let Some((at, cause)) = step.fire {
            self.fire(&trigger, at, cause);
        }
        self.timetable.set(&key, step.next);
        Ok(None)
    }

    /// Leaves the firing to a backend, and writes down what it tells.
    async fn hand_over_cron(
        &self,
        backend: &dyn CronScheduler,
        trigger: Trigger,
        function: Option<Function>,
    ) -> Result<Option<Duration>> {
        let mut status = self.observed(&trigger, function.as_ref());
        let id = TriggerId::of(&trigger.metadata);
        let Ok(schedule) = trigger.spec.parse_schedule() else {
            // The status says what is wrong; what was made for an earlier schedule goes.
            backend.remove_cron(&id).await?;
            status.next_fire_at = None;
            self.write_trigger(&trigger, status).await?;
            return Ok(None);
        };
        let timeout = function.map_or(0, |function| function.spec.timeout_seconds);
        let wanted = CronTrigger {
            trigger: id,
            function: trigger.spec.function_ref.clone(),
            schedule,
            policies: trigger.spec.policies.clone().unwrap_or_default(),
            timeout: Duration::from_secs(timeout.max(1).into()),
            suspended: !status.active,
        };
        let seen = backend.apply_cron(&wanted).await?;
        if let (true, Some(failure)) = (status.active, &seen.failure) {
            status.active = false;
            status.reason = failure.reason.to_string();
            status.message = failure.text();
        }
        let now = self.backends.clock.now();
        let next = wanted.schedule.next_after(now).filter(|_| status.active);
        status.next_fire_at = next;
        if seen.last_fire_at.is_some() {
            let ledger = status.ledger.get_or_insert_default();
            ledger.last_fire_at = ledger.last_fire_at.max(seen.last_fire_at);
        }
        self.write_trigger(&trigger, status).await?;
        // The backend hints when it has fired; should that be lost, the next time is told all the same.
        Ok(next.map(|next| {
            let until = next.duration_since(now).unsigned_abs();
            until.saturating_add(FIRED_BY)
        }))
    }

    /// What is to be stored, and then run, for a cron trigger now.
    fn step(
        &self,
        trigger: &Trigger,
        active: bool,
        ended: &[(Timestamp, crate::cron::RunEnd)],
    ) -> Result<Step> {
        let now = self.backends.clock.now();
        let before = &trigger.status;
        let mut ledger = before.ledger.clone().unwrap_or_default();
        for (at, end) in ended {
            ledger = ledger.finish(*at, *end);
        }
        ledger = ledger.recover_but(&self.timetable.going_on(&trigger.metadata.uid));
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
        let schedule = trigger.spec.parse_schedule()?;
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

    /// The status of a trigger that works if it is enabled and its function is there.
    pub(super) fn observed(&self, trigger: &Trigger, function: Option<&Function>) -> TriggerStatus {
        let mut status = trigger.status.clone();
        status.observed_generation = trigger.metadata.generation;
        if trigger.spec.kind != TriggerType::Http {
            status.url = None;
        }
        // A catalog refuses such a spec; one that others write to, too, may not have been able to.
        let checked = trigger.spec.validate();
        let (active, word, message) = match (&checked, trigger.spec.enabled, function) {
            (Err(error), _, _) => (false, error.reason(), error.message()),
            (_, false, _) => (false, "disabled", "the trigger is disabled"),
            (_, true, None) => (false, reason::FUNCTION_MISSING, "its function is not there"),
            (_, true, Some(_)) => (true, "", ""),
        };
        status.active = active;
        word.clone_into(&mut status.reason);
        message.clone_into(&mut status.message);
        status
    }

    pub(super) async fn write_trigger(
        &self,
        trigger: &Trigger,
        mut status: TriggerStatus,
    ) -> Result<()> {
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

    pub(super) async fn take_trigger_apart(&self, trigger: Trigger) -> Result<Option<Duration>> {
        let id = TriggerId::of(&trigger.metadata);
        let mut receipt = Receipt::default();
        let mut failed = None;
        // Whatever type it has now: that may have been changed, and dead letters are kept until here.
        // One that never consumed does not wait for a broker that is away.
        if trigger.spec.kind == TriggerType::Event || trigger.status.connected.is_some() {
            receipt.merge_or_keep(self.backends.dispatcher.forget(&id).await, &mut failed);
        }
        if let Some(backend) = &self.backends.cron {
            receipt.merge_or_keep(backend.remove_cron(&id).await, &mut failed);
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
