//! The invocation log.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Where a call came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum InvocationSource {
    /// A request.
    Http,
    /// The clock.
    Cron,
    /// A queue.
    Event,
    /// A job.
    Job,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum InvocationOutcome {
    /// The function answered below 400.
    Ok,
    /// The function answered with 400 or above.
    Failed,
    /// The deadline passed.
    Timeout,
    /// The caller left.
    Cancelled,
    /// The function could not be called, or broke off.
    Error,
}

/// One call: an item of `GET …/functions/{name}/invocations`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Invocation {
    /// The request id, as in the function's log lines.
    pub request_id: String,
    /// The function.
    pub function: String,
    /// Where the call came from.
    pub source: InvocationSource,
    /// The trigger or job that made it, where there is one.
    pub origin: Option<String>,
    /// How it ended.
    pub outcome: InvocationOutcome,
    /// The status that the function answered with, where it did.
    pub status: Option<u16>,
    /// Which attempt at delivery this was; 1 for the first.
    pub attempt: u32,
    /// The digest of the code that answered.
    pub code_sha256: Option<String>,
    /// When it began.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub started_at: Timestamp,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// A sentence, where it did not end well.
    pub message: Option<String>,
}
