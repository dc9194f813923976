//! The resource `sless_trigger`.

mod convert;
mod schema;

use std::time::Duration;

use sless_api::Trigger;
use tfplugin::{Action, Diagnostics, Operation, Plan, Resource, Schema, Value, async_trait};
use tokio::time::Instant;

use crate::{
    api::{self, Failed, Patience},
    session::{Connection, Session},
};
pub(crate) use schema::schema;

/// Fields of the server, and the attributes that they are.
pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("name", "name"),
    ("function_ref", "function"),
    ("enabled", "enabled"),
    ("schedule", "schedule"),
    ("time_zone", "time_zone"),
    ("policies", "policies"),
    ("queue", "queue"),
    ("queue_declare", "queue_declare"),
    ("delivery", "delivery"),
    ("max_attempts", "delivery.max_attempts"),
    ("min_backoff", "delivery.min_backoff"),
    ("max_backoff", "delivery.max_backoff"),
    ("in_flight", "delivery.in_flight"),
    ("prefetch", "delivery.prefetch"),
    ("missed_deadline", "policies.missed_deadline"),
    ("max_running", "policies.max_running"),
];

/// How long an operation may take where `timeouts` does not say otherwise.
const TIMEOUT: Duration = tfplugin::DEFAULT_TIMEOUT;

/// How long a trigger may take to begin or to end its work; then it is what it is, with a warning.
const SETTLE_MAX: Duration = Duration::from_secs(10);

/// How long a trigger that says why it does not act is given to change its mind.
const SETTLE_REASON: Duration = Duration::from_secs(2);

/// What drives a function.
#[derive(Debug)]
pub(crate) struct TriggerResource {
    connection: Connection,
}

impl TriggerResource {
    pub(crate) const fn new(connection: Connection) -> Self {
        Self { connection }
    }

    /// Waits until a trigger does what it is meant to, and saves what it is.
    async fn settle(
        operation: &Operation,
        session: &Session,
        mut state: Value,
        mut trigger: Trigger,
    ) {
        let began = Instant::now();
        let name = trigger.name.clone();
        let mut patience = Patience::new();
        loop {
            let is_settled = trigger.active == trigger.enabled;
            let enough = if trigger.reason.is_some() {
                SETTLE_REASON
            } else {
                SETTLE_MAX
            };
            if is_settled || began.elapsed() >= enough {
                if trigger.enabled && !trigger.active {
                    let why = trigger.message.as_deref().or(trigger.reason.as_deref());
                    let why = why.unwrap_or("the server does not say why").to_owned();
                    operation.warning(
                        format!("The trigger {name} does not act yet"),
                        format!("{why}."),
                    );
                }
                convert::put(&mut state, &trigger);
                return operation.save(&state);
            }
            let pause = patience.pause(operation).await.map_err(Failed::from);
            let find = || session.client.trigger(&session.namespace, &name);
            let found = match pause {
                Ok(()) => api::again(operation, find).await,
                Err(failed) => Err(failed),
            };
            match found {
                Ok(found) => trigger = found,
                Err(failed) => {
                    convert::put(&mut state, &trigger);
                    operation.save(&state);
                    let summary = format!("The trigger {name} exists, and cannot be looked at");
                    let doing = format!("waiting for the trigger {name}");
                    return api::tell_failed(operation, session, &summary, &doing, &failed, FIELDS);
                }
            }
        }
    }
}

#[async_trait]
impl Resource for TriggerResource {
    fn schema(&self) -> Schema {
        schema()
    }

    fn validate(&self, config: &Value, found: &mut Diagnostics) {
        if [
            "type",
            "schedule",
            "time_zone",
            "queue",
            "policies",
            "delivery",
        ]
        .iter()
        .any(|name| !config.at(name).is_wholly_known())
        {
            // Together they can only be judged when all are known.
            return;
        }
        let mut wanted = config.clone();
        if wanted.at("function").is_unknown() {
            wanted.put("function", "f");
        }
        if wanted.at("name").is_unknown() {
            wanted.put("name", "t");
        }
        let request = match convert::request(&wanted) {
            Ok(request) => request,
            Err(problem) => return found.error("This cannot be a trigger", problem),
        };
        let checked = sless_source::wire::trigger_spec(request)
            .map_err(|error| error.message().to_owned())
            .and_then(|spec| spec.validate().map_err(|error| error.message().to_owned()));
        if let Err(problem) = checked {
            found.error_at(
                api::place(&problem, FIELDS),
                "The server would refuse this",
                problem,
            );
        }
    }

    async fn plan(&self, plan: &mut Plan) {
        convert::plan(plan);
    }

