//! The resource `sless_job`.

mod schema;

use std::time::Duration;

use sless_api::{CreateJob, Field, Job, JobPhase, PatchJob};
use tfplugin::{
    Action, Diagnostics, Interrupt, Operation, Plan, Resource, Schema, Value, async_trait,
};
use tokio::time::Instant;

use crate::{
    api::{self, Failed, Patience},
    session::{Connection, Session},
};
use schema::WAIT_TIMEOUT_SEC;
pub(crate) use schema::schema;

/// Fields of the server, and the attributes that they are.
pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("name", "name"),
    ("function_ref", "function"),
    ("event_json", "event_json"),
    ("event_bytes", "event_json"),
    ("run_id", "run_id"),
];

/// How long an operation may take where `timeouts` does not say otherwise.
const TIMEOUT: Duration = tfplugin::DEFAULT_TIMEOUT;

/// One run of a function.
#[derive(Debug)]
pub(crate) struct JobResource {
    connection: Connection,
}

impl JobResource {
    pub(crate) const fn new(connection: Connection) -> Self {
        Self { connection }
    }
}

fn request(wanted: &Value) -> CreateJob {
    let text = |name: &str| wanted.at(name).as_str().map(str::to_owned);
    CreateJob {
        name: text("name").unwrap_or_default(),
        function_ref: text("function").unwrap_or_default(),
        event_json: text("event_json"),
        run_id: wanted.at("run_id").as_i64(),
    }
}

/// Whether a job that is there is what a lost answer was about.
fn is_ours(request: &CreateJob, found: &Job) -> bool {
    found.function_ref == request.function_ref
        && found.run_id == request.run_id.unwrap_or(0)
        && request
            .event_json
            .as_ref()
            .is_none_or(|event| *event == found.event_json)
}

/// Puts what the server says into a state.
fn put(state: &mut Value, job: &Job) {
    state.put("id", job.name.as_str());
    state.put("name", job.name.as_str());
    state.put("namespace", job.namespace.as_str());
    state.put("function", job.function_ref.as_str());
    state.put("event_json", job.event_json.as_str());
    state.put("run_id", job.run_id);
    state.put("phase", format!("{:?}", job.phase));
    state.put("result", job.result.clone());
    state.put("message", job.message.clone());
    state.put("started_at", job.started_at.map(|time| time.to_string()));
    state.put("finished_at", job.finished_at.map(|time| time.to_string()));
}

/// What is known of a job, in a few words.
fn progress(job: &Job) -> String {
    let mut text = format!("{:?}", job.phase);
    for part in [&job.reason, &job.message].into_iter().flatten() {
        text.push_str(": ");
        text.push_str(part.lines().next().unwrap_or_default());
    }
    text
}

/// Waits until a run has ended, and tells where it failed.
async fn wait(operation: &Operation, session: &Session, state: &mut Value, mut job: Job) {
    let name = job.name.clone();
    let seconds = state
        .at("wait_timeout_sec")
        .as_i64()
        .filter(|seconds| *seconds > 0);
    let seconds = seconds.unwrap_or(WAIT_TIMEOUT_SEC).unsigned_abs();
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let mut patience = Patience::new();
    let mut last = String::new();
    loop {
        let now = progress(&job);
        if now != last {
            tracing::info!(job = name, "{now}");
            last = now;
        }
        put(state, &job);
        operation.save(state);
        match job.phase {
            JobPhase::Succeeded | JobPhase::Skipped => return,
            JobPhase::Failed => {
                let reason = job.reason.as_deref().unwrap_or("no reason");
                let message = job
                    .message
                    .as_deref()
                    .unwrap_or("the server does not say why");
                return operation.error(
                    format!("The job {name} failed: {reason}"),
                    format!("{message}\n\nApplying again replaces it, and so runs it again."),
                );
            }
            _ => {}
        }
        let limit = if Instant::now() >= deadline {
            Some(format!("`wait_timeout_sec` of {seconds} s"))
        } else {
            match patience.pause(operation).await {
                Ok(()) => None,
                Err(Interrupt::Stopped) => {
                    let doing = format!("waiting for the job {name}");
                    let (summary, detail) = api::interrupted(operation, Interrupt::Stopped, &doing);
                    return operation.error(summary, format!("{detail} It exists and is {last}."));
                }
                Err(_) => {
                    let limit = tfplugin::timeouts::show(operation.timeout());
                    Some(format!("`timeouts` of {limit}"))
                }
            }
        };
        if let Some(limit) = limit {
            return operation.error(
                format!("The job {name} did not end in time"),
                format!("The limit {limit} was reached. It exists and is {last}."),
            );
        }
        match api::again(operation, || session.client.job(&session.namespace, &name)).await {
            Ok(found) => job = found,
            Err(Failed::Interrupted(_)) => {}
            Err(failed) => {
                let summary = format!("The job {name} exists, and cannot be looked at");
                return api::tell_failed(operation, session, &summary, "waiting", &failed, FIELDS);
            }
        }
    }
}

