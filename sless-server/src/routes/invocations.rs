//! The invocation log.

use axum::{Json, extract::State};
use sless_api::{ErrorBody, InvocationsQuery, Page};
use sless_core::{CatalogExt, Function, InvocationQuery};

use crate::{
    convert::{invocation_view, origin},
    error::ApiError,
    extract::{Named, Query, page_limit},
    state::AppState,
};

/// One page of the calls of a function, newest first.
#[utoipa::path(
    get,
    path = "/v1/namespaces/{ns}/functions/{name}/invocations",
    tag = "functions",
    params(
        ("ns" = String, Path, description = "The namespace"),
        ("name" = String, Path, description = "The function"),
        InvocationsQuery,
    ),
    responses(
        (status = 200, body = Page<sless_api::Invocation>),
        (status = 404, description = "The function is not there", body = ErrorBody),
        (status = 501, description = "No invocation log is configured", body = ErrorBody),
    ),
)]
pub(super) async fn list(
    State(state): State<AppState>,
    named: Named,
    Query(query): Query<InvocationsQuery>,
) -> Result<Json<Page<sless_api::Invocation>>, ApiError> {
    let backends = state.sless.backends();
    let log = backends
        .invocations
        .as_ref()
        .ok_or_else(|| ApiError::not_configured("an invocation log"))?;
    let limit = page_limit(query.limit, &state)?.min(InvocationQuery::LIMIT_MAX);
    let _: Function = backends.catalog.read(&named.namespace, &named.name).await?;
    let mut wanted = InvocationQuery::of_function(named.namespace, named.name, limit);
    wanted.cursor = query.cursor;
    wanted.origin = query.origin.and_then(origin);
    wanted.failed_only = query.failed;
    wanted.since = query.since;
    let page = log.query(&wanted).await?;
    let items = page.items.into_iter().map(invocation_view).collect();
    Ok(Json(Page {
        items,
        next: page.next,
    }))
}
