//! `/fn/{ns}/{name}` and below: the function itself, public, streaming both ways.

mod fields;
mod path;
mod trace;

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderValue, Uri},
    response::{IntoResponse, Response},
};
use sless_core::{Call, Origin};

use crate::{error::ApiError, serve::Peer, state::AppState};

/// Calls the function that the path means.
///
/// When the client leaves, the server drops this future or the answer's body, and with it the call,
/// which tells the function.
pub(super) async fn call(State(state): State<AppState>, request: Request) -> Response {
    let (mut head, body) = request.into_parts();
    let request_id = trace::request_id(&mut head.headers);
    let answered = match path::target(&head.uri) {
        Some(target) => {
            head.uri = target.tail;
            fields::clean_request(&mut head.headers);
            trace::trace_parent(&mut head.headers);
            #[cfg(feature = "otel")]
            crate::telemetry::hand_on_trace(&mut head.headers);
            let caller = head.extensions.get::<Peer>().map(|peer| peer.0.to_string());
            // What was known of this connection is nothing that the function may see.
            head.extensions.clear();
            let request = axum::http::Request::from_parts(head, sless_core::Body::wrap(body));
            let mut call = Call::new(target.namespace, target.name, request)
                .from_origin(Origin::Http, None)
                .with_request_id(request_id.as_str());
            call.caller = caller;
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
