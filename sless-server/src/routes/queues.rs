//! Queues and dead letters.

use axum::{
    Json,
    extract::{Path, Request, State},
    http::{HeaderMap, StatusCode, header::CONTENT_TYPE},
};
use sless_api::{ErrorBody, ListQuery, Page, Published, Purged, Redrive, Redriven};
use sless_core::{
    CatalogExt, DeadLetterQuery, DeadLetterSelection, Message, Namespace, Trigger, TriggerId,
    TriggerSpec, TriggerType, Uid,
};

use crate::{
    convert::dead_letter_view,
    error::ApiError,
    extract::{Named, OptionalJson, Query, page_limit, whole},
    state::AppState,
};

/// The queue of an event trigger.
async fn queue(state: &AppState, named: &Named) -> Result<(TriggerId, String), ApiError> {
    let catalog = &state.sless.backends().catalog;
    let trigger: Trigger = catalog.read(&named.namespace, &named.name).await?;
    match (trigger.spec.kind, trigger.spec.queue) {
        (TriggerType::Event, Some(queue)) => Ok((TriggerId::of(&trigger.metadata), queue)),
        (kind, _) => Err(ApiError::bad_request(
            "trigger_type",
            format!(
                "trigger {} is of type {}: expected one of type event, since only those have dead \
                 letters",
                named.name,
                kind.as_str()
            ),
        )),
    }
}

/// One page of the messages that a trigger gave up, oldest first.
#[utoipa::path(
    get,
    path = "/v1/namespaces/{ns}/triggers/{name}/dead-letters",
    tag = "queues",
    params(
        ("ns" = String, Path, description = "The namespace"),
        ("name" = String, Path, description = "The trigger"),
        ListQuery,
    ),
    responses(
        (status = 200, body = Page<sless_api::DeadLetter>),
        (status = 400, description = "The trigger has no queue", body = ErrorBody),
        (status = 404, description = "The trigger is not there", body = ErrorBody),
    ),
)]
pub(super) async fn dead_letters(
    State(state): State<AppState>,
    named: Named,
    Query(query): Query<ListQuery>,
) -> Result<Json<Page<sless_api::DeadLetter>>, ApiError> {
    let (trigger, queue) = queue(&state, &named).await?;
    let limit = page_limit(query.limit, &state)?;
    let wanted = DeadLetterQuery::first(limit).from_cursor(query.cursor);
    let page = state
        .sless
        .backends()
        .dispatcher
        .dead_letters(&trigger, &wanted)
        .await?;
    let items = page
        .items
        .into_iter()
        .map(|letter| dead_letter_view(letter, &queue));
    Ok(Json(Page {
        items: items.collect(),
        next: page.next,
    }))
}

/// Puts dead letters back into their queue: those with the given ids, or all.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{ns}/triggers/{name}/dead-letters/redrive",
    tag = "queues",
    params(
        ("ns" = String, Path, description = "The namespace"),
        ("name" = String, Path, description = "The trigger"),
    ),
    request_body = Option<Redrive>,
    responses(
        (status = 200, body = Redriven),
        (status = 400, description = "The trigger has no queue", body = ErrorBody),
        (status = 404, description = "The trigger is not there", body = ErrorBody),
    ),
)]
pub(super) async fn redrive(
    State(state): State<AppState>,
    named: Named,
    OptionalJson(which): OptionalJson<Redrive>,
) -> Result<Json<Redriven>, ApiError> {
    let (trigger, _) = queue(&state, &named).await?;
    let which = which
        .ids
        .map_or(DeadLetterSelection::All, DeadLetterSelection::Ids);
    let redriven = state
        .sless
        .backends()
        .dispatcher
        .redrive(&trigger, &which)
        .await?;
    Ok(Json(Redriven { redriven }))
}

/// Removes all dead letters of a trigger for good.
#[utoipa::path(
    delete,
    path = "/v1/namespaces/{ns}/triggers/{name}/dead-letters",
    tag = "queues",
    params(
        ("ns" = String, Path, description = "The namespace"),
        ("name" = String, Path, description = "The trigger"),
    ),
    responses(
        (status = 200, body = Purged),
        (status = 400, description = "The trigger has no queue", body = ErrorBody),
        (status = 404, description = "The trigger is not there", body = ErrorBody),
    ),
)]
pub(super) async fn purge(
    State(state): State<AppState>,
    named: Named,
) -> Result<Json<Purged>, ApiError> {
    let (trigger, _) = queue(&state, &named).await?;
    let dispatcher = &state.sless.backends().dispatcher;
    let purged = dispatcher
        .purge(&trigger, &DeadLetterSelection::All)
        .await?;
    Ok(Json(Purged { purged }))
}

/// Puts the body into a queue of the server's own dispatcher, as one message.
///
/// Its media type is that of the request; the fields `x-message-id` and `x-message-header-…` name it
/// and go with it.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{ns}/queues/{queue}/messages",
    tag = "queues",
    params(
        ("ns" = String, Path, description = "The namespace"),
        ("queue" = String, Path, description = "The queue; made if it is not there"),
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 202, description = "It is stored", body = Published),
        (status = 400, description = "The name of the queue is wrong", body = ErrorBody),
        (status = 413, description = "A limit, which is named", body = ErrorBody),
        (status = 501, description = "Queues belong to a broker here", body = ErrorBody),
    ),
)]
pub(super) async fn publish(
    State(state): State<AppState>,
    Path((namespace, queue)): Path<(String, String)>,
    request: Request,
) -> Result<(StatusCode, Json<Published>), ApiError> {
    let namespace = Namespace::new(namespace)?;
    let bytes = 1..=TriggerSpec::QUEUE_BYTES_MAX;
    if !bytes.contains(&queue.len()) || queue.chars().any(char::is_control) {
        let most = TriggerSpec::QUEUE_BYTES_MAX;
        let message = format!("queue: expected 1 to {most} bytes without control characters");
        return Err(ApiError::bad_request("field_invalid", message));
    }
    let publisher = state.sless.backends().publisher.clone();
    let publisher = publisher.ok_or_else(|| ApiError::not_configured("publishing to queues"))?;
    let mut message = message(request.headers());
    let limit = state.limits.message_bytes;
    message.body = whole(request, "message_bytes", limit).await?;
    let id = message.id.clone();
    publisher.publish(&namespace, &queue, message).await?;
    Ok((StatusCode::ACCEPTED, Json(Published { queue, id })))
}

/// What a message has beside its body.
fn message(fields: &HeaderMap) -> Message {
    const PREFIX: &str = "x-message-header-";
    let text = |name: &str| {
        let value = fields.get(name)?;
        Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let headers = fields.keys().filter_map(|name| {
        let key = name
            .as_str()
            .strip_prefix(PREFIX)
            .filter(|key| !key.is_empty())?;
        Some((key.to_owned(), text(name.as_str())?))
    });
    Message {
        id: text("x-message-id")
            .filter(|id| !id.is_empty())
            .unwrap_or_else(|| Uid::random().as_str().to_owned()),
        content_type: text(CONTENT_TYPE.as_str()),
        headers: headers.collect(),
        ..Message::default()
    }
}
