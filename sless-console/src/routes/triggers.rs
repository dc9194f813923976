//! The switches: triggers turned on and off in place.

use axum::{
    Json,
    body::Bytes,
    response::{IntoResponse, Redirect, Response},
};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use sless_core::{CatalogExt, Metadata, Name, Trigger, TriggerSpec};

use crate::{
    error::Failure,
    extract::{Fields, Reading, Writing},
    negotiate::Form,
};

/// What a `PATCH` may say.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Patch {
    enabled: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Switch {
    enabled: bool,
}

/// A trigger as it is after a `PATCH`.
#[derive(Debug, Serialize)]
struct Patched {
    name: String,
    namespace: String,
    #[serde(rename = "type")]
    kind: &'static str,
    function_ref: String,
    enabled: bool,
    active: bool,
}

/// Turns a trigger on or off, by JSON.
pub(super) async fn patch(Writing(reading): Writing, body: Bytes) -> Result<Response, Failure> {
    let patch: Patch = serde_json::from_slice(&body).map_err(|error| {
        let message = format!("the body is not {{\"enabled\": true or false}}: {error}");
        Failure::bad_request("invalid_json", message)
    })?;
    let trigger = set(&reading, &reading.name()?, patch.enabled).await?;
    Ok(Json(Patched {
        name: trigger.metadata.name.to_string(),
        namespace: trigger.metadata.namespace.to_string(),
        kind: trigger.spec.kind.as_str(),
        function_ref: trigger.spec.function_ref.to_string(),
        enabled: trigger.spec.enabled,
        active: trigger.status.active,
    })
    .into_response())
}

/// Turns a trigger on or off, by a form.
pub(super) async fn switch(
    Writing(reading): Writing,
    Fields(form): Fields<Switch>,
) -> Result<Response, Failure> {
    let trigger = set(&reading, &reading.name()?, form.enabled).await?;
    Ok(switched(&reading, &trigger.spec.function_ref))
}

/// Turns a function on or off that has no trigger of type http: it gets one, of its own name.
pub(super) async fn switch_function(
    Writing(reading): Writing,
    Fields(form): Fields<Switch>,
) -> Result<Response, Failure> {
    let function = reading.name()?;
    let catalog = &reading.console.sless().backends().catalog;
    let _: sless_core::Function = catalog.read(&reading.namespace, &function).await?;
    let mut spec = TriggerSpec::http(function.clone());
    spec.enabled = form.enabled;
    let metadata = Metadata::new(reading.namespace.clone(), function.clone());
    catalog.add(Trigger::new(metadata, spec)).await?;
    Ok(switched(&reading, &function))
}

async fn set(reading: &Reading, name: &Name, enabled: bool) -> Result<Trigger, Failure> {
    let catalog = &reading.console.sless().backends().catalog;
    let changed = catalog
        .modify(&reading.namespace, name, |trigger: &mut Trigger| {
            trigger.spec.enabled = enabled;
            Ok(())
        })
        .await;
    Ok(changed?)
}

/// Scripts hear of the change by the stream of events; others see the function's page.
fn switched(reading: &Reading, function: &Name) -> Response {
    if reading.frame.form == Form::Fragment {
        return StatusCode::NO_CONTENT.into_response();
    }
    Redirect::to(&reading.path(format_args!("/functions/{function}"))).into_response()
}
