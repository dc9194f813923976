//! What handlers take out of a request, each with an error that names what is wrong.

use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, RawPathParams, Request},
    http::{StatusCode, request::Parts},
};
use serde::de::DeserializeOwned;
use sless_core::{Name, Namespace};

use crate::{error::ApiError, state::AppState};

/// The namespace in the path, the parameter `ns`.
#[derive(Clone, Debug)]
pub struct Scope(pub Namespace);

/// The namespace and the name in the path, the parameters `ns` and `name`.
#[derive(Clone, Debug)]
pub struct Named {
    /// The namespace.
    pub namespace: Namespace,
    /// The name of the resource.
    pub name: Name,
}

async fn parameter<S: Send + Sync>(
    parts: &mut Parts,
    state: &S,
    wanted: &str,
) -> Result<String, ApiError> {
    let parameters = RawPathParams::from_request_parts(parts, state)
        .await
        .map_err(|error| {
            ApiError::bad_request("path_invalid", format!("the path cannot be read: {error}"))
        })?;
    let found = parameters.iter().find(|(name, _)| *name == wanted);
    found
        .map(|(_, value)| value.to_owned())
        .ok_or_else(|| ApiError::no_route(parts.uri.path()))
}

impl<S: Send + Sync> FromRequestParts<S> for Scope {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        Ok(Self(Namespace::new(parameter(parts, state, "ns").await?)?))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Scope(namespace) = Scope::from_request_parts(parts, state).await?;
        let name = Name::new(parameter(parts, state, "name").await?)?;
        Ok(Self { namespace, name })
    }
}

/// A JSON body, at most [`Limits::json_bytes`](crate::settings::Limits::json_bytes) long.
///
/// The content type is not looked at: what is not JSON says so.
#[derive(Clone, Debug)]
pub struct JsonBody<T>(pub T);

impl<T: DeserializeOwned> FromRequest<AppState> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ApiError> {
        let limit = state.limits.json_bytes;
        let body = whole(request, "json_bytes", limit).await?;
        Ok(Self(object(&body)?))
    }
}

/// Reads a JSON object. The derived readers would take an array for one, its items for the fields.
fn object<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    if body.trim_ascii_start().first() == Some(&b'[') {
        return Err(ApiError::bad_request(
            "invalid_json",
            "the body is a list: expected an object",
        ));
    }
    Ok(sless_api::from_json(body)?)
}

/// A JSON body that may be empty, which is then the default.
#[derive(Clone, Debug)]
pub struct OptionalJson<T>(pub T);

impl<T: DeserializeOwned + Default> FromRequest<AppState> for OptionalJson<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ApiError> {
        let body = whole(request, "json_bytes", state.limits.json_bytes).await?;
        if body.is_empty() {
            return Ok(Self(T::default()));
        }
        Ok(Self(object(&body)?))
    }
}

/// The whole body of a request, at most this long.
pub(crate) async fn whole(request: Request, name: &str, limit: usize) -> Result<Bytes, ApiError> {
    let body = sless_core::Body::wrap(request.into_body());
    let read = body.bytes(limit).await;
    read.map_err(|error| match error.kind() {
        sless_core::ErrorKind::LimitExceeded => {
            sless_core::Error::limit(name, limit, "bytes").into()
        }
        _ => ApiError::bad_request("body_interrupted", "the request's body broke off"),
    })
}

/// The query of a request; an unknown parameter is refused by name.
#[derive(Clone, Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        match axum::extract::Query::<T>::try_from_uri(&parts.uri) {
            Ok(axum::extract::Query(query)) => Ok(Self(query)),
            Err(error) => Err(ApiError::new(
                StatusCode::BAD_REQUEST,
                "query_invalid",
                error.body_text(),
            )),
        }
    }
}

/// How many items a page may have: what was asked for, checked, or the server's choice.
pub(crate) fn page_limit(asked: Option<u32>, state: &AppState) -> Result<usize, ApiError> {
    const DEFAULT: usize = 100;
    let most = state.limits.page_items;
    match asked.map(|limit| limit as usize) {
        None => Ok(DEFAULT.min(most)),
        Some(limit) if (1..=most).contains(&limit) => Ok(limit),
        Some(limit) => Err(ApiError::bad_request(
            "limit_page_items",
            format!("limit is {limit}: expected 1 to page_items, {most}"),
        )),
    }
}
