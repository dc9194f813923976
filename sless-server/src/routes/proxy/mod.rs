//! `/fn/{ns}/{name}` and below: the function itself, public, streaming both ways.

mod fields;
mod path;
mod trace;

use std::borrow::Cow;

use axum::{
    body::{Body, HttpBody as _},
    extract::Request,
    http::{HeaderValue, Method, Uri, header::CONTENT_LENGTH},
    response::{IntoResponse, Response},
};
use sless_core::{Call, Origin};

use super::middleware::measured;
use crate::{error::ApiError, serve::Peer, state::AppState};

/// What metrics call the route.
const ROUTE: &str = "/fn/{*rest}";

/// Calls of functions. They do not go through a router: it would look for one route among all, and wrap
/// request and answer once more for each layer around them.
#[derive(Clone, Debug)]
pub(super) struct Functions(AppState);

impl Functions {
    pub(super) fn new(state: AppState) -> Self {
        Self(state)
    }

    /// Whether a path is for a function.
    pub(super) fn has(path: &str) -> bool {
        path.strip_prefix("/fn/")
            .is_some_and(|rest| !rest.is_empty())
    }

    /// Answers a request for a function.
    pub(super) async fn answer(&self, request: Request, peer: Option<Peer>) -> Response {
        let state = &self.0;
        if let Some(refused) = state.apart.refuses(&request) {
            return refused;
        }
        let is_head = request.method() == Method::HEAD;
        let called = |request| call(state, request, peer);
        let mut response = measured(&state.metrics, Cow::Borrowed(ROUTE), request, called).await;
        state.apart.keep_apart(&mut response);
        if is_head {
            without_body(&mut response);
        }
        response
    }
}

/// Leaves the head as it is, with the length of the body that a GET would get (RFC 9110, section 9.3.2).
fn without_body(response: &mut Response) {
    let length = response.body().size_hint().exact();
    if let Some(length) = length {
        let fields = response.headers_mut();
        fields
            .entry(CONTENT_LENGTH)
            .or_insert_with(|| length.into());
    }
    *response.body_mut() = Body::empty();
}

/// Calls the function that the path means.
///
/// When the client leaves, the server drops this future or the answer's body, and with it the call,
/// which tells the function.
async fn call(state: &AppState, request: Request, peer: Option<Peer>) -> Response {
    let (mut head, body) = request.into_parts();
    let request_id = trace::request_id(&mut head.headers);
    let answered = match path::target(&head.uri) {
        Some(target) => {
            head.uri = target.tail;
            fields::clean_request(&mut head.headers);
            trace::trace_parent(&mut head.headers);
            #[cfg(feature = "otel")]
            crate::telemetry::hand_on_trace(&mut head.headers);
            // What was known of this connection is nothing that the function may see.
            head.extensions.clear();
            let request = axum::http::Request::from_parts(head, sless_core::Body::wrap(body));
            let mut call = Call::new(target.namespace, target.name, request)
                .from_origin(Origin::Http, None)
                .with_request_id(request_id.clone());
            call.caller = peer.map(|peer| peer.0.to_string());
            state.sless.call(call).await.map_err(ApiError::from)
        }
        None => Err(no_function(&head.uri)),
    };
    let mut response = match answered {
        Ok(response) => {
            let mut response = response.map(Body::new);
            fields::clean_response(response.headers_mut());
            response
        }
        Err(error) => {
            let word = HeaderValue::from_str(error.code()).ok();
            let mut response = error.into_response();
            if let Some(word) = word {
                response.headers_mut().insert(fields::ERROR, word);
            }
            response
        }
    };
    if let Ok(id) = HeaderValue::from_str(&request_id) {
        response.headers_mut().insert(trace::REQUEST_ID, id);
    }
    response
}

fn no_function(uri: &Uri) -> ApiError {
    let path: String = uri.path().chars().take(200).collect();
    let message = format!("{path} names no function: expected /fn/{{namespace}}/{{name}}");
    ApiError::new(
        axum::http::StatusCode::NOT_FOUND,
        "no_such_function",
        message,
    )
}
