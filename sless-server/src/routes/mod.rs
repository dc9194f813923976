//! All routes: one file per domain.

mod console;
mod functions;
mod invocations;
mod jobs;
mod logs;
mod middleware;
mod namespaces;
mod operations;
mod proxy;
mod queues;
mod resources;
mod source;
mod triggers;
mod upload;

use axum::{
    Router,
    extract::{DefaultBodyLimit, Request},
    middleware::from_fn_with_state,
    response::{IntoResponse, Response},
};
use tower::ServiceExt as _;
use utoipa::openapi::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{auth, error::ApiError, serve::Peer, state::AppState};

pub(crate) use console::{Apart, open as open_console};
use proxy::Functions;
use resources::{delete, modify};

/// The server as a function from requests to answers.
///
/// Calls of functions are apart from what axum routes: most requests are, and each layer costs.
#[derive(Clone, Debug)]
pub struct Routes {
    functions: Option<Functions>,
    others: Router,
}

impl Routes {
    /// Answers one request, that came from this peer.
    pub(crate) async fn answer(&self, mut request: Request, peer: Option<Peer>) -> Response {
        match &self.functions {
            Some(functions) if Functions::has(request.uri().path()) => {
                functions.answer(request, peer).await
            }
            _ => {
                if let Some(peer) = peer {
                    request.extensions_mut().insert(peer);
                }
                match self.others.clone().oneshot(request).await {
                    Ok(response) => response,
                    Err(never) => match never {},
                }
            }
        }
    }
}

/// Routes of one's own.
impl From<Router> for Routes {
    fn from(others: Router) -> Self {
        Self {
            functions: None,
            others,
        }
    }
}

/// All routes of a server.
pub fn routes(state: AppState) -> Routes {
    let (guarded, _) = guarded().split_for_parts();
    let document = operations::Document::new(&document());
    let timed = from_fn_with_state(state.clone(), middleware::time_limit);
    let guard = from_fn_with_state(state.authenticator.clone(), auth::guard);
    let (streams, _) = streams().split_for_parts();
    // An upload as a form is held to the limits of any upload, and not to those of axum.
    let streams = streams
        .route_layer(guard.clone())
        .layer(DefaultBodyLimit::disable());
    let guarded = guarded.route_layer(guard).route_layer(timed);
    let measured = from_fn_with_state(state.clone(), middleware::measure);
    let console = console_of(&state);
    let apart = state.apart.clone();
    let functions = Functions::new(state.clone());
    let others = Router::new()
        .merge(guarded)
        .merge(streams)
        .merge(operations::router(document))
        .fallback(|uri: axum::http::Uri| async move { ApiError::no_route(uri.path()) })
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(state)
        .merge(console)
        .layer(measured);
    Routes {
        // Public, so outside of the token check.
        functions: Some(functions),
        others: apart.hosts(others),
    }
}

/// The routes of the console, where this process has that role.
fn console_of(state: &AppState) -> Router {
    let console = state.console.as_ref();
    console.map_or_else(Router::new, sless_console::Console::router)
}

/// What a process without the role `api` answers: operations, and the console where it has that role.
pub(crate) fn operations_only(state: AppState) -> Routes {
    let (console, apart) = (console_of(&state), state.apart.clone());
    let routes = Router::new()
        .merge(operations::router(operations::Document::new(&document())))
        .fallback(|uri: axum::http::Uri| async move { ApiError::no_route(uri.path()) })
        .with_state(state)
        .merge(console);
    apart.hosts(routes).into()
}

/// The OpenAPI document of all routes.
pub fn document() -> OpenApi {
    let mut document = guarded().merge(streams()).into_openapi();
    operations::complete(&mut document);
    document
}

/// Routes behind the token check whose answers come at once.
fn guarded() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(namespaces::ensure))
        .routes(routes!(functions::list, functions::create))
        .routes(routes!(
            functions::read,
            functions::patch,
            functions::delete
        ))
        .routes(routes!(source::files))
        .routes(routes!(invocations::list))
        .routes(routes!(triggers::list, triggers::create))
        .routes(routes!(triggers::read, triggers::patch, triggers::delete))
        .routes(routes!(queues::dead_letters, queues::purge))
        .routes(routes!(queues::redrive))
        .routes(routes!(queues::publish))
        .routes(routes!(jobs::list, jobs::create))
        .routes(routes!(jobs::read, jobs::patch, jobs::delete))
}

/// Routes behind the token check that last as long as their bodies.
fn streams() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(upload::upload))
        .routes(routes!(source::zip))
        .routes(routes!(logs::read))
        .routes(routes!(jobs::logs))
}

async fn method_not_allowed(method: axum::http::Method, uri: axum::http::Uri) -> Response {
    let path: String = uri.path().chars().take(200).collect();
    let status = axum::http::StatusCode::METHOD_NOT_ALLOWED;
    ApiError::new(
        status,
        "method_not_allowed",
        format!("{path} has no {method}"),
    )
    .into_response()
}
