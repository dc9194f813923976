//! What can go wrong with a call.

use std::{io, path::PathBuf, time::Duration};

type Source = Box<dyn std::error::Error + Send + Sync + 'static>;

/// An answer of the server that says no.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({code}, status {status})")]
#[non_exhaustive]
pub struct ApiError {
    /// The HTTP status.
    pub status: u16,
    /// The machine word of the answer, such as `not_found`.
    pub code: String,
    /// The sentence of the answer.
    pub message: String,
    /// How long the server asks to wait before the next attempt.
    pub retry_after: Option<Duration>,
}

/// Why a call did not succeed. No text of it holds the token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server answered with an error.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The configuration or an argument cannot be used; the call was not made.
    #[error("{0}")]
    Invalid(String),
    /// A file to send cannot be read.
    #[error("cannot read {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No connection came about.
    #[error("cannot connect to {server}")]
    Connect {
        /// The server's address.
        server: String,
        /// Why.
        source: Source,
    },
    /// No answer came in time.
    #[error("no answer from {server} in time")]
    Timeout {
        /// The server's address.
        server: String,
        /// Which wait it was.
        source: Source,
    },
    /// The connection broke while a request or an answer was under way.
    #[error("the connection to {server} broke")]
    Broken {
        /// The server's address.
        server: String,
        /// Why.
        source: Source,
    },
    /// The answer is not what this client understands.
    #[error("the server's answer is not understood: {message}")]
    Answer {
        /// What was wrong with it.
        message: String,
    },
    /// A limit of [`ClientConfig`](super::ClientConfig) was reached.
    #[error("limit {name} of {value} exceeded")]
    Limit {
        /// The limit's field.
        name: &'static str,
        /// Its value.
        value: usize,
    },
}

impl ClientError {
    /// The server's error answer, where there was one.
    pub fn api(&self) -> Option<&ApiError> {
        match self {
            Self::Api(error) => Some(error),
            _ => None,
        }
    }

    /// Whether the server says that the subject does not exist.
    pub fn is_not_found(&self) -> bool {
        self.api().is_some_and(|error| error.status == 404)
    }

    /// Whether the server says that the subject exists already, or changed meanwhile.
    pub fn is_conflict(&self) -> bool {
        self.api().is_some_and(|error| error.status == 409)
    }

    /// Whether the same call, made later, can succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Api(error) => matches!(error.status, 429 | 502 | 503 | 504),
            Self::Connect { .. } | Self::Timeout { .. } | Self::Broken { .. } => true,
            _ => false,
        }
    }
}
