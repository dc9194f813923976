//! Signing in and out, and the language.

use axum::{
    extract::{Extension, State},
    response::{Html, IntoResponse, Redirect, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, header::SET_COOKIE};
use jiff::SignedDuration;
use serde::Deserialize;

use super::is_ours;
use crate::{
    Console,
    error::Failure,
    extract::{Fields, check_origin},
    frame::{Frame, Viewer},
    negotiate::Form,
    pages,
    session::{Session, set_language, set_session},
    text::Language,
};

#[derive(Debug, Deserialize)]
pub(super) struct SignIn {
    token: String,
    #[serde(default)]
    next: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice {
    to: String,
    #[serde(default)]
    next: String,
}

/// Leads to the namespace of the one who is signed in.
pub(super) async fn home(
    State(console): State<Console>,
    Extension(frame): Extension<Frame>,
) -> Result<Response, Failure> {
    match (&frame.viewer, frame.viewer.subject()) {
        (Viewer::Refused(failure), _) => Err(failure.clone()),
        (_, None) => Err(Failure::nobody()),
        (_, Some(subject)) => Ok(to(&format!("/funcs/{}", console.gate().home(subject)))),
    }
}

/// The page on which to sign in.
pub(super) async fn page(
    State(console): State<Console>,
    Extension(frame): Extension<Frame>,
) -> Response {
    let page = pages::failure::sign_in(&console, &frame, None, "/funcs");
    Html(page.into_string()).into_response()
}

/// Takes a token, and gives a session for it.
pub(super) async fn sign_in(
    State(console): State<Console>,
    Extension(frame): Extension<Frame>,
    headers: HeaderMap,
    Fields(form): Fields<SignIn>,
) -> Result<Response, Failure> {
    // Else another site could sign somebody in as its own user, and be given what is uploaded next.
    check_origin(&console, &headers)?;
    let token = form.token.trim();
    let limit = console.config().token_bytes;
    let checked = if token.len() > limit {
        let message = format!("the token is longer than the limit token_bytes of {limit} bytes");
        Err(Failure {
            sign_in: true,
            ..Failure::new(StatusCode::UNAUTHORIZED, "token_too_large", message)
        })
    } else {
        console.gate().check(token).await.map_err(Failure::from)
    };
    let next = if is_ours(&form.next) {
        &form.next
    } else {
        "/funcs"
    };
    let identity = match checked {
        Ok(identity) => identity,
        Err(failure) if frame.form == Form::Page => {
            let page = pages::failure::sign_in(&console, &frame, Some(&failure), next);
            return Ok((failure.status, Html(page.into_string())).into_response());
        }
        Err(failure) => return Err(failure),
    };
    let now = console.now();
    let longest = SignedDuration::try_from(console.config().session_time);
    let longest = now.checked_add(longest.unwrap_or(SignedDuration::from_hours(1)));
    let ends_at = longest.map_or(identity.expires_at, |longest| {
        longest.min(identity.expires_at)
    });
    let home = format!("/funcs/{}", console.gate().home(&identity.subject));
    let session = Session {
        subject: identity.subject,
        ends_at,
    };
    let seconds = ends_at.duration_since(now).as_secs();
    let sealed = console.seal(&session);
    let field = sealed.and_then(|text| set_session(console.config(), &text, seconds));
    let field = field.ok_or_else(|| {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Failure::new(status, "internal", "no session could be made")
    })?;
    Ok(with_cookie(
        to(if next == "/funcs" { &home } else { next }),
        Some(field),
    ))
}

/// Takes the session away.
pub(super) async fn sign_out(
    State(console): State<Console>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    check_origin(&console, &headers)?;
    Ok(with_cookie(
        to("/funcs/_sign-in"),
        set_session(console.config(), "", 0),
    ))
}

/// Keeps the language that was chosen.
pub(super) async fn language(
    State(console): State<Console>,
    headers: HeaderMap,
    Fields(choice): Fields<Choice>,
) -> Result<Response, Failure> {
    check_origin(&console, &headers)?;
    let language = Language::of_code(&choice.to)
        .ok_or_else(|| Failure::bad_request("field_invalid", "to: expected en or ru"))?;
    let next = if is_ours(&choice.next) {
        &choice.next
    } else {
        "/funcs"
    };
    Ok(with_cookie(
        to(next),
        set_language(console.config(), language.code()),
    ))
}

fn to(path: &str) -> Response {
    Redirect::to(path).into_response()
}

fn with_cookie(mut response: Response, field: Option<HeaderValue>) -> Response {
    if let Some(field) = field {
        response.headers_mut().append(SET_COOKIE, field);
    }
    response
}
