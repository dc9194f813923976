//! Log lines.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Which stream a line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LogStream {
    /// The build.
    Build,
    /// The function's standard output.
    Stdout,
    /// The function's standard error.
    Stderr,
    /// The platform, about the function.
    System,
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
    pub stream: LogStream,
    /// The line without its end.
    pub line: String,
    /// The call during which it was written, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Whether the line was longer than the server's limit and is cut.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}
