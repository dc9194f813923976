//! What can go wrong here, and the one place where it becomes an [`Error`].

use std::time::Duration;

use kube::core::{Status, response::reason};
use sless_core::{Error, ErrorKind, Retry};

/// The name of this backend in errors.
pub(crate) const BACKEND: &str = "kubernetes";

/// What can go wrong between here and an API server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The API server refused something, or could not be reached.
    #[error("the request to Kubernetes failed")]
    Kube(#[from] kube::Error),
    /// No answer came within a named limit.
    #[error("no answer from Kubernetes within {limit} of {}", wait.as_secs_f32())]
    Timeout { limit: &'static str, wait: Duration },
    /// The settings or the kubeconfig do not lead to a cluster.
    #[error("{what} cannot be used")]
    Settings {
        what: String,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// What the API server keeps cannot be read as what it should be.
    #[error("a stored {what} cannot be read")]
    Unreadable {
        what: &'static str,
        source: serde_json::Error,
    },
    /// A rule of a trait, already in the words of its contract.
    #[error(transparent)]
    Rule(#[from] Error),
}

impl Fault {
    /// What the API server said, where it is one that spoke.
    pub(crate) fn status(&self) -> Option<&Status> {
        match self {
            Self::Kube(kube::Error::Api(status)) => Some(status),
            _ => None,
        }
    }

    /// Whether the API server says that the object is not there.
    pub(crate) fn is_not_found(&self) -> bool {
        self.status()
            .is_some_and(|status| status.code == 404 && status.reason == reason::NOT_FOUND)
    }

    /// Whether the API server says that the object exists already.
    pub(crate) fn is_already_exists(&self) -> bool {
        self.status().is_some_and(Status::is_already_exists)
    }

    /// Whether the API server says that the version or the uid is not the one that was named.
    pub(crate) fn is_conflict(&self) -> bool {
        self.status()
            .is_some_and(|status| status.code == 409 && status.reason == reason::CONFLICT)
    }

    /// Whether the API server says that a version is too old to continue from.
    pub(crate) fn is_expired(&self) -> bool {
        self.status().is_some_and(|status| status.code == 410)
    }

    fn to_error(&self) -> Error {
        match self {
            Self::Kube(kube::Error::Api(status)) => refused(status),
            Self::Kube(error) => unreached(error),
            Self::Timeout { limit, wait } => Error::new(
                ErrorKind::Timeout,
                format!(
                    "no answer from Kubernetes within {limit} of {} ms",
                    wait.as_millis()
                ),
            )
            .with_reason(format!("limit_{limit}")),
            Self::Settings { what, .. } => {
                Error::invalid(format!("{what} cannot be used")).with_reason("kubernetes_settings")
            }
            Self::Unreadable { what, .. } => Error::new(
                ErrorKind::Corrupt,
                format!("a stored {what} is not what this version of sless writes"),
            )
            .with_reason("object_unreadable"),
            Self::Rule(error) => Error::new(error.kind(), error.message().to_owned())
                .with_reason(error.reason().to_owned())
                .with_retry(error.retry()),
        }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Rule(error) => error.at(BACKEND),
            other => other.to_error().at(BACKEND).with_source(other),
        }
    }
}

/// The API server answered with a status of failure.
fn refused(status: &Status) -> Error {
    let said = shown(&status.message);
    match status.code {
        401 => Error::new(
            ErrorKind::Unauthenticated,
            "Kubernetes does not know who asks",
        ),
        403 if has_cause(status, "NamespaceTerminating") => {
            Error::unavailable("the namespace is being deleted by somebody else")
                .with_reason("namespace_terminating")
        }
        403 if status.message.contains("exceeded quota") => {
            Error::new(ErrorKind::LimitExceeded, said).with_reason("quota")
        }
        403 => Error::new(ErrorKind::PermissionDenied, said),
        404 if status.reason == reason::NOT_FOUND => Error::not_found(said),
        // No object, but the whole kind is not there.
        404 => {
            Error::unavailable("the custom resources of sless are not installed in this cluster")
                .with_reason("crds_missing")
        }
        409 if status.reason == reason::ALREADY_EXISTS => {
            Error::new(ErrorKind::AlreadyExists, said)
        }
        409 => Error::conflict(said),
        410 => Error::new(ErrorKind::Expired, said),
        413 => Error::new(ErrorKind::LimitExceeded, said).with_reason("limit_request_bytes"),
        400 | 422 => Error::invalid(said),
        429 => Error::new(ErrorKind::Overloaded, "Kubernetes is overloaded")
            .with_retry(retry_after(status)),
        504 => Error::new(ErrorKind::Timeout, said),
        // An API server that loses etcd, or is on its way down, says 500 as well as 503.
        500.. => Error::unavailable(said).with_reason("kubernetes_unavailable"),
        _ => Error::internal(said),
    }
}

/// There is no answer of the API server, or none that is understood.
fn unreached(error: &kube::Error) -> Error {
    match error {
        kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => Error::new(
            ErrorKind::Corrupt,
            "the answer of Kubernetes cannot be read",
        ),
        kube::Error::ReadEvents(_) | kube::Error::HyperError(_) => Error::new(
            ErrorKind::Interrupted,
            "Kubernetes broke off in the middle of an answer",
        ),
        kube::Error::Service(_) => {
            Error::unavailable("Kubernetes cannot be reached").with_reason("kubernetes_unavailable")
        }
        kube::Error::Auth(_) => Error::new(
            ErrorKind::Unauthenticated,
            "the credentials for Kubernetes cannot be had",
        ),
        kube::Error::InferConfig(_)
        | kube::Error::InferKubeconfig(_)
        | kube::Error::ProxyProtocolUnsupported { .. }
        | kube::Error::ProxyProtocolDisabled { .. }
        | kube::Error::TlsRequired
        | kube::Error::RustlsTls(_) => {
            Error::invalid("the settings of the connection to Kubernetes cannot be used")
                .with_reason("kubernetes_settings")
        }
        _ => Error::internal("a request to Kubernetes could not be made"),
    }
}

/// The longest message of an API server that is passed on, in characters. It repeats what was sent.
const MESSAGE_CHARS: usize = 1000;

fn shown(message: &str) -> String {
    if message.is_empty() {
        return "Kubernetes refused the request".to_owned();
    }
    message.chars().take(MESSAGE_CHARS).collect()
}

fn has_cause(status: &Status, cause: &str) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|found| found.reason == cause)
}

