//! Functions: all of them, one of them, and the end of one.

use axum::response::{IntoResponse, Response};
use maud::html;
use serde::Deserialize;
use sless_core::{Kind, ObjectKey};

use crate::{
    data,
    error::Failure,
    extract::{Fields, Query, Reading, Writing},
    negotiate::Form,
    pages::{actions, functions, panel, triggers},
};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ListQuery {
    find: String,
    cursor: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ReadQuery {
    /// `entry` for one of the accordion, `live` for what changes by itself.
    part: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Delete {
    #[serde(default)]
    confirm: String,
}

/// The functions of a namespace.
pub(super) async fn list(
    reading: Reading,
    Query(query): Query<ListQuery>,
) -> Result<Response, Failure> {
    let console = &reading.console;
    let limit = console.config().page_functions;
    let find = query.find.trim();
    let namespace = &reading.namespace;
    let items = data::items(console.sless(), namespace, limit, query.cursor, find).await?;
    Ok(match reading.frame.form {
        Form::Text => functions::plain(&reading, &items).into_response(),
        _ => {
            let title = reading.texts().functions;
            reading.answer(title, functions::content(&reading, &items, find))
        }
    })
}

/// One function.
pub(super) async fn read(
    reading: Reading,
    Query(query): Query<ReadQuery>,
) -> Result<Response, Failure> {
    let name = reading.name()?;
    let sless = reading.console.sless();
    let item = data::item(sless, &reading.namespace, &name).await?;
    let content = match (reading.frame.form, query.part.as_str()) {
        (Form::Text, _) => {
            let next = None;
            let items = vec![item];
            let items = data::Items { items, next };
            return Ok(functions::plain(&reading, &items).into_response());
        }
        (Form::Fragment, "entry") => functions::entry(&reading, &item),
        (form, part) => {
            let queues = data::queues(sless, &item).await;
            match (form, part) {
                (Form::Fragment, "live") => html! {
                    (panel::facts(&reading, &item))
                    (triggers::list(&reading, &item, &queues))
                },
                (Form::Fragment, _) => panel::panel(&reading, &item, &queues),
                _ => panel::page(&reading, &item, &queues),
            }
        }
    };
    Ok(reading.answer(name.as_str(), content))
}

/// Deletes a function whose name was typed once more, and answers with the receipt.
pub(super) async fn delete(
    Writing(reading): Writing,
    Fields(form): Fields<Delete>,
) -> Result<Response, Failure> {
    let name = reading.name()?;
    if form.confirm.trim() != name.as_str() {
        let message = format!("confirm is not the function's name: expected {name}");
        return Err(Failure::bad_request("field_invalid", message));
    }
    let key = ObjectKey::new(Kind::Function, reading.namespace.clone(), name.clone());
    let receipt = reading.console.sless().delete(&key).await?;
    let title = reading.texts().receipt;
    Ok(reading.answer_part(None, title, actions::receipt(&reading, &name, &receipt)))
}
