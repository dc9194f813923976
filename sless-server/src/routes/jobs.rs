//! Jobs.

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use sless_api::{CreateJob, ErrorBody, ListQuery, LogQuery, Page, PatchJob, Receipt};
use sless_core::{CatalogExt, FunctionJob, Kind, Metadata, Name};

use crate::{
    convert::{job_spec, job_view, log_options, patch_job},
    error::ApiError,
    extract::{JsonBody, Named, Query, Scope, page_limit},
    state::AppState,
};

/// One page of the jobs of a namespace, in the order of their names.
#[utoipa::path(
    get,
    path = "/v1/namespaces/{ns}/jobs",
    tag = "jobs",
    params(("ns" = String, Path, description = "The namespace"), ListQuery),
    responses((status = 200, body = Page<sless_api::Job>)),
)]
pub(super) async fn list(
    State(state): State<AppState>,
    Scope(namespace): Scope,
    Query(query): Query<ListQuery>,
) -> Result<Json<Page<sless_api::Job>>, ApiError> {
    let query = sless_core::ListQuery::all(Kind::FunctionJob)
        .in_namespace(namespace)
        .with_limit(page_limit(query.limit, &state)?)
        .from_cursor(query.cursor);
    let page = state.sless.backends().catalog.list(&query).await?;
    let mut items = Vec::with_capacity(page.items.len());
    for object in page.items {
        items.push(job_view(FunctionJob::try_from(object)?));
    }
    Ok(Json(Page {
        items,
        next: page.next,
    }))
}

/// Creates a job. It runs where its run id is above 0.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{ns}/jobs",
    tag = "jobs",
    params(("ns" = String, Path, description = "The namespace")),
    request_body = CreateJob,
    responses(
        (status = 201, body = sless_api::Job),
        (status = 400, description = "A field is wrong; it is named", body = ErrorBody),
        (status = 404, description = "The namespace is not there", body = ErrorBody),
        (status = 409, description = "The name is taken", body = ErrorBody),
    ),
)]
pub(super) async fn create(
    State(state): State<AppState>,
    Scope(namespace): Scope,
    JsonBody(request): JsonBody<CreateJob>,
) -> Result<(StatusCode, Json<sless_api::Job>), ApiError> {
    let name = Name::new(&request.name)?;
    let job = FunctionJob::new(Metadata::new(namespace, name), job_spec(request)?);
    let created = state.sless.backends().catalog.add(job).await?;
    Ok((StatusCode::CREATED, Json(job_view(created))))
}

/// One job.
#[utoipa::path(
    get,
    path = "/v1/namespaces/{ns}/jobs/{name}",
    tag = "jobs",
    params(
        ("ns" = String, Path, description = "The namespace"),
        ("name" = String, Path, description = "The job"),
    ),
    responses(
        (status = 200, body = sless_api::Job),
        (status = 404, description = "It is not there", body = ErrorBody),
    ),
)]
pub(super) async fn read(
    State(state): State<AppState>,
    named: Named,
) -> Result<Json<sless_api::Job>, ApiError> {
    let catalog = &state.sless.backends().catalog;
    Ok(Json(job_view(
        catalog.read(&named.namespace, &named.name).await?,
    )))
}

/// Changes a job. A higher run id runs it again.
#[utoipa::path(
    patch,
    path = "/v1/namespaces/{ns}/jobs/{name}",
    tag = "jobs",
    params(
        ("ns" = String, Path, description = "The namespace"),
        ("name" = String, Path, description = "The job"),
    ),
    request_body = PatchJob,
    responses(
        (status = 200, body = sless_api::Job),
        (status = 400, description = "A field is wrong; it is named", body = ErrorBody),
        (status = 404, description = "It is not there", body = ErrorBody),
        (status = 409, description = "Others change it all the time", body = ErrorBody),
    ),
)]
pub(super) async fn patch(
    State(state): State<AppState>,
    named: Named,
    JsonBody(request): JsonBody<PatchJob>,
) -> Result<Json<sless_api::Job>, ApiError> {
    let change = |job: &mut FunctionJob| {
        patch_job(&request, &mut job.spec);
        Ok(())
    };
    Ok(Json(job_view(super::modify(&state, &named, change).await?)))
}

/// Removes a job, and its run where there is one.
#[utoipa::path(
    delete,
    path = "/v1/namespaces/{ns}/jobs/{name}",
    tag = "jobs",
    params(
        ("ns" = String, Path, description = "The namespace"),
        ("name" = String, Path, description = "The job"),
    ),
    responses(
        (status = 200, description = "What was removed where", body = Receipt),
        (status = 404, description = "It is not there", body = ErrorBody),
    ),
)]
pub(super) async fn delete(
    State(state): State<AppState>,
    named: Named,
) -> Result<Json<Receipt>, ApiError> {
    super::delete(&state, Kind::FunctionJob, named).await
}

/// The logs of a job, over all its runs, in the same forms as those of a function.
#[utoipa::path(
    get,
    path = "/v1/namespaces/{ns}/jobs/{name}/logs",
    tag = "jobs",
    params(
        ("ns" = String, Path, description = "The namespace"),
        ("name" = String, Path, description = "The job"),
        LogQuery,
    ),
    responses(
        (status = 200, content(
            (String = "text/plain"),
            (sless_api::LogLine = "application/x-ndjson"),
        )),
        (status = 404, description = "It is not there, or has not run", body = ErrorBody),
    ),
)]
pub(super) async fn logs(
    State(state): State<AppState>,
    named: Named,
    Query(query): Query<LogQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let options = log_options(&query);
    let lines = state
        .sless
        .job_logs(&named.namespace, &named.name, &options)
        .await?;
    Ok(super::logs::answer(lines, &headers))
}
