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
    Router, extract::DefaultBodyLimit, middleware::from_fn_with_state, response::IntoResponse,
    routing::any,
};
use utoipa::openapi::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{auth, error::ApiError, state::AppState};

pub(crate) use console::{Apart, open as open_console};
use resources::{delete, modify};

/// The server as a function from requests to answers.
pub fn router(state: AppState) -> Router {
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
    // Public, so outside of the token check.
    let functions = Router::new().route("/fn/{*rest}", any(proxy::call));
    let functions = state.apart.functions(functions);
    let console = console_of(&state);
    let apart = state.apart.clone();
    let routes = Router::new()
        .merge(guarded)
        .merge(streams)
        .merge(operations::router(document))
        .merge(functions)
        .fallback(|uri: axum::http::Uri| async move { ApiError::no_route(uri.path()) })
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(state)
        .merge(console)
        .layer(measured);
    apart.hosts(routes)
}

/// The routes of the console, where this process has that role.
fn console_of(state: &AppState) -> Router {
    let console = state.console.as_ref();
    console.map_or_else(Router::new, sless_console::Console::router)
}

/// What a process without the role `api` answers: operations, and the console where it has that role.
pub(crate) fn operations_only(state: AppState) -> Router {
    let (console, apart) = (console_of(&state), state.apart.clone());
    let routes = Router::new()
        .merge(operations::router(operations::Document::new(&document())))
        .fallback(|uri: axum::http::Uri| async move { ApiError::no_route(uri.path()) })
        .with_state(state)
        .merge(console);
    apart.hosts(routes)
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

async fn method_not_allowed(
    method: axum::http::Method,
    uri: axum::http::Uri,
) -> axum::response::Response {
    let path: String = uri.path().chars().take(200).collect();
    let status = axum::http::StatusCode::METHOD_NOT_ALLOWED;
    ApiError::new(
        status,
        "method_not_allowed",
        format!("{path} has no {method}"),
    )
    .into_response()
}
