//! Operations: health, readiness, metrics, the OpenAPI document.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use axum::{
    Json, Router,
    body::Bytes,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
};
use serde::Serialize;
use utoipa::openapi::{
    InfoBuilder, OpenApi,
    security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
};

use crate::{metrics, state::AppState};

/// The OpenAPI document as it is sent, made once.
#[derive(Clone, Debug)]
pub(super) struct Document(Bytes);

impl Document {
    pub(super) fn new(document: &OpenApi) -> Self {
        // Writing a document to memory cannot fail; an empty one would be seen by every test.
        Self(document.to_json().unwrap_or_default().into())
    }
}

/// Adds what is true of the whole document.
pub(super) fn complete(document: &mut OpenApi) {
    document.info = InfoBuilder::new()
        .title("sless")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Serverless functions. Functions themselves are called at /fn/{namespace}/{name} and \
             below, with any method and without a token.",
        ))
        .build();
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .bearer_format("JWT")
        .build();
    document
        .components
        .get_or_insert_default()
        .add_security_scheme("token", SecurityScheme::Http(bearer));
    document.security = Some(vec![SecurityRequirement::new(
        "token",
        Vec::<String>::new(),
    )]);
}

/// The answer of `/readyz`.
#[derive(Debug, Serialize)]
struct Readiness {
    ready: bool,
    parts: BTreeMap<&'static str, Cow<'static, str>>,
    /// What parts tell beyond whether they work.
    #[serde(flatten)]
    details: BTreeMap<&'static str, serde_json::Value>,
}

pub(super) fn router(document: Document) -> Router<AppState> {
    let document = Arc::new(document);
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(show_metrics))
        .route(
            "/openapi.json",
            get(move || async move { ([(CONTENT_TYPE, "application/json")], document.0.clone()) }),
        )
}

async fn ready(State(state): State<AppState>) -> Response {
    let health = state.sless.health();
    let word = |well: bool, otherwise| Cow::Borrowed(if well { "ok" } else { otherwise });
    let mut parts = BTreeMap::from([
        ("catalog", word(health.catalog, "not read yet, or lost")),
        ("engine", word(health.accepting, "shutting down")),
        ("server", word(!state.is_draining(), "draining")),
    ]);
    let mut ready = health.is_ready() && !state.is_draining();
    for part in state.parts.iter() {
        let found = part.state();
        ready &= found.is_ok() || !part.is_vital();
        let told = found.map_or_else(Cow::Owned, |()| Cow::Borrowed("ok"));
        parts.insert(part.name(), told);
    }
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let details = state.parts.iter().filter_map(|part| part.detail());
    let readiness = Readiness {
        ready,
        parts,
        details: details.collect(),
    };
    (status, Json(readiness)).into_response()
}

async fn show_metrics(State(state): State<AppState>) -> Response {
    match state.metrics.encode(&state.sless.stats()) {
        Ok(text) => ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
