//! Jobs: one run of a function with a given event.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::field::{Field, not_null};

/// A job to create: `POST /v1/namespaces/{ns}/jobs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateJob {
    /// A DNS label of at most 63 characters, unique among the jobs of its namespace.
    pub name: String,
    /// The function, in the same namespace.
    pub function_ref: String,
    /// The event as JSON text; `{}` where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_json: Option<String>,
    /// 0, the default, runs nothing; above 0 runs once, and a higher value later runs it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<i64>,
}

/// A change to a job: `PATCH /v1/namespaces/{ns}/jobs/{name}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PatchJob {
    /// Another event; null brings `{}` back.
    #[serde(default, skip_serializing_if = "Field::is_absent")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub event_json: Field<String>,
    /// A higher value runs it again. Not nullable.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "not_null"
    )]
    pub run_id: Option<i64>,
}

/// How far a job is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub enum JobPhase {
    /// It has not started.
    #[default]
    Pending,
    /// It runs.
    Running,
    /// Its function answered.
    Succeeded,
    /// Its function failed, or the run could not be made.
    Failed,
    /// Its run id is 0, so that nothing runs.
    Skipped,
}

/// A job as the server sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Job {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The function.
    pub function_ref: String,
    /// The event as JSON text.
    pub event_json: String,
    /// The run that is wanted.
    pub run_id: i64,
    /// How far it is.
    pub phase: JobPhase,
    /// One word where the run failed or waits, such as `timeout`.
    #[serde(default)]
    pub reason: Option<String>,
    /// What the function returned, as JSON text, cut at a limit of the server.
    pub result: Option<String>,
    /// A sentence, where there is something to say.
    pub message: Option<String>,
    /// When the run started.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub started_at: Option<Timestamp>,
    /// When the run ended.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub finished_at: Option<Timestamp>,
    /// When the job was created.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
}
