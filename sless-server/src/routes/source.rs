//! The source of a function, as it was uploaded.

use axum::{
    Json,
    body::Body,
    extract::State,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use sless_api::{ErrorBody, SourceFile};
use sless_core::Error;

use crate::{error::ApiError, extract::Named, state::AppState};

/// The files of a function's code, with their contents.
#[utoipa::path(
    get,
    path = "/v1/namespaces/{ns}/functions/{name}/source",
    tag = "functions",
    params(
        ("ns" = String, Path, description = "The namespace"),
        ("name" = String, Path, description = "The function"),
    ),
    responses(
        (status = 200, body = Vec<SourceFile>),
        (status = 404, description = "Nothing was uploaded yet", body = ErrorBody),
        (status = 413, description = "Too large to be shown", body = ErrorBody),
    ),
)]
pub(super) async fn files(
    State(state): State<AppState>,
    named: Named,
) -> Result<Json<Vec<SourceFile>>, ApiError> {
    let tree = state.sless.source(&named.namespace, &named.name).await?;
    let limit = state.limits.source_view_bytes;
    if tree.total_bytes() > limit as u64 {
        let error = Error::limit("source_view_bytes", limit, "bytes");
        return Err(error
            .on(format_args!("{}/{}", named.namespace, named.name))
            .into());
    }
    let read = tokio::task::spawn_blocking(move || -> sless_core::Result<_> {
        let mut files = Vec::with_capacity(tree.files().len());
        for file in tree.files() {
            let (content, binary) = match String::from_utf8(tree.read(&file.path)?.into()) {
                Ok(text) => (text, false),
                Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), true),
            };
            files.push(SourceFile {
                name: file.path.clone(),
                content,
                binary,
            });
        }
        Ok(files)
    });
    let files = read
        .await
        .map_err(|cause| Error::internal("reading broke off").with_source(cause))?;
    Ok(Json(files?))
}

/// The zip that was uploaded.
#[utoipa::path(
    get,
    path = "/v1/namespaces/{ns}/functions/{name}/source.zip",
    tag = "functions",
    params(
        ("ns" = String, Path, description = "The namespace"),
        ("name" = String, Path, description = "The function"),
    ),
    responses(
        (status = 200, description = "The zip", content_type = "application/zip", body = Vec<u8>),
        (status = 404, description = "Nothing was uploaded yet", body = ErrorBody),
    ),
)]
pub(super) async fn zip(State(state): State<AppState>, named: Named) -> Result<Response, ApiError> {
    let zip = state
        .sless
        .source_zip(&named.namespace, &named.name)
        .await?;
    let mut response = Body::from_stream(zip).into_response();
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/zip"),
    );
    // A name is a DNS label, so it needs no quoting.
    if let Ok(name) = HeaderValue::try_from(format!("attachment; filename=\"{}.zip\"", named.name))
    {
        headers.insert(header::CONTENT_DISPOSITION, name);
    }
    Ok(response)
}
