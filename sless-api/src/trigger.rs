//! Triggers.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    WireDuration,
    field::{Field, not_null},
};

/// What drives a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TriggerType {
    /// Requests to its URL.
    Http,
    /// The clock.
    Cron,
    /// A queue.
    Event,
}

/// A trigger to create: `POST /v1/namespaces/{ns}/triggers`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateTrigger {
    /// A DNS label of at most 63 characters, unique among the triggers of its namespace.
    pub name: String,
    /// What drives the function.
    #[serde(rename = "type")]
    pub kind: TriggerType,
    /// The function, in the same namespace.
    pub function_ref: String,
    /// Whether it acts; true where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Five fields in POSIX order, or a name such as `@weekly`; for type `cron`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// The IANA time zone of the schedule; UTC where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// What happens to missed and overlapping runs; for type `cron`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies: Option<CronPolicies>,
    /// The queue to consume; for type `event`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// What happens where the queue is not there; for type `event`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_declare: Option<QueueDeclare>,
    /// How messages are delivered; for type `event`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
}

/// What happens to missed and overlapping runs. What is left out has a default of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CronPolicies {
    /// What becomes of a due time that passed while nothing could fire it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed_runs: Option<MissedRuns>,
    /// A missed run whose time is longer ago than this is not run any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub missed_deadline: Option<WireDuration>,
    /// What becomes of a due time that comes while an earlier run goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<Overlap>,
    /// How many runs may go on at once where they may overlap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_running: Option<usize>,
}

/// What becomes of a due time that passed while nothing could fire it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MissedRuns {
    /// The latest one is run, once.
    RunOnce,
    /// None is run.
    Skip,
}

/// What becomes of a due time that comes while an earlier run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Overlap {
    /// It is left out and counted.
    Skip,
    /// It is run beside the others.
    Allow,
}

/// What happens where the queue of a trigger is not there. One that is there is used as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum QueueDeclare {
    /// It is made, durable, and replicated where the broker replicates queues. The default.
    Quorum,
    /// It is made, durable, on one node of the broker.
    Classic,
    /// It is waited for: the trigger is not connected until somebody else makes it.
    Never,
}

/// How messages of a queue are delivered. What is left out has a default of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Delivery {
    /// After how many deliveries a message becomes a dead letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// The delay before the second delivery; it doubles with each one after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub min_backoff: Option<WireDuration>,
    /// The longest delay between two deliveries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub max_backoff: Option<WireDuration>,
    /// How many calls may be under way at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<u32>,
    /// How many messages are taken from the queue ahead of their calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<u32>,
}

/// A change to a trigger: `PATCH /v1/namespaces/{ns}/triggers/{name}`.
///
/// A field that is left out keeps its value; `null` brings the default back. The type stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PatchTrigger {
    /// Another function of the same namespace. Not nullable.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "not_null"
    )]
    pub function_ref: Option<String>,
    /// Whether it acts.
    #[serde(default, skip_serializing_if = "Field::is_absent")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<bool>))]
    pub enabled: Field<bool>,
    /// Another schedule. Not nullable.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "not_null"
    )]
    pub schedule: Option<String>,
    /// Another time zone.
    #[serde(default, skip_serializing_if = "Field::is_absent")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub time_zone: Field<String>,
    /// Replaces all policies.
    #[serde(default, skip_serializing_if = "Field::is_absent")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<CronPolicies>))]
    pub policies: Field<CronPolicies>,
    /// Another queue. Not nullable.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "not_null"
    )]
    pub queue: Option<String>,
    /// What happens where the queue is not there.
    #[serde(default, skip_serializing_if = "Field::is_absent")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<QueueDeclare>))]
    pub queue_declare: Field<QueueDeclare>,
    /// Replaces all delivery options.
    #[serde(default, skip_serializing_if = "Field::is_absent")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Delivery>))]
    pub delivery: Field<Delivery>,
}

/// A trigger as the server sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Trigger {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// What drives the function.
    #[serde(rename = "type")]
    pub kind: TriggerType,
    /// The function.
    pub function_ref: String,
    /// Whether it is meant to act.
    pub enabled: bool,
    /// The schedule, for type `cron`.
    pub schedule: Option<String>,
    /// The time zone of the schedule, for type `cron`.
    pub time_zone: Option<String>,
    /// What happens to missed and overlapping runs, for type `cron`.
    #[serde(default)]
    pub policies: Option<CronPolicies>,
    /// The queue, for type `event`.
    pub queue: Option<String>,
    /// What happens where the queue is not there, for type `event`.
    #[serde(default)]
    pub queue_declare: Option<QueueDeclare>,
    /// How messages are delivered, for type `event`.
    pub delivery: Option<Delivery>,
    /// Whether it acts now.
    pub active: bool,
    /// Where requests go, for type `http`.
    pub url: Option<String>,
    /// When it fires next, for type `cron`.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub next_fire_at: Option<Timestamp>,
    /// The fires after now, the first ones, for type `cron`.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub next_fires: Vec<Timestamp>,
    /// When it fired last, for type `cron`.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub last_fire_at: Option<Timestamp>,
    /// How many fires were left out since the one before was still running, for type `cron`.
    #[serde(default)]
    pub skipped: u64,
    /// How many fires passed while nothing could fire them, for type `cron`.
    #[serde(default)]
    pub missed: u64,
    /// Whether its queue is being consumed now, for type `event`.
    pub connected: Option<bool>,
    /// How many calls were answered with 2xx.
    pub delivered: u64,
    /// How many calls were not.
    pub failed: u64,
    /// How many messages became dead letters.
    pub dead_lettered: u64,
    /// One word where it does not act, such as `function_missing`.
    #[serde(default)]
    pub reason: Option<String>,
    /// A sentence about its state, where there is something to say.
    pub message: Option<String>,
    /// When it was created.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
}
