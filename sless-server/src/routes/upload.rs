//! Uploads of code.

use axum::{
    Json,
    body::Bytes,
    extract::{FromRequest, Multipart, Request, State, multipart::MultipartError},
    http::{StatusCode, header},
};
use futures::{StreamExt, TryStreamExt};
use sless_api::{ErrorBody, UploadResult, UploadVerdict, VerdictOutcome};
use sless_core::{ByteStream, CatalogExt, Error, ErrorKind, Function, Upload};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::middleware::took_too_long;
use crate::{convert, error::ApiError, extract::Named, state::AppState};

/// Takes the code of a function: a zip, as the body or as the field `file` of a form. It is read
/// once, checked, shown to the validator, and stored; the build follows.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{ns}/functions/{name}/upload",
    tag = "functions",
    params(
        ("ns" = String, Path, description = "The namespace"),
        ("name" = String, Path, description = "The function"),
    ),
    request_body(content = Vec<u8>, content_type = "application/zip"),
    responses(
        (status = 202, body = UploadResult),
        (status = 400, description = "The zip or the code in it is refused", body = ErrorBody),
        (status = 404, description = "The function is not there", body = ErrorBody),
        (status = 409, description = "The function changed meanwhile", body = ErrorBody),
        (status = 413, description = "A limit, which is named", body = ErrorBody),
        (status = 429, description = "Too many uploads at once", body = ErrorBody),
    ),
)]
pub(super) async fn upload(
    State(state): State<AppState>,
    named: Named,
    request: Request,
) -> Result<(StatusCode, Json<UploadResult>), ApiError> {
    let limit = state.limits.upload_timeout;
    let taken = tokio::time::timeout(limit, take(&state, &named, request)).await;
    let upload = taken.map_err(|_| took_too_long("upload_timeout", limit))??;
    let catalog = &state.sless.backends().catalog;
    let function: Function = catalog.read(&named.namespace, &named.name).await?;
    let result = UploadResult {
        name: named.name.to_string(),
        namespace: named.namespace.to_string(),
        code_sha256: upload.digest.hex(),
        phase: convert::phase(&function),
        verdict: verdict(&upload),
        s3_key: upload.s3_key,
        warnings: upload.warnings,
    };
    Ok((StatusCode::ACCEPTED, Json(result)))
}

async fn take(state: &AppState, named: &Named, request: Request) -> Result<Upload, ApiError> {
    let headers = request.headers();
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let limit = state.limits.zip_bytes;
    // Told before a byte of it is read, where the length is known.
    let length = text(header::CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
    let form = text(header::CONTENT_TYPE).is_some_and(|kind| {
        kind.trim_start()
            .to_ascii_lowercase()
            .starts_with("multipart/")
    });
    if !form && length.is_some_and(|length| length > limit) {
        return Err(Error::limit("source_zip_bytes", limit, "bytes").into());
    }
    if form {
        return take_form(state, named, request).await;
    }
    let body = request.into_body().into_data_stream();
    let zip: ByteStream = body
        .map_err(|cause| interrupted().with_source(cause))
        .boxed();
    Ok(state
        .sless
        .upload(&named.namespace, &named.name, zip)
        .await?)
}

/// The field `file` of a form. The form's reader lends its pieces out, so they go through a channel
/// of one place, and form and upload go on together.
async fn take_form(state: &AppState, named: &Named, request: Request) -> Result<Upload, ApiError> {
    let refused = |error: MultipartError| {
        ApiError::bad_request(
            "form_invalid",
            format!("the form cannot be read: {}", error.body_text()),
        )
    };
    let mut form = Multipart::from_request(request, state)
        .await
        .map_err(|rejection| ApiError::bad_request("form_invalid", rejection.body_text()))?;
    while let Some(mut field) = form.next_field().await.map_err(refused)? {
        if field.name() != Some("file") {
            continue;
        }
        let (sender, receiver) = mpsc::channel::<sless_core::Result<Bytes>>(1);
        let read = async move {
            loop {
                let piece = match field.chunk().await {
                    Ok(Some(piece)) => Ok(piece),
                    Ok(None) => return,
                    Err(error) => Err(interrupted().with_source(error)),
                };
                let last = piece.is_err();
                // The upload has ended early: what is left is not wanted.
                if sender.send(piece).await.is_err() || last {
                    return;
                }
            }
        };
        let zip: ByteStream = ReceiverStream::new(receiver).boxed();
        let upload = state.sless.upload(&named.namespace, &named.name, zip);
        let ((), upload) = tokio::join!(read, upload);
        return Ok(upload?);
    }
    Err(ApiError::bad_request(
        "form_invalid",
        "the form has no field `file`",
    ))
}

fn interrupted() -> Error {
    Error::new(ErrorKind::Invalid, "the request's body broke off").with_reason("body_interrupted")
}

fn verdict(upload: &Upload) -> UploadVerdict {
    let Some(said) = &upload.verification else {
        return UploadVerdict {
            outcome: VerdictOutcome::Skipped,
            reason: Some("validation is off".to_owned()),
        };
    };
    UploadVerdict {
        outcome: convert::outcome(said),
        reason: (!said.reason.is_empty()).then(|| said.reason.clone()),
    }
}