    async fn create(&self, operation: &Operation, planned: Value, _: Value) {
        let Some(session) = self.connection.demand(operation) else {
            return;
        };
        let request = match convert::request(&planned) {
            Ok(request) => request,
            Err(problem) => return operation.error("This cannot be a trigger", problem),
        };
        let (client, namespace) = (&session.client, session.namespace.as_str());
        let made = api::create(
            operation,
            || client.create_trigger(namespace, &request),
            || client.trigger(namespace, &request.name),
            |found| convert::is_ours(&request, found),
        )
        .await;
        match made {
            Ok(trigger) => {
                let mut state = planned;
                convert::put(&mut state, &trigger);
                operation.save(&state);
                tracing::info!(trigger = trigger.name, "created");
                Self::settle(operation, &session, state, trigger).await;
            }
            Err(Failed::Client(error)) if error.is_conflict() => {
                api::tell_taken(operation, "trigger", &request.name);
            }
            Err(failed) => {
                let summary = format!("The trigger {} cannot be created", request.name);
                api::tell_failed(
                    operation,
                    &session,
                    &summary,
                    "creating a trigger",
                    &failed,
                    FIELDS,
                );
            }
        }
    }

    async fn read(&self, operation: &Operation, mut state: Value) {
        let Some(session) = self.connection.session() else {
            return;
        };
        let name = state.at("name").as_str().unwrap_or_default().to_owned();
        match api::again(operation, || {
            session.client.trigger(&session.namespace, &name)
        })
        .await
        {
            Ok(trigger) => {
                state.put("url", Value::Null);
                convert::put(&mut state, &trigger);
                operation.save(&state);
            }
            Err(Failed::Client(error)) if error.is_not_found() => operation.save(&Value::Null),
            Err(failed) => {
                let summary = format!("The trigger {name} cannot be read");
                api::tell_failed(
                    operation,
                    &session,
                    &summary,
                    "reading a trigger",
                    &failed,
                    FIELDS,
                );
            }
        }
    }

    async fn update(&self, operation: &Operation, prior: Value, planned: Value, _: Value) {
        let Some(session) = self.connection.demand(operation) else {
            return;
        };
        let name = planned.at("name").as_str().unwrap_or_default().to_owned();
        let patch = match (convert::request(&prior), convert::request(&planned)) {
            (Ok(prior), Ok(wanted)) => convert::patch(&prior, wanted),
            (Err(problem), _) | (_, Err(problem)) => {
                return operation.error("This cannot be a trigger", problem);
            }
        };
        let (client, namespace) = (&session.client, session.namespace.as_str());
        match api::again(operation, || client.patch_trigger(namespace, &name, &patch)).await {
            Ok(trigger) => {
                tracing::info!(trigger = name, "changed");
                let mut state = planned;
                convert::put(&mut state, &trigger);
                operation.save(&state);
                Self::settle(operation, &session, state, trigger).await;
            }
            Err(failed) => {
                let summary = format!("The trigger {name} cannot be changed");
                api::tell_failed(
                    operation,
                    &session,
                    &summary,
                    "changing a trigger",
                    &failed,
                    FIELDS,
                );
            }
        }
    }

    async fn delete(&self, operation: &Operation, prior: Value) {
        let Some(session) = self.connection.demand(operation) else {
            return;
        };
        let name = prior.at("name").as_str().unwrap_or_default();
        let (client, namespace) = (&session.client, session.namespace.as_str());
        let delete = || client.delete_trigger(namespace, name);
        let find = || client.trigger(namespace, name);
        api::remove(
            operation,
            &session,
            &format!("trigger {name}"),
            delete,
            find,
        )
        .await;
    }

    async fn import(&self, operation: &Operation, id: &str) {
        let Some(session) = self.connection.demand(operation) else {
            return;
        };
        let refused =
            |problem: String| operation.error(format!("`{id}` cannot be imported"), problem);
        let name = match api::import_name(&session, id) {
            Ok(name) => name,
            Err(problem) => return refused(problem),
        };
        match api::again(operation, || {
            session.client.trigger(&session.namespace, name)
        })
        .await
        {
            Ok(trigger) => {
                let timeouts = ["create", "update", "delete"].map(|action| (action, Value::Null));
                let mut state = Value::from_iter([("timeouts", Value::from_iter(timeouts))]);
                // An import takes what it finds as given.
                convert::put_all(&mut state, &trigger);
                operation.save(&state);
            }
            Err(Failed::Client(error)) if error.is_not_found() => {
                refused(format!(
                    "There is no trigger `{name}` in the namespace {}.",
                    session.namespace
                ));
            }
            Err(failed) => {
                let summary = format!("The trigger {name} cannot be read");
                api::tell_failed(
                    operation,
                    &session,
                    &summary,
                    "importing a trigger",
                    &failed,
                    FIELDS,
                );
            }
        }
    }

    fn timeout(&self, action: Action, value: &Value) -> Duration {
        tfplugin::timeouts::of(value, action).unwrap_or(TIMEOUT)
    }

    fn upgrade(&self, _: i64, state: Value, _: &serde_json::Value) -> Result<Value, String> {
        // There is one version so far.
        Ok(state)
    }
}
