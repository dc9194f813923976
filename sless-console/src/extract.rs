//! What handlers take out of a request, with the checks that come first.

use axum::{
    extract::{Form, FromRequest, FromRequestParts, RawPathParams, Request},
    response::{Html, IntoResponse, Response},
};
use http::{
    HeaderMap, StatusCode,
    header::{HOST, ORIGIN},
    request::Parts,
};
use maud::{Markup, html};
use serde::de::DeserializeOwned;
use sless_core::{Name, Namespace};

use crate::{
    Console,
    error::Failure,
    frame::{Frame, Viewer},
    negotiate, pages,
    text::Texts,
};

/// A request that may read this namespace.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) console: Console,
    pub(crate) frame: Frame,
    pub(crate) namespace: Namespace,
    /// Whether the one who asks may change it too.
    pub(crate) may_write: bool,
    name: Option<String>,
}

/// A request that may change this namespace, and was sent by the one who is signed in.
#[derive(Clone, Debug)]
pub(crate) struct Writing(pub(crate) Reading);

impl Reading {
    /// The resource in the path, the parameter `name`.
    pub(crate) fn name(&self) -> Result<Name, Failure> {
        let name = self.name.as_deref().unwrap_or_default();
        Ok(Name::new(name)?)
    }

    pub(crate) fn texts(&self) -> &'static Texts {
        self.frame.texts()
    }

    /// A path of this namespace.
    pub(crate) fn path(&self, below: impl std::fmt::Display) -> String {
        format!("/funcs/{}{below}", self.namespace)
    }

    /// The same for a part of the page of a function: as a page of its own it says of what it is a part.
    pub(crate) fn answer_part(
        &self,
        name: Option<&Name>,
        title: &str,
        content: Markup,
    ) -> Response {
        if self.frame.form == negotiate::Form::Fragment {
            return self.answer(title, content);
        }
        let whole = html! {
            p.back {
                @match name {
                    Some(name) => {
                        a href=(self.path(format_args!("/functions/{name}"))) { "← " (name) }
                    }
                    None => { a href=(self.path("")) { "← " (self.texts().back) } }
                }
            }
            h1 { (title) }
            (content)
        };
        self.answer(title, whole)
    }

    /// A whole page, or only its content for the console's own scripts.
    pub(crate) fn answer(&self, title: &str, content: Markup) -> Response {
        let html = match self.frame.form {
            negotiate::Form::Fragment => content,
            negotiate::Form::Page | negotiate::Form::Text => pages::layout::page(
                &self.console,
                &self.frame,
                Some(&self.namespace),
                title,
                content,
            ),
        };
        Html(html.into_string()).into_response()
    }
}

/// The frame that is around every route.
pub(crate) fn frame(parts: &Parts) -> Result<Frame, Failure> {
    parts
        .extensions
        .get::<Frame>()
        .cloned()
        .ok_or_else(|| Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "no frame"))
}

impl FromRequestParts<Console> for Reading {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, console: &Console) -> Result<Self, Failure> {
        let frame = frame(parts)?;
        let parameters = RawPathParams::from_request_parts(parts, console)
            .await
            .map_err(|_| Failure::missing())?;
        let parameter = |wanted: &str| {
            let found = parameters.iter().find(|(name, _)| *name == wanted);
            found.map(|(_, value)| value.to_owned())
        };
        let namespace = parameter("ns").ok_or_else(Failure::missing)?;
        let namespace = Namespace::new(namespace).map_err(|_| Failure::missing());
        let may_write = match (&frame.viewer, &namespace) {
            (Viewer::Refused(failure), _) => return Err(failure.clone()),
            (_, Err(_)) => false,
            (viewer, Ok(namespace)) => {
                let subject = viewer.subject();
                subject.is_some_and(|subject| console.opens(subject, namespace))
            }
        };
        if !may_write && !console.config().public {
            return Err(match frame.viewer.subject() {
                None => Failure::nobody(),
                Some(_) => Failure::other_namespace(),
            });
        }
        Ok(Self {
            console: console.clone(),
            frame,
            namespace: namespace?,
            may_write,
            name: parameter("name"),
        })
    }
}

impl FromRequestParts<Console> for Writing {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, console: &Console) -> Result<Self, Failure> {
        let reading = Reading::from_request_parts(parts, console).await?;
        if !reading.may_write {
            return Err(match reading.frame.viewer.subject() {
                None => Failure::nobody(),
                Some(_) => Failure::other_namespace(),
            });
        }
        if matches!(reading.frame.viewer, Viewer::Session(_)) {
            check_origin(console, &parts.headers)?;
        }
        Ok(Self(reading))
    }
}

/// Refuses what another site made a browser send.
///
/// Every browser says with a form or a script's request where it comes from: by `Sec-Fetch-Site` (Fetch
/// Metadata, section 2.4) on a trustworthy origin, and by `Origin` (RFC 6454, section 7) with every
/// method but GET and HEAD. What says neither and has the cookie all the same is no browser, and can
/// send a token instead.
pub(crate) fn check_origin(console: &Console, headers: &HeaderMap) -> Result<(), Failure> {
    let refused = |what: &str| {
        let message = format!("the request comes from another site: {what}");
        Err(Failure::new(StatusCode::FORBIDDEN, "cross_site", message))
    };
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    match text("sec-fetch-site") {
        Some("same-origin") => {}
        Some(_) => return refused("its Sec-Fetch-Site is not same-origin"),
        None if !headers.contains_key(ORIGIN) => {
            return refused("it has neither Sec-Fetch-Site nor Origin");
        }
        None => {}
    }
    if !headers.contains_key(ORIGIN) {
        return Ok(());
    }
    let origin = text(ORIGIN.as_str()).and_then(|origin| origin.split_once("://"));
    let ours = [text(HOST.as_str()), console.config().authority()];
    match origin {
        Some((_, host)) if ours.contains(&Some(host)) => Ok(()),
        _ => refused("its Origin is not ours"),
    }
}

/// The fields of a form.
#[derive(Clone, Debug)]
pub(crate) struct Fields<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Console> for Fields<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, console: &Console) -> Result<Self, Failure> {
        match Form::<T>::from_request(request, console).await {
            Ok(Form(fields)) => Ok(Self(fields)),
            Err(rejection) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
                let message = "the form is larger than its limit, form_bytes or call_bytes";
                Err(Failure::new(
                    rejection.status(),
                    "limit_form_bytes",
                    message,
                ))
            }
            Err(rejection) => Err(Failure::bad_request("form_invalid", rejection.body_text())),
        }
    }
}

/// What stands behind the `?` of an address.
#[derive(Clone, Debug)]
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Console> for Query<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &Console) -> Result<Self, Failure> {
        match axum::extract::Query::<T>::try_from_uri(&parts.uri) {
            Ok(axum::extract::Query(query)) => Ok(Self(query)),
            Err(error) => Err(Failure::bad_request("query_invalid", error.body_text())),
        }
    }
}
