//! What can go wrong here, and the one place where it becomes an [`Error`].

use std::sync::Arc;

use lapin::protocol::{AMQPErrorKind, AMQPHardError, AMQPSoftError};
use sless_core::{Error, ErrorKind};

/// The name of this backend in errors and receipts.
pub(crate) const BACKEND: &str = "rabbitmq";

/// What can go wrong at a broker.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The client library says so.
    #[error("the broker failed")]
    Broker(#[source] lapin::Error),
    /// There is no connection now.
    #[error("there is no connection to {place}: {why}")]
    Disconnected { place: String, why: String },
    /// An answer did not come in time.
    #[error("no answer within {limit}")]
    Late {
        what: &'static str,
        limit: &'static str,
        wait_ms: u64,
    },
    /// The broker takes no messages now: its memory or its disk is short.
    #[error("the broker is blocked: {0}")]
    Blocked(String),
    /// A queue is not there.
    #[error("there is no queue {0}")]
    NoQueue(String),
    /// A queue takes no more messages.
    #[error("queue {0} refused a message")]
    Full(String),
    /// The consumer was cancelled by the broker.
    #[error("the consumer of queue {0} was cancelled")]
    Cancelled(String),
    /// A message that came cannot be read by the client library.
    #[error("a message cannot be read")]
    Unreadable,
    /// A rule of a trait, already in the words of its contract.
    #[error(transparent)]
    Rule(#[from] Arc<Error>),
}

impl From<lapin::Error> for Fault {
    fn from(error: lapin::Error) -> Self {
        match error.kind() {
            lapin::ErrorKind::ParsingError(_) => Self::Unreadable,
            _ => Self::Broker(error),
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Rule(Arc::new(error))
    }
}

impl Fault {
    /// Whether the broker said that something is not there.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Broker(error) if soft(error) == Some(AMQPSoftError::NOTFOUND))
    }

    /// Whether the broker said that another connection holds this for itself.
    pub(crate) fn is_locked(&self) -> bool {
        matches!(self, Self::Broker(error) if soft(error) == Some(AMQPSoftError::RESOURCELOCKED))
    }

    /// What callers see of it.
    pub(crate) fn to_error(&self) -> Error {
        match self {
            Self::Broker(error) => broker(error),
            Self::Disconnected { place, why } => {
                Error::unavailable(format!("there is no connection to {place}: {why}"))
                    .with_reason("disconnected")
            }
            Self::Late {
                what,
                limit,
                wait_ms,
            } => Error::new(
                ErrorKind::Timeout,
                format!("no answer to {what} within {limit} of {wait_ms} ms"),
            )
            .with_reason(format!("limit_{limit}")),
            Self::Blocked(why) => Error::unavailable(format!(
                "the broker takes no messages now: its alarm says {why}"
            ))
            .with_reason("broker_blocked"),
            Self::NoQueue(queue) => Error::not_found(format!("there is no queue {queue}"))
                .with_reason(sless_core::reason::QUEUE_MISSING),
            Self::Full(queue) => Error::new(
                ErrorKind::LimitExceeded,
                format!("queue {queue} takes no more messages: the limit that it has is reached"),
            )
            .with_reason("limit_queue_messages"),
            Self::Cancelled(queue) => Error::unavailable(format!(
                "the broker cancelled the consumer of queue {queue}: the queue was deleted or moved"
            ))
            .with_reason("consumer_cancelled"),
            Self::Unreadable => Error::new(
                ErrorKind::Corrupt,
                "a message cannot be read: a name or a property of it is no UTF-8",
            )
            .with_reason("message_unreadable"),
            Self::Rule(error) => Error::new(error.kind(), error.message().to_owned())
                .with_reason(error.reason().to_owned())
                .with_retry(error.retry()),
        }
    }

    /// The sentence of a status.
    pub(crate) fn sentence(&self) -> String {
        self.to_error().message().to_owned()
    }

    /// The word of a status.
    pub(crate) fn word(&self) -> String {
        self.to_error().reason().to_owned()
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        fault.to_error().at(BACKEND).with_source(fault)
    }
}

fn soft(error: &lapin::Error) -> Option<AMQPSoftError> {
    match error.kind() {
        lapin::ErrorKind::ProtocolError(error) => match error.kind() {
            AMQPErrorKind::Soft(soft) => Some(soft.clone()),
            AMQPErrorKind::Hard(_) => None,
        },
        _ => None,
    }
}

fn broker(error: &lapin::Error) -> Error {
    use lapin::ErrorKind as Kind;
    match error.kind() {
        Kind::ProtocolError(error) => {
            // What the broker wrote: it names queues and arguments, and no secret.
            let text = error.get_message().as_str().to_owned();
            match error.kind() {
                AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND) => Error::not_found(text),
                AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED)
                | AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED) => {
                    Error::new(ErrorKind::PermissionDenied, text).with_reason("broker_refused")
                }
                AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED) => {
                    Error::conflict(text).with_reason("broker_precondition")
                }
                AMQPErrorKind::Soft(AMQPSoftError::RESOURCELOCKED) => Error::new(
                    ErrorKind::Overloaded,
                    "another connection holds it for itself",
                )
                .with_reason("broker_locked"),
                _ => Error::unavailable(format!("the broker said: {text}"))
                    .with_reason("broker_error"),
            }
        }
        Kind::MissingHeartbeatError => {
            Error::unavailable("the broker was silent for too long").with_reason("broker_silent")
        }
        Kind::IOError(error) => Error::unavailable(format!("the connection failed: {error}"))
            .with_reason("disconnected"),
        Kind::ChannelsLimitReached => Error::new(
            ErrorKind::Overloaded,
            "the broker allows no more channels on this connection (channel_max)",
        )
        .with_reason("limit_channel_max"),
        Kind::AuthProviderError(_) => {
            Error::new(ErrorKind::PermissionDenied, "the broker refused the user")
                .with_reason("broker_refused")
        }
        _ => Error::unavailable("the connection to the broker ended").with_reason("disconnected"),
    }
}
