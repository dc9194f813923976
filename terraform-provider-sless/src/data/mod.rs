//! Data sources: what is there, made by whomever.

use sless_api::{Function, Job, Trigger};
use tfplugin::{Attribute, DataSource, Operation, Schema, Type, Value, async_trait};

use crate::{
    api::{self, Failed},
    name,
    session::{Connection, Session},
};

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Function,
    Trigger,
    Job,
    Namespace,
}

impl What {
    pub(crate) const ALL: [Self; 4] = [Self::Function, Self::Trigger, Self::Job, Self::Namespace];

    pub(crate) const fn type_name(self) -> &'static str {
        match self {
            Self::Function => "sless_function",
            Self::Trigger => "sless_trigger",
            Self::Job => "sless_job",
            Self::Namespace => "sless_namespace",
        }
    }

    pub(crate) fn schema(self) -> Schema {
        let text = |name: &str, docs: &str| Attribute::string(name, docs).computed();
        let number = |name: &str, docs: &str| Attribute::number(name, docs).computed();
        let mut attributes = vec![
            text("id", "Its name."),
            text("namespace", "The namespace, which follows from the token."),
        ];
        if self != Self::Namespace {
            let named = Attribute::string("name", "Its name.")
                .required()
                .checked(name::check);
            attributes.push(named);
        }
        let docs = match self {
            Self::Function => {
                attributes.extend([
                    text("runtime", "The language and its version."),
                    text("entrypoint", "`module.function`."),
                    Attribute::map_of("env", Type::String, "Environment variables.")
                        .computed()
                        .sensitive(),
                    number(
                        "replicas",
                        "How many copies were asked for; null means one.",
                    ),
                    number("ready_replicas", "How many copies answer now."),
                    number("timeout", "How long one call may take, in seconds."),
                    text("memory", "The memory of one copy."),
                    text("cpu", "The processor share of one copy."),
                    number("concurrency", "How many calls one copy takes at once."),
                    number(
                        "max_replicas",
                        "The most copies that calls under way may lead to; null means that none are added.",
                    ),
                    number(
                        "idle_seconds",
                        "How long without a call until it goes to sleep, in seconds; null means the \
                         server's default, 0 means never.",
                    ),
                    text("digest", "The digest of its code."),
                    text(
                        "phase",
                        "`Pending`, `Building`, `Ready`, `Failed` or `Stopped`.",
                    ),
                    text(
                        "reason",
                        "One word for the state, where there is more to say.",
                    ),
                    text(
                        "message",
                        "A sentence, and where a build failed the end of its log.",
                    ),
                    text("url", "Where it answers."),
                    text("image", "The image or artifact that runs."),
                    text(
                        "last_built_at",
                        "When its code was last built, as RFC 3339.",
                    ),
                ]);
                "A function that is there."
            }
            Self::Trigger => {
                attributes.extend([
                    text(
                        "type",
                        "What drives the function: `http`, `cron` or `event`.",
                    ),
                    text("function", "The name of the function."),
                    Attribute::bool("enabled", "Whether it is meant to act.").computed(),
                    text("schedule", "The schedule, for `cron`."),
                    text("time_zone", "The time zone of the schedule, for `cron`."),
                    text("queue", "The queue, for `event`."),
                    Attribute::bool("active", "Whether it acts now.").computed(),
                    text("url", "Where requests go, for `http`."),
                    text("next_fire", "When it fires next, for `cron`."),
                    text(
                        "message",
                        "A sentence about its state, where there is something to say.",
                    ),
                ]);
                "A trigger that is there."
            }
            Self::Job => {
                attributes.extend([
                    text("function", "The name of the function."),
                    text("event_json", "The event, as JSON text."),
                    number("run_id", "The run that is wanted; 0 runs nothing."),
                    text(
                        "phase",
                        "`Pending`, `Running`, `Succeeded`, `Failed` or `Skipped`.",
                    ),
                    text("result", "What the function returned, as JSON text."),
                    text(
                        "message",
                        "A sentence about the run, where there is something to say.",
                    ),
                    text("started_at", "When the run started, as RFC 3339."),
                    text("finished_at", "When the run ended, as RFC 3339."),
                ]);
                "A job that is there."
            }
            Self::Namespace => {
                attributes.push(text("name", "Its name."));
                "The namespace of the token, which the provider makes where it is not there."
            }
        };
        Schema::new(docs, attributes)
    }
}

