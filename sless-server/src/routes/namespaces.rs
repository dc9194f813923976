//! Namespaces.

use axum::{Json, extract::State, http::StatusCode};
use sless_api::{EnsuredStatus, ErrorBody};
use sless_core::Ensured;

use crate::{error::ApiError, extract::Scope, state::AppState};

/// Makes the namespace if it is not there. Nothing else makes one, and nothing removes one.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{ns}/ensure",
    tag = "namespaces",
    params(("ns" = String, Path, description = "The namespace")),
    responses(
        (status = 201, description = "It was made", body = sless_api::Ensured),
        (status = 200, description = "It was there", body = sless_api::Ensured),
        (status = 400, description = "The name is no DNS label", body = ErrorBody),
    ),
)]
pub(super) async fn ensure(
    State(state): State<AppState>,
    Scope(namespace): Scope,
) -> Result<(StatusCode, Json<sless_api::Ensured>), ApiError> {
    let (status, word) = match state.sless.ensure_namespace(&namespace).await? {
        Ensured::Created => (StatusCode::CREATED, EnsuredStatus::Created),
        Ensured::Exists => (StatusCode::OK, EnsuredStatus::Exists),
    };
    let namespace = namespace.to_string();
    Ok((
        status,
        Json(sless_api::Ensured {
            namespace,
            status: word,
        }),
    ))
}
