//! The resource `sless_function`.

mod apply;
mod env;
mod read;
mod schema;
mod source;
mod wait;

use std::time::Duration;

use tfplugin::{Action, Diagnostics, Operation, Plan, Resource, Schema, Value, async_trait};

use crate::{api, session::Connection};
pub(crate) use schema::schema;

/// How long an operation may take where `timeouts` does not say otherwise.
pub(crate) const TIMEOUT: Duration = tfplugin::DEFAULT_TIMEOUT;

/// Fields of the server, and the attributes that they are.
pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("name", "name"),
    ("runtime", "runtime"),
    ("entrypoint", "entrypoint"),
    ("env", "env"),
    ("replicas", "replicas"),
    ("timeout_seconds", "timeout"),
    ("memory", "memory"),
    ("cpu", "cpu"),
    ("concurrency", "concurrency"),
    ("max_replicas", "max_replicas"),
    ("idle_seconds", "idle_seconds"),
];

/// A function with its code.
#[derive(Debug)]
pub(crate) struct FunctionResource {
    connection: Connection,
}

impl FunctionResource {
    pub(crate) const fn new(connection: Connection) -> Self {
        Self { connection }
    }
}

#[async_trait]
impl Resource for FunctionResource {
    fn schema(&self) -> Schema {
        schema()
    }

    fn validate(&self, config: &Value, found: &mut Diagnostics) {
        env::validate(config, found);
        if found.has_error() {
            return;
        }
        // The rules of the server itself, on what is known already.
        let checked = sless_source::wire::function_spec(apply::request(config, &env::all(config)))
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
        source::plan(plan).await;
        // Whoever has a function that does not run wants it to run.
        let phase = plan.prior().at("phase").as_str();
        if !plan.is_new() && !matches!(phase, Some("Ready" | "Stopped")) {
            plan.decide("phase", Value::UNKNOWN);
        }
    }

    async fn create(&self, operation: &Operation, planned: Value, config: Value) {
        if let Some(session) = self.connection.demand(operation) {
            apply::create(operation, &session, planned, &config).await;
        }
    }

    async fn read(&self, operation: &Operation, state: Value) {
        // Without a connection what is stored is all that is known.
        if let Some(session) = self.connection.session() {
            read::read(operation, &session, state).await;
        }
    }

    async fn update(&self, operation: &Operation, prior: Value, planned: Value, config: Value) {
        if let Some(session) = self.connection.demand(operation) {
            apply::update(operation, &session, &prior, planned, &config).await;
        }
    }

    async fn delete(&self, operation: &Operation, prior: Value) {
        let Some(session) = self.connection.demand(operation) else {
            return;
        };
        let name = prior.at("name").as_str().unwrap_or_default();
        let (client, namespace) = (&session.client, session.namespace.as_str());
        let delete = || client.delete_function(namespace, name);
        let find = || client.function(namespace, name);
        api::remove(
            operation,
            &session,
            &format!("function {name}"),
            delete,
            find,
        )
        .await;
    }

    async fn import(&self, operation: &Operation, id: &str) {
        if let Some(session) = self.connection.demand(operation) {
            read::import(operation, &session, id).await;
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
