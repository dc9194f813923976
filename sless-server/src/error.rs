//! From errors to answers: the one place where a kind becomes a status.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
};
use sless_api::{DecodeError, ErrorBody};
use sless_core::{ErrorKind, Retry};

/// An answer that says no: a status, a machine word, and a sentence for the client.
///
/// What is for the log only, such as the cause, is logged when the answer is made and is not in it.
#[derive(Debug)]
pub struct ApiError {
    status: StatusCode,
    body: ErrorBody,
    retry: Retry,
}

impl ApiError {
    /// An error of this status, word and sentence.
    pub fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        Self {
            status,
            body: ErrorBody::new(code, message),
            retry: Retry::Never,
        }
    }

    /// A 400 whose sentence names what was given and what was expected.
    pub fn bad_request(code: &str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// A 404 for a path that leads nowhere.
    pub fn no_route(path: &str) -> Self {
        let path: String = path.chars().take(200).collect();
        Self::new(
            StatusCode::NOT_FOUND,
            "no_such_route",
            format!("nothing is at {path}"),
        )
    }

    /// A 501 that says what this server is not set up for.
    pub fn not_configured(what: &str) -> Self {
        let message = format!("{what} is not configured on this server");
        Self::new(StatusCode::NOT_IMPLEMENTED, "not_configured", message)
    }

    /// The status.
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// The sentence.
    pub fn message(&self) -> &str {
        &self.body.error
    }

    /// The machine word.
    pub fn code(&self) -> &str {
        &self.body.code
    }
}

impl From<sless_core::Error> for ApiError {
    fn from(error: sless_core::Error) -> Self {
        let status = error.kind().status();
        if status.is_server_error() && error.kind() != ErrorKind::Unsupported {
            tracing::warn!(status = status.as_u16(), error = %error.chain(), "request failed");
        } else {
            tracing::debug!(status = status.as_u16(), error = %error.chain(), "request refused");
        }
        // A defect's message is about us, and may tell more than a client should know.
        let message = match error.kind() {
            ErrorKind::Internal | ErrorKind::Corrupt => {
                "the server failed; its log says why".to_owned()
            }
            _ if error.subject().is_empty() => error.message().to_owned(),
            _ => format!("{}: {}", error.subject(), error.message()),
        };
        Self {
            status,
            body: ErrorBody::new(error.reason(), message),
            retry: error.retry(),
        }
    }
}

impl From<DecodeError> for ApiError {
    fn from(error: DecodeError) -> Self {
        Self::bad_request(error.kind().as_str(), error.to_string())
    }
}

impl From<sless_source::wire::FieldError> for ApiError {
    fn from(error: sless_source::wire::FieldError) -> Self {
        Self::bad_request("field_invalid", error.message())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body)).into_response();
        let later = matches!(
            self.status,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
        );
        let seconds = match self.retry {
            Retry::After(delay) => Some(delay.as_secs_f64().ceil().max(1.0) as u64),
            Retry::Transient if later => Some(1),
            _ => None,
        };
        if let Some(seconds) = seconds {
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
