//! Log lines.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Where a line was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LogSource {
    /// By a build.
    Build,
    /// By the function, on its standard output.
    Stdout,
    /// By the function, on its standard error.
    Stderr,
    /// By what runs the function.
    System,
}

/// The query of `GET …/functions/{name}/logs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
#[serde(default, deny_unknown_fields)]
pub struct LogQuery {
    /// Whether to go on with the lines that are yet to come.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub follow: bool,
    /// Only the last so many of the lines that are there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail: Option<usize>,
    /// Only lines written at or after this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = DateTime))]
    pub since: Option<Timestamp>,
}

/// One line of `GET …/functions/{name}/logs`.
///
/// The answer is `application/x-ndjson`, one such object per line, where the request accepts it;
/// otherwise it is plain text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LogLine {
    /// When it was written.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: Timestamp,
    /// Where it was written.
    pub source: LogSource,
    /// The call during which it was written, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The line without its end.
    pub text: String,
    /// Whether the line was longer than the server's limit and is cut.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}
