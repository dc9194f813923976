//! What must be so once nothing fails any more.

use std::{collections::BTreeSet, time::Duration};

use sless_core::{
    Body, CatalogExt as _, Clock as _, Deploy, Function, FunctionId, FunctionJob, FunctionPhase,
    FunctionSpec, JobId, JobPhase, Metadata, Resource as _, Runtime, Scheduler as _, Sless,
    Storage as _, Trigger, TriggerId, TriggerType, WorkloadPhase,
};

use super::{
    client::trigger_spec,
    ops::{Build, QUEUES, What, build_of},
    world::{ANSWER, World, functions, name, ns},
};

/// Everything but the messages.
pub(super) async fn all(world: &World<'_>, sless: &Sless) {
    let functions = functions(world).await;
    let triggers: Vec<Trigger> = world.durable.catalog.read_all(None).await.unwrap();
    let jobs: Vec<FunctionJob> = world.durable.catalog.read_all(None).await.unwrap();
    let checks = Checks {
        world,
        functions: &functions,
        triggers: &triggers,
        jobs: &jobs,
    };
    for function in &functions {
        checks.function(function, sless).await;
    }
    for trigger in &triggers {
        checks.trigger(trigger);
    }
    for job in &jobs {
        checks.job(job);
    }
    checks.nothing_is_left().await;
    match sless.backends().orphans("").await {
        Ok(found) => checks.holds(found.items.is_empty() && found.unlisted.is_empty(), || {
            format!("there is something for nobody: {found:?}")
        }),
        Err(error) => checks.holds(false, || format!("orphans cannot be looked for: {error}")),
    }
    let state = world.durable.seen.state();
    let twice: Vec<_> = state
        .begun
        .iter()
        .filter(|(_, count)| **count > 1)
        .collect();
    let twice = (!twice.is_empty()).then(|| format!("runs that began more than once: {twice:?}"));
    drop(state);
    twice
        .into_iter()
        .for_each(|twice| world.durable.seen.broken(twice));
}

struct Checks<'a> {
    world: &'a World<'a>,
    functions: &'a [Function],
    triggers: &'a [Trigger],
    jobs: &'a [FunctionJob],
}