#[async_trait]
impl Resource for JobResource {
    fn schema(&self) -> Schema {
        schema()
    }

    fn validate(&self, _: &Value, _: &mut Diagnostics) {
        // Each attribute has its own check, and nothing goes beyond them.
    }

    async fn plan(&self, _: &mut Plan) {
        // All follows from the properties of the attributes.
    }

    async fn create(&self, operation: &Operation, planned: Value, _: Value) {
        let Some(session) = self.connection.demand(operation) else {
            return;
        };
        let request = request(&planned);
        let (client, namespace) = (&session.client, session.namespace.as_str());
        let made = api::create(
            operation,
            || client.create_job(namespace, &request),
            || client.job(namespace, &request.name),
            |found| is_ours(&request, found),
        )
        .await;
        match made {
            Ok(job) => {
                tracing::info!(job = job.name, "created");
                let mut state = planned;
                wait(operation, &session, &mut state, job).await;
            }
            Err(Failed::Client(error)) if error.is_conflict() => {
                api::tell_taken(operation, "job", &request.name);
            }
            Err(failed) => {
                let summary = format!("The job {} cannot be created", request.name);
                api::tell_failed(
                    operation,
                    &session,
                    &summary,
                    "creating a job",
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
        match api::again(operation, || session.client.job(&session.namespace, &name)).await {
            Ok(job) => {
                put(&mut state, &job);
                operation.save(&state);
            }
            Err(Failed::Client(error)) if error.is_not_found() => operation.save(&Value::Null),
            Err(failed) => {
                let summary = format!("The job {name} cannot be read");
                api::tell_failed(
                    operation,
                    &session,
                    &summary,
                    "reading a job",
                    &failed,
                    FIELDS,
                );
            }
        }
    }

    async fn update(&self, operation: &Operation, _: Value, planned: Value, _: Value) {
        let Some(session) = self.connection.demand(operation) else {
            return;
        };
        // Everything else replaces it, or is only ours.
        let name = planned.at("name").as_str().unwrap_or_default().to_owned();
        let event = planned.at("event_json").as_str().map(str::to_owned);
        let patch = PatchJob {
            event_json: event.map_or(Field::Null, Field::Value),
            run_id: None,
        };
        let (client, namespace) = (&session.client, session.namespace.as_str());
        match api::again(operation, || client.patch_job(namespace, &name, &patch)).await {
            Ok(job) => {
                let mut state = planned;
                put(&mut state, &job);
                operation.save(&state);
            }
            Err(failed) => {
                let summary = format!("The job {name} cannot be changed");
                api::tell_failed(
                    operation,
                    &session,
                    &summary,
                    "changing a job",
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
        let delete = || client.delete_job(namespace, name);
        let find = || client.job(namespace, name);
        api::remove(operation, &session, &format!("job {name}"), delete, find).await;
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
        match api::again(operation, || session.client.job(&session.namespace, name)).await {
            Ok(job) => {
                let timeouts = ["create", "update", "delete"].map(|action| (action, Value::Null));
                let mut state = Value::from_iter([
                    ("timeouts", Value::from_iter(timeouts)),
                    ("wait_timeout_sec", 0.into()),
                ]);
                put(&mut state, &job);
                operation.save(&state);
            }
            Err(Failed::Client(error)) if error.is_not_found() => {
                refused(format!(
                    "There is no job `{name}` in the namespace {}.",
                    session.namespace
                ));
            }
            Err(failed) => {
                let summary = format!("The job {name} cannot be read");
                api::tell_failed(
                    operation,
                    &session,
                    &summary,
                    "importing a job",
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
