//! The token check in front of the routes.

use axum::{
    extract::{FromRequestParts, RawPathParams, Request, State},
    http::{HeaderMap, header::AUTHORIZATION, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use jiff::Timestamp;

use super::{AuthError, Principal, SharedAuthenticator};

/// Middleware that lets in a request with a token that opens the namespace in its path, the
/// parameter `ns`. What is behind it finds the [`Principal`] as an extractor.
///
/// To be put on routes with [`Router::route_layer`](axum::Router::route_layer), so that it sees the
/// parameters of the path.
pub async fn guard(
    State(authenticator): State<SharedAuthenticator>,
    parameters: RawPathParams,
    mut request: Request,
    next: Next,
) -> Response {
    let token = match bearer(request.headers()) {
        Ok(token) => token,
        Err(error) => return refused(error),
    };
    let principal = match authenticator.authenticate(token, Timestamp::now()).await {
        Ok(principal) => principal,
        Err(error) => return refused(error),
    };
    for (name, value) in &parameters {
        if name == "ns"
            && let Err(error) = principal.may_open(value)
        {
            return refused(error);
        }
    }
    request.extensions_mut().insert(principal);
    next.run(request).await
}

fn refused(error: AuthError) -> Response {
    tracing::debug!(code = error.code(), "request refused");
    error.into_response()
}

/// The token of exactly one `Authorization: Bearer` field.
pub(super) fn bearer(headers: &HeaderMap) -> Result<&str, AuthError> {
    let mut fields = headers.get_all(AUTHORIZATION).iter();
    let field = fields.next().ok_or(AuthError::Missing)?;
    if fields.next().is_some() {
        return Err(AuthError::Request("it is there more than once"));
    }
    let text = field
        .to_str()
        .map_err(|_| AuthError::Request("it is not ASCII"))?;
    let (scheme, token) = text
        .split_once(' ')
        .ok_or(AuthError::Request("expected `Bearer <JWT>`"))?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(AuthError::Request("its scheme is not Bearer"));
    }
    Ok(token.trim_matches(' '))
}

impl<S: Sync> FromRequestParts<S> for Principal {
    type Rejection = AuthError;

    /// What the [`guard`] found. A route without a guard gets nobody in.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, AuthError> {
        parts
            .extensions
            .get::<Self>()
            .cloned()
            .ok_or(AuthError::Missing)
    }
}
