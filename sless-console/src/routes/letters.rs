//! Dead letters.

use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use sless_core::{
    CatalogExt, DeadLetterPage, DeadLetterQuery, DeadLetterSelection, Name, Trigger, TriggerId,
    TriggerType,
};

use crate::{
    error::Failure,
    extract::{Fields, Query, Reading, Writing},
    negotiate::Form,
    pages::letters,
};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PageQuery {
    cursor: Option<String>,
}

/// Which letters go back: one, or all of them.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Which {
    id: Option<String>,
    all: bool,
}

/// One page of the messages that a trigger gave up.
pub(super) async fn list(
    reading: Reading,
    Query(query): Query<PageQuery>,
) -> Result<Response, Failure> {
    let name = reading.name()?;
    let id = queue(&reading, &name).await?;
    let page = page(&reading, &id, query.cursor).await?;
    Ok(answer(&reading, &name, &page, None))
}

/// Puts dead letters back into their queue.
pub(super) async fn redrive(
    Writing(reading): Writing,
    Fields(which): Fields<Which>,
) -> Result<Response, Failure> {
    let name = reading.name()?;
    let id = queue(&reading, &name).await?;
    let selection = match (which.id, which.all) {
        (Some(letter), false) => DeadLetterSelection::Ids(vec![letter]),
        (None, true) => DeadLetterSelection::All,
        _ => {
            let message = "expected either id or all=true";
            return Err(Failure::bad_request("field_invalid", message));
        }
    };
    let dispatcher = &reading.console.sless().backends().dispatcher;
    let redriven = dispatcher.redrive(&id, &selection).await?;
    let page = page(&reading, &id, None).await?;
    Ok(answer(&reading, &name, &page, Some(redriven)))
}

async fn queue(reading: &Reading, name: &Name) -> Result<TriggerId, Failure> {
    let catalog = &reading.console.sless().backends().catalog;
    let trigger: Trigger = catalog.read(&reading.namespace, name).await?;
    if trigger.spec.kind == TriggerType::Event {
        return Ok(TriggerId::of(&trigger.metadata));
    }
    let kind = trigger.spec.kind.as_str();
    let message =
        format!("trigger {name} is of type {kind}: only those of type event have dead letters");
    Err(Failure::bad_request("trigger_type", message))
}

async fn page(
    reading: &Reading,
    id: &TriggerId,
    cursor: Option<String>,
) -> Result<DeadLetterPage, Failure> {
    let query = DeadLetterQuery::first(reading.console.config().page_items).from_cursor(cursor);
    let dispatcher = &reading.console.sless().backends().dispatcher;
    Ok(dispatcher.dead_letters(id, &query).await?)
}

fn answer(
    reading: &Reading,
    name: &Name,
    page: &DeadLetterPage,
    redriven: Option<u64>,
) -> Response {
    if reading.frame.form == Form::Text {
        let lines = page.items.iter().map(|letter| {
            let (id, reason) = (&letter.message.id, letter.reason.escape_debug());
            format!(
                "{:.0}  {}  {id}  {reason}\n",
                letter.died_at, letter.attempts
            )
        });
        return lines.collect::<String>().into_response();
    }
    let title = reading.texts().dead_letters;
    reading.answer_part(None, title, letters::content(reading, name, page, redriven))
}