fn retry_after(status: &Status) -> Retry {
    let seconds = status
        .details
        .as_ref()
        .map_or(0, |details| details.retry_after_seconds);
    if seconds == 0 {
        Retry::Transient
    } else {
        Retry::After(Duration::from_secs(seconds.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: u16, reason: &str, message: &str) -> Error {
        let mut status = Status::failure(message, reason);
        status.code = code;
        Fault::Kube(kube::Error::Api(status.boxed())).into()
    }

    #[test]
    fn statuses_become_kinds_that_callers_branch_on() {
        for (code, said, message, kind, reason) in [
            (
                401,
                "Unauthorized",
                "",
                ErrorKind::Unauthenticated,
                "unauthenticated",
            ),
            (
                403,
                "Forbidden",
                "user x cannot get y",
                ErrorKind::PermissionDenied,
                "permission_denied",
            ),
            (
                403,
                "Forbidden",
                "pods \"a\" is forbidden: exceeded quota: q",
                ErrorKind::LimitExceeded,
                "quota",
            ),
            (404, "NotFound", "", ErrorKind::NotFound, "not_found"),
            (
                404,
                "",
                "404 page not found",
                ErrorKind::Unavailable,
                "crds_missing",
            ),
            (
                409,
                "AlreadyExists",
                "",
                ErrorKind::AlreadyExists,
                "already_exists",
            ),
            (409, "Conflict", "", ErrorKind::Conflict, "conflict"),
            (410, "Expired", "", ErrorKind::Expired, "expired"),
            (
                413,
                "RequestEntityTooLarge",
                "",
                ErrorKind::LimitExceeded,
                "limit_request_bytes",
            ),
            (422, "Invalid", "spec.x: no", ErrorKind::Invalid, "invalid"),
            (
                429,
                "TooManyRequests",
                "",
                ErrorKind::Overloaded,
                "overloaded",
            ),
            (
                500,
                "InternalError",
                "",
                ErrorKind::Unavailable,
                "kubernetes_unavailable",
            ),
            (
                503,
                "ServiceUnavailable",
                "",
                ErrorKind::Unavailable,
                "kubernetes_unavailable",
            ),
            (504, "Timeout", "", ErrorKind::Timeout, "timeout"),
        ] {
            let error = of(code, said, message);
            assert_eq!(
                (error.kind(), error.reason()),
                (kind, reason),
                "code {code}"
            );
            assert_eq!(error.backend(), BACKEND);
        }
    }

    #[test]
    fn a_rule_keeps_its_words() {
        let rule = Error::limit("event_bytes", 10, "bytes");
        let error = Error::from(Fault::from(rule));
        assert_eq!(error.reason(), "limit_event_bytes");
        assert_eq!(error.backend(), BACKEND);
    }
}
