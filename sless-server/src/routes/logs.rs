//! Logs of builds and runs.

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Response},
};
use futures::StreamExt;
use sless_api::{ErrorBody, LogQuery};
use sless_core::LogStream;

use crate::{
    convert::{log_line, log_options, log_text},
    error::ApiError,
    extract::{Named, Query},
    state::AppState,
};

/// The build and run logs of a function: plain text, or with `Accept: application/x-ndjson` one JSON
/// object per line. With `follow` it goes on until the client leaves.
#[utoipa::path(
    get,
    path = "/v1/namespaces/{ns}/functions/{name}/logs",
    tag = "functions",
    params(
        ("ns" = String, Path, description = "The namespace"),
        ("name" = String, Path, description = "The function"),
        LogQuery,
    ),
    responses(
        (status = 200, content(
            (String = "text/plain"),
            (sless_api::LogLine = "application/x-ndjson"),
        )),
        (status = 404, description = "The function is not there", body = ErrorBody),
    ),
)]
pub(super) async fn read(
    State(state): State<AppState>,
    named: Named,
    Query(query): Query<LogQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let options = log_options(&query);
    let lines = state
        .sless
        .logs(&named.namespace, &named.name, &options)
        .await?;
    Ok(answer(lines, &headers))
}

/// Lines as they come, in the form that the client accepts.
pub(super) fn answer(lines: LogStream, headers: &HeaderMap) -> Response {
    let json = headers.get_all(header::ACCEPT).iter().any(|accept| {
        accept
            .to_str()
            .is_ok_and(|accept| accept.contains("application/x-ndjson"))
    });
    // An error ends the stream in the middle, which the client sees as an answer that is cut.
    let pieces = lines.map(move |line| -> sless_core::Result<Bytes> {
        let line =
            line.inspect_err(|error| tracing::warn!(error = %error.chain(), "a log broke off"))?;
        let text = if json {
            let mut text = serde_json::to_string(&log_line(line)).map_err(|cause| {
                sless_core::Error::internal("a log line cannot be written").with_source(cause)
            })?;
            text.push('\n');
            text
        } else {
            log_text(&line)
        };
        Ok(Bytes::from(text))
    });
    let kind = if json {
        "application/x-ndjson"
    } else {
        "text/plain; charset=utf-8"
    };
    let mut response = Body::from_stream(pieces).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    // Proxies in between that would rather collect are asked not to.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
