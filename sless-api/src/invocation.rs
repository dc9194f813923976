//! The invocation log.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What caused a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum InvocationOrigin {
    /// A request to the function's URL.
    Http,
    /// A schedule.
    Cron,
    /// A message of a queue.
    Event,
    /// A job.
    Job,
    /// The program that the engine is part of.
    Direct,
}

/// One call: an item of `GET …/functions/{name}/invocations`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Invocation {
    /// Its own id.
    pub id: String,
    /// The request id, as in the function's log lines.
    pub request_id: String,
    /// The function.
    pub function: String,
    /// What caused it.
    pub origin: InvocationOrigin,
    /// The trigger or job that caused it, where there is one.
    pub cause: Option<String>,
    /// Which attempt this was; 1 for the first.
    pub attempt: u32,
    /// When it began.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub started_at: Timestamp,
    /// How long it took until its response had ended, in milliseconds.
    pub duration_ms: u64,
    /// The status that a client saw.
    pub status: u16,
    /// One word where there was no whole answer of the function, such as `timeout`.
    pub error: Option<String>,
    /// Bytes of the response's body.
    pub response_bytes: u64,
}
