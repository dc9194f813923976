//! What is done around every route.

use std::{borrow::Cow, time::Instant};

use axum::{
    extract::{MatchedPath, Request, State},
    http::StatusCode,
    middleware::Next,
    response::{IntoResponse, Response},
};
use tracing::Instrument;

use crate::{error::ApiError, metrics::Metrics, state::AppState};

/// Counts a request, and puts its log lines under one span.
pub(super) async fn measure(
    State(state): State<AppState>,
    request: Request,
    next: Next,
) -> Response {
    let route = request.extensions().get::<MatchedPath>();
    let route = match route {
        Some(route) => Cow::Owned(route.as_str().to_owned()),
        None => Cow::Borrowed("none"),
    };
    measured(&state.metrics, route, request, |request| next.run(request)).await
}

/// Answers a request of this route, counted and under a span of its own.
pub(super) async fn measured<F>(
    metrics: &Metrics,
    route: Cow<'static, str>,
    request: Request,
    answer: impl FnOnce(Request) -> F,
) -> Response
where
    F: Future<Output = Response>,
{
    // A method may be any word; what is counted must not be.
    let method = match request.method().as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    };
    let span = tracing::info_span!("request", method, path = request.uri().path());
    #[cfg(feature = "otel")]
    crate::telemetry::follow_trace(&span, request.headers());
    let began = Instant::now();
    let response = answer(request).instrument(span.clone()).await;
    let took = began.elapsed();
    let status = response.status().as_u16();
    metrics.request(route, method, status, took);
    span.in_scope(|| tracing::debug!(status, milliseconds = took.as_millis(), "answered"));
    response
}

/// Gives up on a request that takes longer than
/// [`Limits::request_timeout`](crate::settings::Limits::request_timeout).
pub(super) async fn time_limit(
    State(state): State<AppState>,
    request: Request,
    next: Next,
) -> Response {
    let limit = state.limits.request_timeout;
    match tokio::time::timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) => took_too_long("request_timeout", limit).into_response(),
    }
}

pub(super) fn took_too_long(name: &str, limit: std::time::Duration) -> ApiError {
    let message = format!("limit {name} of {} ms exceeded", limit.as_millis());
    ApiError::new(StatusCode::GATEWAY_TIMEOUT, "timeout", message)
}
