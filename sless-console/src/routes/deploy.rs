//! Code that is dropped on a page, or chosen in a form.

use axum::{
    extract::{FromRequest, Multipart, Request, multipart::Field, multipart::MultipartError},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::StreamExt as _;
use http::StatusCode;
use sless_core::{
    ByteStream, CatalogExt, DeleteOptions, Entrypoint, Error, ErrorKind, Function, FunctionSpec,
    Kind, Metadata, Name, ObjectKey, Runtime, Trigger, TriggerSpec, Upload,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::{
    error::Failure,
    extract::{Reading, Writing},
    negotiate::Form,
    pages::actions,
};

/// What stands in the form before its file.
#[derive(Debug, Default)]
struct Wanted {
    name: String,
    runtime: String,
    entrypoint: String,
}

/// Takes a form with the fields `name`, `runtime`, `entrypoint` and, last, `file`: makes the function
/// if it is not there, and uploads its code.
pub(super) async fn deploy(
    Writing(reading): Writing,
    request: Request,
) -> Result<Response, Failure> {
    let limit = reading.console.config().upload_time;
    let taken = tokio::time::timeout(limit, take(&reading, request)).await;
    let (name, upload) = taken.map_err(|_| {
        let message = format!("limit upload_time of {} ms exceeded", limit.as_millis());
        Failure::new(StatusCode::GATEWAY_TIMEOUT, "timeout", message)
    })??;
    if reading.frame.form == Form::Text {
        let digest = upload.digest.hex();
        return Ok((StatusCode::ACCEPTED, format!("{name} {digest}\n")).into_response());
    }
    let title = reading.texts().deploy;
    Ok(reading.answer_part(None, title, actions::deployed(&reading, &name, &upload)))
}

async fn take(reading: &Reading, request: Request) -> Result<(Name, Upload), Failure> {
    let mut form = Multipart::from_request(request, &())
        .await
        .map_err(|rejection| Failure::bad_request("form_invalid", rejection.body_text()))?;
    let mut wanted = Wanted::default();
    let limit = reading.console.config().form_bytes;
    while let Some(field) = form.next_field().await.map_err(|error| broken(&error))? {
        match field.name().unwrap_or_default() {
            "name" => wanted.name = text(field, limit).await?,
            "runtime" => wanted.runtime = text(field, limit).await?,
            "entrypoint" => wanted.entrypoint = text(field, limit).await?,
            "file" => {
                let name = Name::new(wanted.name.trim())?;
                let made = prepare(reading, &name, &wanted).await?;
                let uploaded = upload(reading, &name, field).await;
                if uploaded.is_err() && made {
                    undo(reading, &name).await;
                }
                return Ok((name, uploaded?));
            }
            _ => {}
        }
    }
    Err(Failure::bad_request(
        "form_invalid",
        "the form has no field `file`",
    ))
}

fn broken(error: &MultipartError) -> Failure {
    let message = format!("the form cannot be read: {}", error.body_text());
    Failure::bad_request("form_invalid", message)
}

async fn text(mut field: Field<'_>, limit: usize) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    while let Some(piece) = field.chunk().await.map_err(|error| broken(&error))? {
        if bytes.len() + piece.len() > limit {
            return Err(Error::limit("form_bytes", limit, "bytes").into());
        }
        bytes.extend_from_slice(&piece);
    }
    String::from_utf8(bytes)
        .map_err(|_| Failure::bad_request("form_invalid", "a field of the form is not UTF-8"))
}

/// Sees to it that the function is there, with the runtime and the entry point that were given.
/// Answers whether it was made.
async fn prepare(reading: &Reading, name: &Name, wanted: &Wanted) -> Result<bool, Failure> {
    let sless = reading.console.sless();
    let (catalog, namespace) = (&sless.backends().catalog, &reading.namespace);
    let runtime = match wanted.runtime.trim() {
        "" => None,
        given => Some(given.parse::<Runtime>()?),
    };
    let entrypoint = match wanted.entrypoint.trim() {
        "" => None,
        given => Some(given.parse::<Entrypoint>()?),
    };
    let found: Option<Function> = catalog.find(namespace, name).await?;
    if found.is_some() {
        let change = |function: &mut Function| {
            function.spec.runtime = runtime.unwrap_or(function.spec.runtime);
            if let Some(entrypoint) = &entrypoint {
                function.spec.entrypoint.clone_from(entrypoint);
            }
            Ok(())
        };
        catalog.modify(namespace, name, change).await?;
        return Ok(false);
    }
    let runtime =
        runtime.ok_or_else(|| Failure::bad_request("field_missing", "runtime is missing"))?;
    sless.ensure_namespace(namespace).await?;
    let mut spec = FunctionSpec::new(runtime);
    spec.entrypoint = entrypoint.unwrap_or_default();
    let metadata = || Metadata::new(namespace.clone(), name.clone());
    catalog.add(Function::new(metadata(), spec)).await?;
    // What the switches turn. Where somebody else has a trigger of this name, that one is left alone.
    let trigger = Trigger::new(metadata(), TriggerSpec::http(name.clone()));
    match catalog.add(trigger).await {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error.into()),
        _ => Ok(true),
    }
}

/// Takes back what was made for code that was refused.
async fn undo(reading: &Reading, name: &Name) {
    let catalog = &reading.console.sless().backends().catalog;
    for kind in [Kind::Trigger, Kind::Function] {
        let key = ObjectKey::new(kind, reading.namespace.clone(), name.clone());
        if let Err(error) = catalog.delete(&key, &DeleteOptions::default()).await {
            tracing::debug!(error = %error.chain(), "what was made for a refused upload stays");
        }
    }
}

/// The form's reader lends its pieces out, so they go through a channel of one place, and form and
/// upload go on together.
async fn upload(reading: &Reading, name: &Name, mut field: Field<'_>) -> Result<Upload, Failure> {
    let (sender, receiver) = mpsc::channel::<sless_core::Result<Bytes>>(1);
    let read = async move {
        loop {
            let piece = match field.chunk().await {
                Ok(Some(piece)) => Ok(piece),
                Ok(None) => return,
                Err(cause) => Err(Error::invalid("the request's body broke off")
                    .with_reason("body_interrupted")
                    .with_source(cause)),
            };
            let last = piece.is_err();
            // The upload has ended early: what is left is not wanted.
            if sender.send(piece).await.is_err() || last {
                return;
            }
        }
    };
    let zip: ByteStream = ReceiverStream::new(receiver).boxed();
    let upload = reading
        .console
        .sless()
        .upload(&reading.namespace, name, zip);
    let ((), upload) = tokio::join!(read, upload);
    Ok(upload?)
}
