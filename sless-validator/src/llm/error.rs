//! What goes wrong between us and a model, and what that means to the caller.

use std::time::Duration;

use sless_core::{Error, ErrorKind, Retry};

const BACKEND: &str = "llm";

/// What went wrong. The texts are for the uploader: nothing of what the server said is in them.
#[derive(Debug, thiserror::Error)]
pub(super) enum LlmError {
    #[error("the LLM configuration's {field} cannot be used: {why}")]
    Config { field: &'static str, why: String },
    #[error("the system gives no random numbers")]
    Random,
    #[error("the model gave no answer within {0:?}")]
    Timeout(Duration),
    #[error("limit requests_at_once of {0} reached: other reviews are under way")]
    Busy(usize),
    #[error("the model cannot be reached")]
    Connect(#[source] reqwest::Error),
    #[error("the connection to the model broke off")]
    Interrupted(#[source] reqwest::Error),
    #[error("the model's server answered with status {status}")]
    Status {
        status: u16,
        retry_after: Option<Duration>,
        #[source]
        said: Said,
    },
    #[error("the code is longer than the model can read")]
    Context(#[source] Said),
    #[error("limit answer_bytes of {0} bytes exceeded by the model's answer")]
    TooLong(usize),
    #[error("the model's server answered in another form than that of the API")]
    Form(#[source] serde_json::Error),
    #[error("the model's server answered {0}")]
    Shape(&'static str),
    #[error("the model's answer is empty")]
    Empty,
    #[error("the model's answer was cut off")]
    Cut,
    #[error("the model's answer was withheld")]
    Withheld,
    #[error("the model did not answer with a verdict")]
    Prose,
    #[error("the model's answer cannot be trusted: {0}")]
    Untrusted(&'static str),
}

/// The beginning of what a server said in place of an answer, for a log.
#[derive(Debug)]
pub(super) struct Said(pub(super) String);

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the server said {:?}", self.0)
    }
}

impl std::error::Error for Said {}

impl LlmError {
    /// Whether the same request, sent again, can be answered.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Connect(_) | Self::Interrupted(_) => true,
            Self::Status { status, .. } => matches!(status, 408 | 425 | 429 | 500..=599),
            _ => false,
        }
    }

    /// How long the server wants to be left alone.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    fn kind_and_reason(&self) -> (ErrorKind, &'static str) {
        use ErrorKind::{Corrupt, Internal, Invalid, Overloaded, Timeout, Unavailable};
        match self {
            Self::Config { .. } => (Invalid, "llm_config"),
            Self::Random => (Internal, "no_random_numbers"),
            Self::Timeout(_) => (Timeout, "llm_timeout"),
            Self::Busy(_) => (Overloaded, "limit_requests_at_once"),
            Self::Connect(_) => (Unavailable, "llm_unreachable"),
            Self::Interrupted(_) => (Unavailable, "llm_interrupted"),
            Self::Status { status, .. } => match status {
                429 => (Overloaded, "llm_rate_limited"),
                401 | 403 => (Unavailable, "llm_unauthorized"),
                404 => (Unavailable, "llm_not_found"),
                300..=399 => (Unavailable, "llm_redirected"),
                408 | 425 | 500..=599 => (Unavailable, "llm_failed"),
                _ => (Unavailable, "llm_request_refused"),
            },
            Self::Context(_) => (Unavailable, "llm_context_exceeded"),
            Self::TooLong(_) => (Corrupt, "limit_answer_bytes"),
            Self::Form(_) | Self::Shape(_) => (Corrupt, "llm_answer_invalid"),
            Self::Empty => (Corrupt, "llm_answer_empty"),
            Self::Cut => (Corrupt, "llm_answer_cut"),
            Self::Withheld => (Corrupt, "llm_answer_withheld"),
            Self::Prose => (Corrupt, "llm_answer_prose"),
            Self::Untrusted(_) => (Corrupt, "llm_answer_untrusted"),
        }
    }
}

impl From<LlmError> for Error {
    fn from(error: LlmError) -> Self {
        let (kind, reason) = error.kind_and_reason();
        let retry = match (&error, error.retry_after()) {
            (_, Some(after)) if error.is_passing() => Retry::After(after),
            (LlmError::Timeout(_) | LlmError::Busy(_), _) => Retry::Transient,
            _ if error.is_passing() => Retry::Transient,
            _ => Retry::Never,
        };
        let message = error.to_string();
        let made = Self::new(kind, message)
            .with_reason(reason)
            .with_retry(retry)
            .at(BACKEND);
        let made = if matches!(error, LlmError::Config { .. }) {
            made
        } else {
            made.during("validator.validate")
        };
        match error {
            LlmError::Connect(cause) | LlmError::Interrupted(cause) => {
                // The address may hold a key in its query.
                made.with_source(cause.without_url())
            }
            LlmError::Status { said, .. } | LlmError::Context(said) => made.with_source(said),
            LlmError::Form(cause) => made.with_source(cause),
            _ => made,
        }
    }
}
