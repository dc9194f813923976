//! The triggers of a manifest, made so on the server.

use sless_api::{CreateTrigger, Field, PatchTrigger, Trigger, TriggerType};
use sless_core::TriggerSpec;
use sless_source::{Declared, wire};

use super::{super::shown, Deploy};
use crate::{
    failure::{Exit, Failure, Result},
    session::{Session, all},
};

/// What is to happen to the triggers of the function.
#[derive(Debug, Default)]
pub(super) struct TriggerPlan {
    create: Vec<CreateTrigger>,
    patch: Vec<(String, PatchTrigger)>,
    delete: Vec<String>,
    /// Those that the manifest does not have, and that stay.
    others: Vec<String>,
}

impl TriggerPlan {
    pub(super) fn lines(&self) -> Vec<String> {
        let create = self
            .create
            .iter()
            .map(|trigger| format!("make the trigger {}", trigger.name));
        let patch = self
            .patch
            .iter()
            .map(|(name, _)| format!("change the trigger {name}"));
        let delete = self
            .delete
            .iter()
            .map(|name| format!("remove the trigger {name}"));
        create.chain(patch).chain(delete).collect()
    }
}

impl Deploy<'_> {
    /// Compares the manifest's triggers with those on the server. Without a manifest nothing is said
    /// of triggers, so none is touched.
    pub(super) async fn plan_triggers(&self) -> Result<TriggerPlan> {
        let Session { client, namespace } = self.session;
        let mut plan = TriggerPlan::default();
        let Some(declared) = &self.content.triggers else {
            return Ok(plan);
        };
        let there = all(async |query| client.triggers(namespace, &query).await).await;
        let there = match there {
            Err(failure) if failure.exit == Exit::NotFound => Vec::new(),
            there => there?,
        };
        for wanted in declared {
            let name = wanted.name.as_str();
            match there.iter().find(|trigger| trigger.name == name) {
                None => plan.create.push(wanted.request.clone()),
                Some(trigger) => {
                    self.check_owner(trigger, wanted)?;
                    if !is_same(trigger, wanted) {
                        plan.patch
                            .push((name.to_owned(), whole_patch(&wanted.request)));
                    }
                }
            }
        }
        let is_declared = |trigger: &&Trigger| {
            declared
                .iter()
                .any(|wanted| wanted.name.as_str() == trigger.name)
        };
        let own = there
            .iter()
            .filter(|trigger| trigger.function_ref == self.name());
        let others = own
            .filter(|trigger| !is_declared(trigger))
            .map(|trigger| trigger.name.clone());
        if self.settings.prune {
            plan.delete = others.collect();
        } else {
            plan.others = others.collect();
        }
        Ok(plan)
    }

    fn check_owner(&self, there: &Trigger, wanted: &Declared) -> Result<()> {
        let name = &there.name;
        if there.function_ref != self.name() {
            let text = format!(
                "trigger {name} of sless.toml belongs to the function {} on the server",
                there.function_ref
            );
            return Err(Failure::new(Exit::Conflict, text)
                .hint("give it a name of its own, or remove the other one"));
        }
        if there.kind != wanted.request.kind {
            let text = format!(
                "trigger {name} is of type {} on the server and of type {} in sless.toml",
                shown::trigger_type(there.kind),
                shown::trigger_type(wanted.request.kind)
            );
            return Err(Failure::new(Exit::Conflict, text).hint(format!(
                "a trigger keeps its type: give the new one another name, or remove this one with \
                 `sless trigger delete {name}`"
            )));
        }
        Ok(())
    }

    pub(super) async fn apply_triggers(&self, plan: &TriggerPlan) -> Result<()> {
        let Session { client, namespace } = self.session;
        for request in &plan.create {
            let trigger = client.create_trigger(namespace, request).await?;
            self.tell("made", &trigger);
        }
        for (name, patch) in &plan.patch {
            let trigger = client.patch_trigger(namespace, name, patch).await?;
            self.tell("changed", &trigger);
        }
        for name in &plan.delete {
            client.delete_trigger(namespace, name).await?;
            self.output.say(&format!("removed the trigger {name}"));
        }
        if !plan.others.is_empty() {
            let names = plan.others.join(", ");
            self.output.say(&format!(
                "not in sless.toml, and kept: {names} (--prune removes)"
            ));
        }
        Ok(())
    }

    fn tell(&self, what: &str, trigger: &Trigger) {
        let next = trigger
            .next_fires
            .first()
            .map(|at| format!(", next at {}", shown::time(*at)));
        let kind = shown::trigger_type(trigger.kind);
        let (name, next) = (&trigger.name, next.unwrap_or_default());
        self.output
            .say(&format!("{what} the trigger {name} ({kind}{next})"));
    }
}

/// Whether a trigger is what the manifest wants, with the defaults of both filled in.
fn is_same(there: &Trigger, wanted: &Declared) -> bool {
    let there = CreateTrigger {
        name: there.name.clone(),
        kind: there.kind,
        function_ref: there.function_ref.clone(),
        enabled: Some(there.enabled),
        schedule: there.schedule.clone(),
        time_zone: there.time_zone.clone(),
        policies: there.policies.clone(),
        queue: there.queue.clone(),
        queue_declare: there.queue_declare,
        delivery: there.delivery.clone(),
    };
    let whole = |mut spec: TriggerSpec| {
        spec.policies = Some(spec.policies.unwrap_or_default());
        spec.queue_declare = Some(spec.queue_declare.unwrap_or_default());
        spec.delivery = Some(spec.delivery.unwrap_or_default());
        spec.time_zone = Some(spec.time_zone.unwrap_or_else(|| "UTC".to_owned()));
        spec
    };
    wire::trigger_spec(there).is_ok_and(|there| whole(there) == whole(wanted.spec.clone()))
}

/// The patch that sets everything: what was left out goes back to its default.
fn whole_patch(request: &CreateTrigger) -> PatchTrigger {
    fn field<T: Clone>(value: &Option<T>) -> Field<T> {
        value.clone().map_or(Field::Null, Field::Value)
    }
    let mut patch = PatchTrigger {
        enabled: field(&request.enabled),
        ..PatchTrigger::default()
    };
    match request.kind {
        TriggerType::Cron => {
            patch.schedule.clone_from(&request.schedule);
            patch.time_zone = field(&request.time_zone);
            patch.policies = field(&request.policies);
        }
        TriggerType::Event => {
            patch.queue.clone_from(&request.queue);
            patch.queue_declare = field(&request.queue_declare);
            patch.delivery = field(&request.delivery);
        }
        _ => {}
    }
    patch
}
