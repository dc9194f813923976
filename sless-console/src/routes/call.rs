//! A call of a function by a form.

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::StreamExt as _;
use http::{Method, Uri, header::CONTENT_TYPE};
use serde::Deserialize;
use sless_core::{Body, Call, bytes_stream};

use crate::{
    error::Failure,
    extract::{Fields, Writing},
    negotiate::Form,
    pages::actions::{self, Answer},
};

#[derive(Debug, Deserialize)]
pub(super) struct Request {
    method: String,
    #[serde(default)]
    path: String,
    #[serde(default)]
    content_type: String,
    #[serde(default)]
    body: String,
}

/// Calls the function, and shows what it answers. The call comes from the server, so a function's
/// markup never becomes part of this origin.
pub(super) async fn call(
    Writing(reading): Writing,
    Fields(form): Fields<Request>,
) -> Result<Response, Failure> {
    let name = reading.name()?;
    let config = reading.console.config();
    if form.body.len() > config.call_bytes {
        let limit = config.call_bytes;
        return Err(sless_core::Error::limit("call_bytes", limit, "bytes").into());
    }
    let sless = reading.console.sless();
    let clock = &sless.backends().clock;
    let begun = clock.elapsed();
    let mut call = Call::new(reading.namespace.clone(), name.clone(), request(form)?);
    call.caller = reading
        .frame
        .viewer
        .subject()
        .map(|subject| format!("console: {subject}"));
    let response = sless.call(call).await?;
    let (head, body) = response.into_parts();
    let (body, cut) = first_bytes(body, config.answer_bytes).await?;
    let answer = Answer {
        status: head.status,
        took: clock.elapsed().saturating_sub(begun),
        headers: head.headers,
        body,
        cut,
    };
    if reading.frame.form == Form::Text {
        return Ok((answer.status, answer.body).into_response());
    }
    let title = format!("{name}: {}", reading.texts().answer);
    Ok(reading.answer_part(Some(&name), &title, actions::answer(&reading, &answer)))
}

fn request(form: Request) -> Result<http::Request<Body>, Failure> {
    let refused = |field: &str, expected: &str| {
        Failure::bad_request("field_invalid", format!("{field}: expected {expected}"))
    };
    let method = Method::from_bytes(form.method.as_bytes())
        .map_err(|_| refused("method", "a method of HTTP"))?;
    let path = if form.path.is_empty() {
        "/"
    } else {
        form.path.trim()
    };
    let expected = "a path that begins with /, encoded";
    if !path.starts_with('/') {
        return Err(refused("path", expected));
    }
    let uri: Uri = path.parse().map_err(|_| refused("path", expected))?;
    let body = Bytes::from(form.body);
    let has_body = !body.is_empty() && !matches!(method, Method::GET | Method::HEAD);
    let mut request = http::Request::builder().method(method).uri(uri);
    if has_body {
        request = request.header(http::header::CONTENT_LENGTH, body.len());
        if !form.content_type.trim().is_empty() {
            request = request.header(CONTENT_TYPE, form.content_type.trim());
        }
    }
    let body = if has_body {
        Body::from_stream(bytes_stream(body))
    } else {
        Body::empty()
    };
    request
        .body(body)
        .map_err(|_| refused("content_type", "a media type"))
}

/// The beginning of a body, and whether there is more of it. The rest is let go.
async fn first_bytes(body: Body, limit: usize) -> Result<(Vec<u8>, bool), Failure> {
    let mut stream = body.into_stream();
    let mut first = Vec::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk?;
        let room = limit - first.len();
        if chunk.len() > room {
            first.extend_from_slice(&chunk[..room]);
            return Ok((first, true));
        }
        first.extend_from_slice(&chunk);
    }
    Ok((first, false))
}