impl Checks<'_> {
    fn holds(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.world.durable.seen.broken(what());
        }
    }

    fn named(&self, function: &sless_core::Name) -> Option<&Function> {
        let mut all = self.functions.iter();
        all.find(|found| found.metadata.name == *function)
    }

    /// Whether all triggers of type http that there are of it are disabled.
    fn is_stopped(&self, function: &Function) -> bool {
        let http = self.triggers.iter().filter(|trigger| {
            let spec = &trigger.spec;
            spec.kind == TriggerType::Http && spec.function_ref == function.metadata.name
        });
        let mut http = http.peekable();
        http.peek().is_some() && http.all(|trigger| !trigger.spec.enabled)
    }

    fn wanted(&self, function: &Function) -> FunctionPhase {
        let spec = &function.spec;
        let Some(code) = spec.code_sha256 else {
            return FunctionPhase::Pending;
        };
        if build_of(code) == Some(Build::Bad) {
            FunctionPhase::Failed
        } else if spec.replicas() == 0 || self.is_stopped(function) {
            FunctionPhase::Stopped
        } else if spec.entrypoint.as_str() == "main.missing" {
            FunctionPhase::Failed
        } else {
            FunctionPhase::Ready
        }
    }

    async fn function(&self, function: &Function, sless: &Sless) {
        let (status, function_name) = (&function.status, &function.metadata.name);
        let wanted = self.wanted(function);
        let what = || format!("{function_name} is to be {wanted:?}: {status:?}");
        self.holds(!function.metadata.is_deleting(), || {
            format!("{function_name} does not go")
        });
        self.holds(status.phase == wanted, what);
        let generation = function.metadata.generation;
        self.holds(status.observed_generation == generation, || {
            format!("generation {generation} of {function_name} was not seen: {status:?}")
        });
        let id = FunctionId::of(&function.metadata);
        let scheduler = &self.world.durable.scheduler;
        let seen = scheduler.status(&id).await.unwrap();
        self.holds(seen.serving == status.serving, || {
            format!("{function_name} serves otherwise than told: {seen:?}, {status:?}")
        });
        match wanted {
            FunctionPhase::Ready => {
                let serves = seen.phase == WorkloadPhase::Ready
                    && seen.serving.is_some()
                    && seen.serving == seen.applied
                    && seen.ready_replicas == function.spec.replicas()
                    && status.ready_replicas == seen.ready_replicas;
                self.holds(serves, || {
                    format!("{function_name} is not up: {seen:?}, {status:?}")
                });
                self.answers(function, sless).await;
                let builds = self.world.durable.builder.builds();
                let builds = builds.iter().filter(|build| build.function == id).count();
                self.holds(builds == 1, || {
                    format!("{function_name} has {builds} builds")
                });
            }
            FunctionPhase::Stopped => {
                let off = seen.phase == WorkloadPhase::Stopped && seen.serving.is_none();
                self.holds(off, || format!("{function_name} is not off: {seen:?}"));
            }
            _ => {}
        }
    }

    /// The wanted version answers.
    async fn answers(&self, function: &Function, sless: &Sless) {
        if function.spec.entrypoint.as_str() != "main.ok" {
            return;
        }
        let (function_name, request) = (&function.metadata.name, http::Request::new(Body::empty()));
        let answer = match sless.invoke(&ns(), function_name, request).await {
            Ok(response) => response.into_body().bytes(1_000).await,
            Err(error) => Err(error),
        };
        let code = function.spec.code_sha256.map(|code| code.to_string());
        let right =
            matches!(&answer, Ok(body) if Some(&*String::from_utf8_lossy(body)) == code.as_deref());
        self.holds(right, || {
            format!("{function_name} answers {answer:?}, not {code:?}")
        });
    }

    fn trigger(&self, trigger: &Trigger) {
        let (spec, status, trigger_name) = (&trigger.spec, &trigger.status, &trigger.metadata.name);
        self.holds(!trigger.metadata.is_deleting(), || {
            format!("{trigger_name} does not go")
        });
        let function = self.named(&spec.function_ref);
        let mut active = spec.enabled && function.is_some();
        if spec.kind == TriggerType::Event {
            active &= function.is_some_and(|function| {
                let status = &function.status;
                status.phase == FunctionPhase::Ready
                    || (status.phase != FunctionPhase::Stopped && status.serving.is_some())
            });
            let id = TriggerId::of(&trigger.metadata);
            let subscribed = self.world.durable.dispatcher.subscribed().contains(&id);
            self.holds(subscribed == active, || {
                format!("{trigger_name} is subscribed: {subscribed}, active: {active}")
            });
            self.holds(status.connected == Some(active), || {
                format!("{trigger_name} is to be connected: {active}: {status:?}")
            });
        }
        self.holds(status.active == active, || {
            format!("{trigger_name} is to be active: {active}: {status:?}")
        });
        self.holds(
            status.observed_generation == trigger.metadata.generation,
            || format!("{trigger_name} was not seen: {status:?}"),
        );
        if spec.kind == TriggerType::Cron {
            let next = status.next_fire_at.is_some();
            self.holds(next == active, || {
                format!("{trigger_name} fires: {status:?}")
            });
            let ledger = status.ledger.clone().unwrap_or_default();
            // What was interrupted is made up for once it is active again.
            let under_way =
                !ledger.running.is_empty() || (active && !ledger.interrupted.is_empty());
            self.holds(!under_way, || {
                format!("{trigger_name} has not ended: {ledger:?}")
            });
        }
    }

    fn job(&self, job: &FunctionJob) {
        let (status, job_name) = (&job.status, &job.metadata.name);
        self.holds(!job.metadata.is_deleting(), || {
            format!("{job_name} does not go")
        });
        let function = self.named(&job.spec.function_ref);
        let can_run = function.is_some_and(|function| {
            let phase = function.status.phase;
            let up = matches!(phase, FunctionPhase::Ready | FunctionPhase::Stopped);
            up && function.status.artifact.is_some()
        });
        let run = job.spec.run_id;
        let right = match status.phase {
            JobPhase::Skipped => run == 0,
            JobPhase::Succeeded | JobPhase::Failed => status.run_id == run,
            JobPhase::Pending => !can_run && run > 0 && !status.reason.is_empty(),
            JobPhase::Running => false,
        };
        self.holds(right, || {
            format!("{job_name}, run {run}, can run: {can_run}: {status:?}")
        });
    }

    async fn nothing_is_left(&self) {
        let durable = self.world.durable;
        let functions = self
            .functions
            .iter()
            .map(|function| FunctionId::of(&function.metadata));
        let functions: BTreeSet<_> = functions.collect();
        let triggers = self
            .triggers
            .iter()
            .map(|trigger| TriggerId::of(&trigger.metadata));
        let triggers: BTreeSet<_> = triggers.collect();
        let jobs = self.jobs.iter().map(|job| JobId::of(&job.metadata));
        let jobs: BTreeSet<_> = jobs.collect();
        for id in durable.scheduler.functions() {
            self.holds(functions.contains(&id), || {
                format!("a workload is left of {id}")
            });
        }
        for id in durable.scheduler.jobs() {
            self.holds(jobs.contains(&id), || format!("a run is left of {id}"));
        }
        for build in durable.builder.builds() {
            let id = &build.function;
            self.holds(functions.contains(id), || {
                format!("a build is left of {id}")
            });
        }
        for id in durable.dispatcher.subscribed() {
            self.holds(triggers.contains(&id), || {
                format!("a subscription is left of {id}")
            });
        }
        self.nothing_is_left_in_storage().await;
    }

    async fn nothing_is_left_in_storage(&self) {
        use futures::TryStreamExt as _;

        let listed: Vec<_> = self
            .world
            .durable
            .storage
            .list("")
            .try_collect()
            .await
            .unwrap();
        for object in listed {
            let key = object.key.as_str();
            let owner = key.split('/').nth(2).unwrap();
            let found = self.named(&name(owner)).is_some();
            self.holds(found, || format!("{key} is left in storage"));
        }
    }
}