/// A data source.
#[derive(Debug)]
pub(crate) struct Look {
    connection: Connection,
    what: What,
}

impl Look {
    pub(crate) const fn new(connection: Connection, what: What) -> Self {
        Self { connection, what }
    }

    async fn look(
        &self,
        operation: &Operation,
        session: &Session,
        name: &str,
    ) -> Result<Value, Failed> {
        let (client, namespace) = (&session.client, session.namespace.as_str());
        Ok(match self.what {
            What::Function => {
                function(&api::again(operation, || client.function(namespace, name)).await?)
            }
            What::Trigger => {
                trigger(&api::again(operation, || client.trigger(namespace, name)).await?)
            }
            What::Job => job(&api::again(operation, || client.job(namespace, name)).await?),
            What::Namespace => {
                Value::from_iter(["id", "name", "namespace"].map(|key| (key, namespace)))
            }
        })
    }
}

#[async_trait]
impl DataSource for Look {
    fn schema(&self) -> Schema {
        self.what.schema()
    }

    async fn read(&self, operation: &Operation, config: Value) {
        let Some(session) = self.connection.demand(operation) else {
            return;
        };
        let name = config.at("name").as_str().unwrap_or_default();
        match self.look(operation, &session, name).await {
            Ok(state) => operation.save(&state),
            Err(Failed::Client(error)) if error.is_not_found() => operation.error_at(
                "name",
                format!("There is no `{name}`"),
                format!(
                    "The namespace {} has nothing of that name and kind.",
                    session.namespace
                ),
            ),
            Err(failed) => {
                let summary = format!("`{name}` cannot be read");
                api::tell_failed(operation, &session, &summary, "reading", &failed, &[]);
            }
        }
    }
}

fn time(time: Option<jiff::Timestamp>) -> Value {
    time.map(|time| time.to_string()).into()
}

fn function(function: &Function) -> Value {
    let env = function
        .env
        .0
        .iter()
        .map(|(name, value)| (name.clone(), value.clone()));
    Value::from_iter([
        ("id", Value::from(function.name.as_str())),
        ("name", function.name.as_str().into()),
        ("namespace", function.namespace.as_str().into()),
        ("runtime", function.runtime.as_str().into()),
        ("entrypoint", function.entrypoint.as_str().into()),
        ("env", env.collect()),
        ("replicas", function.replicas.into()),
        ("ready_replicas", function.ready_replicas.into()),
        ("timeout", function.timeout_seconds.into()),
        ("memory", function.memory.clone().into()),
        ("cpu", function.cpu.clone().into()),
        ("concurrency", function.concurrency.into()),
        ("max_replicas", function.max_replicas.into()),
        ("idle_seconds", function.idle_seconds.into()),
        ("digest", function.code_sha256.clone().into()),
        ("phase", format!("{:?}", function.phase).into()),
        ("reason", function.reason.clone().into()),
        ("message", function.message.clone().into()),
        ("url", function.url.as_str().into()),
        ("image", function.image.clone().into()),
        ("last_built_at", time(function.last_built_at)),
    ])
}

fn trigger(trigger: &Trigger) -> Value {
    Value::from_iter([
        ("id", Value::from(trigger.name.as_str())),
        ("name", trigger.name.as_str().into()),
        ("namespace", trigger.namespace.as_str().into()),
        ("type", format!("{:?}", trigger.kind).to_lowercase().into()),
        ("function", trigger.function_ref.as_str().into()),
        ("enabled", trigger.enabled.into()),
        ("schedule", trigger.schedule.clone().into()),
        ("time_zone", trigger.time_zone.clone().into()),
        ("queue", trigger.queue.clone().into()),
        ("active", trigger.active.into()),
        ("url", trigger.url.clone().into()),
        ("next_fire", time(trigger.next_fire_at)),
        ("message", trigger.message.clone().into()),
    ])
}

fn job(job: &Job) -> Value {
    Value::from_iter([
        ("id", Value::from(job.name.as_str())),
        ("name", job.name.as_str().into()),
        ("namespace", job.namespace.as_str().into()),
        ("function", job.function_ref.as_str().into()),
        ("event_json", job.event_json.as_str().into()),
        ("run_id", job.run_id.into()),
        ("phase", format!("{:?}", job.phase).into()),
        ("result", job.result.clone().into()),
        ("message", job.message.clone().into()),
        ("started_at", time(job.started_at)),
        ("finished_at", time(job.finished_at)),
    ])
}
