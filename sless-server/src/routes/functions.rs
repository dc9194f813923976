//! Functions.

use axum::{Json, extract::State, http::StatusCode};
use sless_api::{CreateFunction, ErrorBody, ListQuery, Page, PatchFunction, Receipt};
use sless_core::{CatalogExt, Function, Kind, Metadata, Name};

use crate::{
    convert::{function_spec, function_view, patch_function},
    error::ApiError,
    extract::{JsonBody, Named, Query, Scope, page_limit},
    state::AppState,
};

/// One page of the functions of a namespace, in the order of their names.
#[utoipa::path(
    get,
    path = "/v1/namespaces/{ns}/functions",
    tag = "functions",
    params(("ns" = String, Path, description = "The namespace"), ListQuery),
    responses((status = 200, body = Page<sless_api::Function>)),
)]
pub(super) async fn list(
    State(state): State<AppState>,
    Scope(namespace): Scope,
    Query(query): Query<ListQuery>,
) -> Result<Json<Page<sless_api::Function>>, ApiError> {
    let query = sless_core::ListQuery::all(Kind::Function)
        .in_namespace(namespace)
        .with_limit(page_limit(query.limit, &state)?)
        .from_cursor(query.cursor);
    let page = state.sless.backends().catalog.list(&query).await?;
    let mut items = Vec::with_capacity(page.items.len());
    for object in page.items {
        items.push(function_view(Function::try_from(object)?, &state.sless));
    }
    Ok(Json(Page {
        items,
        next: page.next,
    }))
}

/// Creates a function. It answers calls once code is uploaded.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{ns}/functions",
    tag = "functions",
    params(("ns" = String, Path, description = "The namespace")),
    request_body = CreateFunction,
    responses(
        (status = 201, body = sless_api::Function),
        (status = 400, description = "A field is wrong; it is named", body = ErrorBody),
        (status = 404, description = "The namespace is not there", body = ErrorBody),
        (status = 409, description = "The name is taken", body = ErrorBody),
    ),
)]
pub(super) async fn create(
    State(state): State<AppState>,
    Scope(namespace): Scope,
    JsonBody(request): JsonBody<CreateFunction>,
) -> Result<(StatusCode, Json<sless_api::Function>), ApiError> {
    let name = Name::new(&request.name)?;
    let function = Function::new(Metadata::new(namespace, name), function_spec(request)?);
    let created = state.sless.backends().catalog.add(function).await?;
    Ok((
        StatusCode::CREATED,
        Json(function_view(created, &state.sless)),
    ))
}

/// One function.
#[utoipa::path(
    get,
    path = "/v1/namespaces/{ns}/functions/{name}",
    tag = "functions",
    params(
        ("ns" = String, Path, description = "The namespace"),
        ("name" = String, Path, description = "The function"),
    ),
    responses(
        (status = 200, body = sless_api::Function),
        (status = 404, description = "It is not there", body = ErrorBody),
    ),
)]
pub(super) async fn read(
    State(state): State<AppState>,
    named: Named,
) -> Result<Json<sless_api::Function>, ApiError> {
    let catalog = &state.sless.backends().catalog;
    let function: Function = catalog.read(&named.namespace, &named.name).await?;
    Ok(Json(function_view(function, &state.sless)))
}

/// Changes a function. A field that is left out stays; null brings the default back.
#[utoipa::path(
    patch,
    path = "/v1/namespaces/{ns}/functions/{name}",
    tag = "functions",
    params(
        ("ns" = String, Path, description = "The namespace"),
        ("name" = String, Path, description = "The function"),
    ),
    request_body = PatchFunction,
    responses(
        (status = 200, body = sless_api::Function),
        (status = 400, description = "A field is wrong; it is named", body = ErrorBody),
        (status = 404, description = "It is not there", body = ErrorBody),
        (status = 409, description = "Others change it all the time", body = ErrorBody),
    ),
)]
pub(super) async fn patch(
    State(state): State<AppState>,
    named: Named,
    JsonBody(request): JsonBody<PatchFunction>,
) -> Result<Json<sless_api::Function>, ApiError> {
    let change = |function: &mut Function| patch_function(&request, &mut function.spec);
    let changed = super::modify(&state, &named, change).await?;
    Ok(Json(function_view(changed, &state.sless)))
}

/// Removes a function and everything that was made for it.
#[utoipa::path(
    delete,
    path = "/v1/namespaces/{ns}/functions/{name}",
    tag = "functions",
    params(
        ("ns" = String, Path, description = "The namespace"),
        ("name" = String, Path, description = "The function"),
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
    super::delete(&state, Kind::Function, named).await
}
