//! Triggers.

use axum::{Json, extract::State, http::StatusCode};
use sless_api::{CreateTrigger, ErrorBody, ListQuery, Page, PatchTrigger, Receipt};
use sless_core::{CatalogExt, Kind, Metadata, Name, Trigger, TriggerId, TriggerType};

use crate::{
    convert::{patch_trigger, trigger_spec, trigger_view},
    error::ApiError,
    extract::{JsonBody, Named, Query, Scope, page_limit},
    state::AppState,
};

/// A trigger with what its dispatcher sees of it now. Where that cannot be asked, what is stored is
/// shown.
async fn view(state: &AppState, trigger: Trigger) -> sless_api::Trigger {
    let backends = state.sless.backends();
    let now = backends.clock.now();
    if trigger.spec.kind != TriggerType::Event {
        return trigger_view(trigger, None, now);
    }
    let id = TriggerId::of(&trigger.metadata);
    let asked = async {
        let counts = state.sless.event_counts(&trigger).await?;
        Ok::<_, sless_core::Error>((backends.dispatcher.status(&id).await?, counts))
    };
    let (seen, counts) = asked.await.unwrap_or_else(|error| {
        tracing::debug!(error = %error.chain(), "the dispatcher cannot be asked");
        (None, trigger.status.counts)
    });
    let mut trigger = trigger;
    let status = &mut trigger.status;
    status.counts = counts;
    // Newer than what is stored, until the trigger is looked at again.
    if let Some(seen) = seen
        .as_ref()
        .filter(|seen| status.active && !seen.connected)
    {
        status.active = false;
        status.reason.clone_from(&seen.reason);
    }
    trigger_view(trigger, seen.as_ref(), now)
}

/// One page of the triggers of a namespace, in the order of their names.
#[utoipa::path(
    get,
    path = "/v1/namespaces/{ns}/triggers",
    tag = "triggers",
    params(("ns" = String, Path, description = "The namespace"), ListQuery),
    responses((status = 200, body = Page<sless_api::Trigger>)),
)]
pub(super) async fn list(
    State(state): State<AppState>,
    Scope(namespace): Scope,
    Query(query): Query<ListQuery>,
) -> Result<Json<Page<sless_api::Trigger>>, ApiError> {
    let query = sless_core::ListQuery::all(Kind::Trigger)
        .in_namespace(namespace)
        .with_limit(page_limit(query.limit, &state)?)
        .from_cursor(query.cursor);
    let page = state.sless.backends().catalog.list(&query).await?;
    let mut items = Vec::with_capacity(page.items.len());
    for object in page.items {
        items.push(view(&state, Trigger::try_from(object)?).await);
    }
    Ok(Json(Page {
        items,
        next: page.next,
    }))
}

/// Creates a trigger.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{ns}/triggers",
    tag = "triggers",
    params(("ns" = String, Path, description = "The namespace")),
    request_body = CreateTrigger,
    responses(
        (status = 201, body = sless_api::Trigger),
        (status = 400, description = "A field is wrong; it is named", body = ErrorBody),
        (status = 404, description = "The namespace is not there", body = ErrorBody),
        (status = 409, description = "The name is taken", body = ErrorBody),
    ),
)]
pub(super) async fn create(
    State(state): State<AppState>,
    Scope(namespace): Scope,
    JsonBody(request): JsonBody<CreateTrigger>,
) -> Result<(StatusCode, Json<sless_api::Trigger>), ApiError> {
    let name = Name::new(&request.name)?;
    let trigger = Trigger::new(Metadata::new(namespace, name), trigger_spec(request)?);
    let created = state.sless.backends().catalog.add(trigger).await?;
    Ok((StatusCode::CREATED, Json(view(&state, created).await)))
}

/// One trigger.
#[utoipa::path(
    get,
    path = "/v1/namespaces/{ns}/triggers/{name}",
    tag = "triggers",
    params(
        ("ns" = String, Path, description = "The namespace"),
        ("name" = String, Path, description = "The trigger"),
    ),
    responses(
        (status = 200, body = sless_api::Trigger),
        (status = 404, description = "It is not there", body = ErrorBody),
    ),
)]
pub(super) async fn read(
    State(state): State<AppState>,
    named: Named,
) -> Result<Json<sless_api::Trigger>, ApiError> {
    let catalog = &state.sless.backends().catalog;
    let trigger: Trigger = catalog.read(&named.namespace, &named.name).await?;
    Ok(Json(view(&state, trigger).await))
}

/// Changes a trigger. A field that is left out stays; null brings the default back.
#[utoipa::path(
    patch,
    path = "/v1/namespaces/{ns}/triggers/{name}",
    tag = "triggers",
    params(
        ("ns" = String, Path, description = "The namespace"),
        ("name" = String, Path, description = "The trigger"),
    ),
    request_body = PatchTrigger,
    responses(
        (status = 200, body = sless_api::Trigger),
        (status = 400, description = "A field is wrong; it is named", body = ErrorBody),
        (status = 404, description = "It is not there", body = ErrorBody),
        (status = 409, description = "Others change it all the time", body = ErrorBody),
    ),
)]
pub(super) async fn patch(
    State(state): State<AppState>,
    named: Named,
    JsonBody(request): JsonBody<PatchTrigger>,
) -> Result<Json<sless_api::Trigger>, ApiError> {
    let change = |trigger: &mut Trigger| patch_trigger(&request, &mut trigger.spec);
    let changed = super::modify(&state, &named, change).await?;
    Ok(Json(view(&state, changed).await))
}

/// Removes a trigger. Its queue and its dead letters stay.
#[utoipa::path(
    delete,
    path = "/v1/namespaces/{ns}/triggers/{name}",
    tag = "triggers",
    params(
        ("ns" = String, Path, description = "The namespace"),
        ("name" = String, Path, description = "The trigger"),
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
    super::delete(&state, Kind::Trigger, named).await
}
