//! Log lines of builds and runs.

use futures::stream::BoxStream;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Result;

/// Where a line was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
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

/// One line of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// When it was written.
    pub at: Timestamp,
    /// Where.
    pub source: LogSource,
    /// The request during which the function wrote it, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The text, without the line's end.
    pub text: String,
    /// Whether the text was cut because it is longer than a line may be.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// Which lines to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogOptions {
    /// Go on with the lines that are written from now on.
    pub follow: bool,
    /// Only the last so many of the lines written so far.
    pub tail: Option<usize>,
    /// Only lines written at or after this time.
    pub since: Option<Timestamp>,
}

impl LogOptions {
    /// Go on with the lines that are written from now on.
    #[must_use]
    pub const fn following(mut self) -> Self {
        self.follow = true;
        self
    }

    /// Only the last so many of the lines written so far.
    #[must_use]
    pub const fn with_tail(mut self, lines: usize) -> Self {
        self.tail = Some(lines);
        self
    }

    /// Only lines written at or after this time.
    #[must_use]
    pub const fn with_since(mut self, since: Timestamp) -> Self {
        self.since = Some(since);
        self
    }
}

/// Log lines, oldest first. One that follows ends when what it follows is removed.
pub type LogStream = BoxStream<'static, Result<LogLine>>;
