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

impl InvocationOrigin {
    /// The origin as one word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Cron => "cron",
            Self::Event => "event",
            Self::Job => "job",
            Self::Direct => "direct",
        }
    }
}

/// The query of `GET …/functions/{name}/invocations`. Each field that is there narrows it down.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
#[serde(default, deny_unknown_fields)]
pub struct InvocationsQuery {
    /// How many items at most; the server has a limit of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The `next` of the page before, of the same query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Only calls that this caused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<InvocationOrigin>,
    /// Only calls that failed: status 400 and above.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// Only calls that began at or after this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = DateTime))]
    pub since: Option<Timestamp>,
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
    /// Who called, as far as that is known: for a request to the function's URL the address that it
    /// came from, as the server saw it.
    #[serde(default)]
    pub caller: Option<String>,
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
    /// Bytes of the request's body.
    #[serde(default)]
    pub request_bytes: u64,
    /// Bytes of the response's body.
    pub response_bytes: u64,
    /// The end of what the call wrote to its log, at most 4 KiB: lines, oldest first.
    #[serde(default)]
    pub log_tail: Option<String>,
}