/// Every message that was taken was handled, is dead, or waits; what waits is handled once somebody
/// asks for it.
pub(super) async fn messages(world: &World<'_>, sless: &Sless) {
    let durable = world.durable;
    let triggers: Vec<Trigger> = durable.catalog.read_all(None).await.unwrap();
    for trigger in &triggers {
        durable
            .watched()
            .look_at_letters(&TriggerId::of(&trigger.metadata))
            .await;
    }
    let mut spec = FunctionSpec::new(Runtime::Python311);
    spec.entrypoint = "main.ok".parse().unwrap();
    let code = [("main.py", "# drains")];
    let deploy = Deploy::files(ns(), name("drain"), spec, code).unwrap();
    let sless = sless.clone();
    let taken_over = async move {
        // The script's own consumers would take some of them, and fail.
        for trigger in &triggers {
            sless.delete(&trigger.key()).await.unwrap();
        }
        sless.deploy(deploy).await.unwrap();
    };
    world
        .within(ANSWER, "a takeover of the queues", taken_over)
        .await;
    for queue in QUEUES {
        let spec = trigger_spec("drain", What::Event(queue), true);
        let metadata = Metadata::new(ns(), name(queue));
        durable
            .catalog
            .add(Trigger::new(metadata, spec))
            .await
            .unwrap();
    }
    durable.clock.advance(Duration::from_secs(120)).await;
    let state = durable.seen.state();
    let lost: Vec<_> = state
        .accepted
        .iter()
        .filter(|id| !state.handled.contains(*id) && !state.dead.contains(*id))
        .cloned()
        .collect();
    drop(state);
    if !lost.is_empty() {
        let now = durable.clock.now();
        durable
            .seen
            .broken(format!("messages are lost at {now}: {lost:?}"));
    }
}
