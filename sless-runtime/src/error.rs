//! What can go wrong when a worker starts and when it is called.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use http::StatusCode;
use serde::{Deserialize, Serialize};

/// Why a worker did not start, or why it is not there: a machine word for statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// Importing the handler's module failed: a syntax error, an exception, a missing dependency
    /// or a missing module.
    HandlerImport,
    /// The handler cannot be called with one or two arguments.
    HandlerSignature,
    /// The module has no such function, or the name is no function.
    HandlerMissing,
    /// The interpreter (or the command in front of it) could not be started.
    InterpreterMissing,
    /// The handler was not imported within the start timeout.
    StartTimeout,
    /// The worker ended by itself.
    Crash,
    /// The worker ended, or its import failed, for want of memory.
    OutOfMemory,
    /// The worker ended several times in a row and waits before it is started again.
    CrashLoop,
    /// A call was not over at its deadline, so the worker is replaced.
    CallTimeout,
    /// The configuration cannot be right; the message names the field.
    Config,
    /// The worker's own program or sockets could not be set up.
    Host,
}

impl Reason {
    /// The word, as in `handler_import`.
    pub fn word(self) -> &'static str {
        match self {
            Reason::HandlerImport => "handler_import",
            Reason::HandlerSignature => "handler_signature",
            Reason::HandlerMissing => "handler_missing",
            Reason::InterpreterMissing => "interpreter_missing",
            Reason::StartTimeout => "start_timeout",
            Reason::Crash => "crash",
            Reason::OutOfMemory => "out_of_memory",
            Reason::CrashLoop => "crash_loop",
            Reason::CallTimeout => "call_timeout",
            Reason::Config => "config",
            Reason::Host => "host",
        }
    }

    /// Whether starting again without a change of code or configuration can help.
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            Reason::StartTimeout
                | Reason::Crash
                | Reason::OutOfMemory
                | Reason::CrashLoop
                | Reason::CallTimeout
                | Reason::Host
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A worker that did not become ready.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct StartError {
    /// The machine word.
    pub reason: Reason,
    /// One sentence for people.
    pub message: String,
    /// The newest lines of the worker's log, the trace of a failing import included; at most
    /// [`Limits::log_tail_bytes`](crate::Limits::log_tail_bytes).
    pub log_tail: String,
}

impl StartError {
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            log_tail: String::new(),
        }
    }

    pub(crate) fn with_tail(mut self, tail: String) -> Self {
        self.log_tail = tail;
        self
    }
}

/// A call that got no answer, or whose answer broke off.
///
/// A handler that raises is no `CallError` but an ordinary response with status 500; see
/// [`HandlerError`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// All slots are busy and the queue is full.
    #[error("the limit {limit} is reached: {value} calls wait already")]
    Overloaded {
        /// The name of the limit, `queue_length`.
        limit: &'static str,
        /// Its value.
        value: usize,
        /// When it makes sense to try again.
        retry_after: Duration,
    },
    /// The call's time was over.
    #[error("no answer within {} s", after.as_secs_f64())]
    Timeout {
        /// The time that the call had.
        after: Duration,
    },
    /// The worker ended while it ran this call.
    #[error("the worker ended during the call: {message}")]
    WorkerDied {
        /// `crash` or `out_of_memory`.
        reason: Reason,
        /// How it ended, for example `killed by signal 9`.
        message: String,
    },
    /// No worker is there and none is expected soon.
    #[error("no worker is ready: {message}")]
    NotReady {
        /// Why, for example `crash_loop`.
        reason: Reason,
        /// One sentence.
        message: String,
        /// When it makes sense to try again.
        retry_after: Duration,
    },
    /// The host drains or has stopped.
    #[error("the host has stopped")]
    Stopped,
    /// The request's body could not be read to its end.
    #[error("the request body could not be read")]
    BodyRead(#[source] Box<dyn StdError + Send + Sync>),
    /// The request is larger than a limit.
    #[error("the limit {limit} of {value} bytes is exceeded")]
    TooLarge {
        /// The name of the limit, `max_request_body_bytes` or `max_request_head_bytes`.
        limit: &'static str,
        /// Its value.
        value: u64,
    },
    /// The handler failed after its answer had begun; the body breaks off.
    #[error("the handler failed while it streamed its answer: {0}")]
    Handler(HandlerError),
    /// The worker said something that the host does not understand.
    #[error("the worker broke the protocol: {0}")]
    Protocol(String),
}

impl CallError {
    /// The machine word of the kind.
    pub fn word(&self) -> &'static str {
        match self {
            CallError::Overloaded { .. } => "overloaded",
            CallError::Timeout { .. } => "timeout",
            CallError::WorkerDied {
                reason: Reason::OutOfMemory,
                ..
            } => "out_of_memory",
            CallError::WorkerDied { .. } => "worker_died",
            CallError::NotReady {
                reason: Reason::CrashLoop,
                ..
            } => "crash_loop",
            CallError::NotReady { .. } => "not_ready",
            CallError::Stopped => "stopped",
            CallError::BodyRead(_) => "body_read",
            CallError::TooLarge { .. } => "too_large",
            CallError::Handler(_) => "handler_error",
            CallError::Protocol(_) => "protocol",
        }
    }

    /// The status that a server in front answers with.
    pub fn status(&self) -> StatusCode {
        match self {
            CallError::Overloaded { .. } => StatusCode::TOO_MANY_REQUESTS,
            CallError::Timeout { .. } => StatusCode::GATEWAY_TIMEOUT,
            CallError::WorkerDied { .. } | CallError::Protocol(_) => StatusCode::BAD_GATEWAY,
            CallError::NotReady { .. } | CallError::Stopped => StatusCode::SERVICE_UNAVAILABLE,
            CallError::BodyRead(_) => StatusCode::BAD_REQUEST,
            CallError::TooLarge {
                limit: "max_request_head_bytes",
                ..
            } => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            CallError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            CallError::Handler(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// When to try again, where that makes sense; for the field `Retry-After`.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            CallError::Overloaded { retry_after, .. } | CallError::NotReady { retry_after, .. } => {
                Some(*retry_after)
            }
            CallError::Stopped => Some(Duration::from_secs(1)),
            _ => None,
        }
    }
}

/// An error that the handler raised, or an answer that cannot be sent.
///
/// A response that stands for one carries this value among its extensions, so that a caller can
/// tell it from a 500 that the handler returned on purpose. Its body is
/// `{"error":{"type":"…","message":"…"}}`; the trace is in the log only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HandlerError {
    /// The name of the error's type, for example `ValueError`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its message.
    pub message: String,
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.message)
    }
}
