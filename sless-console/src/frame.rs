//! What is around every route: who asks and how, header fields, and pages for what was refused.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Request, State},
    middleware::Next,
    response::{Html, IntoResponse, Response},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Uri,
    header::{
        AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, VARY,
        X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
    },
};

use crate::{
    Console,
    error::Failure,
    negotiate::{self, Form},
    pages,
    session::{SESSION_COOKIE, cookie},
    text::{Language, Texts},
};

/// Who asks, and how.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) form: Form,
    pub(crate) language: Language,
    /// Marks the console's own scripts and styles in this one answer.
    pub(crate) nonce: Arc<str>,
    /// Path and query of the request.
    pub(crate) path: Arc<str>,
    pub(crate) viewer: Viewer,
}

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) enum Viewer {
    /// Nobody who is known.
    Nobody,
    /// By the cookie, which a browser adds by itself.
    Session(Arc<str>),
    /// By a token in the request.
    Token(Arc<str>),
    /// A token that opens nothing.
    Refused(Failure),
}

impl Viewer {
    pub(crate) fn subject(&self) -> Option<&str> {
        match self {
            Self::Session(subject) | Self::Token(subject) => Some(subject),
            Self::Nobody | Self::Refused(_) => None,
        }
    }
}

impl Frame {
    async fn of(console: &Console, headers: &HeaderMap, uri: &Uri) -> Self {
        let path = uri
            .path_and_query()
            .map_or(uri.path(), |path| path.as_str());
        Self {
            form: Form::of(headers),
            language: negotiate::language(headers),
            nonce: nonce().into(),
            path: path.into(),
            viewer: viewer(console, headers).await,
        }
    }

    pub(crate) fn texts(&self) -> &'static Texts {
        self.language.texts()
    }
}

async fn viewer(console: &Console, headers: &HeaderMap) -> Viewer {
    if let Some(field) = headers.get(AUTHORIZATION) {
        let token = field.to_str().ok().and_then(|field| {
            let (scheme, token) = field.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        let Some(token) = token else {
            let message = "the Authorization field is not one bearer token";
            let status = http::StatusCode::UNAUTHORIZED;
            return Viewer::Refused(Failure::new(status, "token_request", message));
        };
        return match console.gate().check(token).await {
            Ok(identity) => Viewer::Token(identity.subject.into()),
            Err(refusal) => Viewer::Refused(refusal.into()),
        };
    }
    let session = cookie(headers, SESSION_COOKIE).and_then(|text| console.open_session(text));
    session.map_or(Viewer::Nobody, |session| {
        Viewer::Session(session.subject.into())
    })
}

fn nonce() -> String {
    let mut bytes = [0; 16];
    // Without random bytes no script runs and no style applies, which is the safe side.
    match getrandom::fill(&mut bytes) {
        Ok(()) => STANDARD.encode(bytes),
        Err(_) => String::new(),
    }
}

/// Puts the frame around a request and its answer.
pub(crate) async fn around(
    State(console): State<Console>,
    mut request: Request,
    next: Next,
) -> Response {
    // Copies, since a body cannot be looked at by two threads.
    let (headers, uri) = (request.headers().clone(), request.uri().clone());
    let frame = Frame::of(&console, &headers, &uri).await;
    let json =
        request.method() == Method::PATCH || negotiate::accepts(&headers, "application/json");
    request.extensions_mut().insert(frame.clone());
    let mut response = next.run(request).await;
    if response.status() == http::StatusCode::METHOD_NOT_ALLOWED
        && response.extensions().get::<Failure>().is_none()
    {
        let message = "this address has no such method";
        let failure = Failure::new(response.status(), "method_not_allowed", message);
        response.extensions_mut().insert(failure);
    }
    if let Some(failure) = response.extensions_mut().remove::<Failure>() {
        response = show(&console, &frame, &failure, json);
    }
    protect(&frame, response.headers_mut());
    response
}

/// What was refused, in the form that was asked for.
fn show(console: &Console, frame: &Frame, failure: &Failure, json: bool) -> Response {
    let Failure {
        status,
        code,
        message,
        ..
    } = failure;
    let mut response = match frame.form {
        Form::Page => {
            Html(pages::failure::page(console, frame, failure).into_string()).into_response()
        }
        Form::Fragment => {
            Html(pages::failure::fragment(frame, failure).into_string()).into_response()
        }
        Form::Text if json => {
            Json(serde_json::json!({"error": message, "code": code})).into_response()
        }
        Form::Text => format!("error: {message} ({code})\n").into_response(),
    };
    *response.status_mut() = *status;
    response
}

/// The fields that keep a browser from doing what the console does not ask for.
fn protect(frame: &Frame, headers: &mut HeaderMap) {
    const STATIC: [(HeaderName, &str); 6] = [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        // With no-referrer a form's `Origin` would be null.
        (REFERRER_POLICY, "same-origin"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("permissions-policy"),
            "camera=(), geolocation=(), microphone=()",
        ),
    ];
    for (name, value) in STATIC {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let nonce = &frame.nonce;
    // The nonce and not 'self': functions may live on this very origin, and must not be a source of
    // scripts for the console.
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src 'self'; \
         connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types sless"
    );
    if let Ok(policy) = HeaderValue::try_from(policy) {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    if !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(
            VARY,
            HeaderValue::from_static("accept, accept-language, authorization, cookie"),
        );
    }
    if !headers.contains_key(CONTENT_TYPE) {
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("text/plain; charset=utf-8"),
        );
    }
}
