//! Why a request was refused, and how that is shown.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use sless_core::ErrorKind;

use crate::Refusal;

/// Why a request was refused. As a response it is a status; the frame around all routes makes a page,
/// a fragment or plain text of it.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    pub(crate) code: String,
    /// A sentence for the one who asked; empty where the language's own says it all.
    pub(crate) message: String,
    /// Whether signing in may help.
    pub(crate) sign_in: bool,
}

impl Failure {
    pub(crate) fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        Self {
            status,
            code: code.to_owned(),
            message: message.into(),
            sign_in: false,
        }
    }

    pub(crate) fn bad_request(code: &str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    pub(crate) fn missing() -> Self {
        Self::new(StatusCode::NOT_FOUND, "no_such_route", "nothing is here")
    }

    /// Nobody is signed in.
    pub(crate) fn nobody() -> Self {
        Self {
            sign_in: true,
            ..Self::new(StatusCode::UNAUTHORIZED, "session_missing", "sign in first")
        }
    }

    /// Somebody is signed in for whom this is not.
    pub(crate) fn other_namespace() -> Self {
        Self {
            sign_in: true,
            ..Self::new(
                StatusCode::FORBIDDEN,
                "namespace_denied",
                "the session does not open this namespace",
            )
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self {
            sign_in: true,
            ..Self::new(refusal.status, refusal.code, refusal.message)
        }
    }
}

impl From<sless_core::Error> for Failure {
    fn from(error: sless_core::Error) -> Self {
        let status = error.kind().status();
        if status.is_server_error() && error.kind() != ErrorKind::Unsupported {
            tracing::warn!(status = status.as_u16(), error = %error.chain(), "request failed");
        }
        let message = match error.kind() {
            ErrorKind::Internal | ErrorKind::Corrupt => {
                "the server failed; its log says why".to_owned()
            }
            _ if error.subject().is_empty() => error.message().to_owned(),
            _ => format!("{}: {}", error.subject(), error.message()),
        };
        Self::new(status, error.reason(), message)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}
