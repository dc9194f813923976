//! Why a request was not let in.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header::WWW_AUTHENTICATE},
    response::{IntoResponse, Response},
};
use sless_api::ErrorBody;

/// Why a request was not let in. No text of it repeats any part of the token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// No `Authorization` field.
    #[error("no token: expected `Authorization: Bearer <JWT>`")]
    Missing,
    /// The `Authorization` field is not one bearer token.
    #[error("the Authorization field is not one bearer token: {0}")]
    Request(&'static str),
    /// Longer than the limit.
    #[error("the token is longer than the limit token_bytes of {0} bytes")]
    TooLarge(usize),
    /// Not a JWT in compact form.
    #[error("the token is not a signed JWT in compact form: {0}")]
    Malformed(&'static str),
    /// An algorithm that the mode or the key does not have.
    #[error("the token's algorithm is not accepted: expected {0}")]
    Algorithm(&'static str),
    /// No such key.
    #[error("the token's key is not known: {0}")]
    UnknownKey(&'static str),
    /// The signature does not fit.
    #[error("the token's signature does not fit")]
    Signature,
    /// A claim is missing, or is not what it must be.
    #[error("the token's claim {claim} {problem}")]
    Claim {
        /// The claim.
        claim: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Its time is over.
    #[error("the token has expired")]
    Expired,
    /// Its time has not come.
    #[error("the token is not valid yet")]
    NotYetValid,
    /// The token is right, and the namespace is another's.
    #[error("the token does not open this namespace")]
    OtherNamespace,
    /// The keys could not be fetched, and none are cached.
    #[error("the keys that check tokens cannot be fetched now")]
    KeysUnavailable,
}

impl AuthError {
    /// The machine word.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Missing => "token_missing",
            Self::Request(_) => "token_request",
            Self::TooLarge(_) => "token_too_large",
            Self::Malformed(_) => "token_malformed",
            Self::Algorithm(_) => "token_algorithm",
            Self::UnknownKey(_) => "token_unknown_key",
            Self::Signature => "token_signature",
            Self::Claim { .. } => "token_claim",
            Self::Expired => "token_expired",
            Self::NotYetValid => "token_not_yet_valid",
            Self::OtherNamespace => "namespace_denied",
            Self::KeysUnavailable => "token_keys_unavailable",
        }
    }

    /// The HTTP status.
    pub const fn status(&self) -> StatusCode {
        match self {
            Self::OtherNamespace => StatusCode::FORBIDDEN,
            Self::KeysUnavailable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::UNAUTHORIZED,
        }
    }

    /// The challenge of RFC 6750, section 3. A request without a token gets no error in it.
    fn challenge(&self) -> Option<String> {
        let error = match self {
            Self::KeysUnavailable => return None,
            Self::Missing => return Some("Bearer realm=\"sless\"".to_owned()),
            Self::Request(_) => "invalid_request",
            Self::OtherNamespace => "insufficient_scope",
            _ => "invalid_token",
        };
        let description = self.to_string().replace(['"', '\\'], "'");
        Some(format!(
            "Bearer realm=\"sless\", error=\"{error}\", error_description=\"{description}\""
        ))
    }
}

impl IntoResponse for AuthError {
    fn into_response(self) -> Response {
        let body = Json(ErrorBody::new(self.code(), self.to_string()));
        let mut response = (self.status(), body).into_response();
        let headers = response.headers_mut();
        if let Some(challenge) = self.challenge()
            && let Ok(value) = HeaderValue::try_from(challenge)
        {
            headers.insert(WWW_AUTHENTICATE, value);
        }
        if matches!(self, Self::KeysUnavailable) {
            headers.insert("retry-after", HeaderValue::from_static("5"));
        }
        response
    }
}
