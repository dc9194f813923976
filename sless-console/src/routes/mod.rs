//! All routes: one file per domain.

mod call;
mod calls;
mod deploy;
mod functions;
mod letters;
mod logs;
mod session;
mod source;
mod triggers;

use axum::{
    Router,
    extract::{DefaultBodyLimit, Path, State},
    middleware::from_fn_with_state,
    response::{IntoResponse, Response},
    routing::{get, patch, post},
};

use crate::{Console, error::Failure, events, frame};

/// A character of a form may take three bytes on the way.
const FORM_GROWTH: usize = 3;

/// The console as a function from requests to answers.
pub(crate) fn router(console: &Console) -> Router {
    let config = console.config();
    let form_bytes = DefaultBodyLimit::max(config.form_bytes);
    let call_bytes = config.call_bytes.saturating_mul(FORM_GROWTH) + config.form_bytes;
    // The engine holds zips to a limit of its own.
    let deploy = post(deploy::deploy).layer(DefaultBodyLimit::disable());
    let call = post(call::call).layer(DefaultBodyLimit::max(call_bytes));
    let around = from_fn_with_state(console.clone(), frame::around);
    let one = "/funcs/{ns}/functions/{name}";
    Router::new()
        .route("/funcs", get(session::home))
        .route("/funcs/", get(session::home))
        .route("/funcs/_sign-in", get(session::page).post(session::sign_in))
        .route("/funcs/_sign-out", post(session::sign_out))
        .route("/funcs/_language", post(session::language))
        .route("/funcs/_assets/{folder}/{file}", get(asset))
        .route("/funcs/{ns}", get(functions::list))
        .route("/funcs/{ns}/events", get(events::follow))
        .route("/funcs/{ns}/source/{name}", get(source::read))
        .route(
            "/funcs/{ns}/triggers/{name}",
            patch(triggers::patch).post(triggers::switch),
        )
        .route(
            "/funcs/{ns}/triggers/{name}/dead-letters",
            get(letters::list).post(letters::redrive),
        )
        .route(one, get(functions::read))
        .route(&format!("{one}/switch"), post(triggers::switch_function))
        .route(&format!("{one}/calls"), get(calls::list))
        .route(&format!("{one}/logs"), get(logs::read))
        .route(&format!("{one}/delete"), post(functions::delete))
        .layer(form_bytes)
        .route(&format!("{one}/call"), call)
        .route("/funcs/{ns}/deploy", deploy)
        .route("/funcs/{ns}/{*rest}", get(missing).fallback(missing))
        .layer(around)
        .with_state(console.clone())
}

async fn missing() -> Failure {
    Failure::missing()
}

async fn asset(
    State(console): State<Console>,
    Path((folder, file)): Path<(String, String)>,
) -> Response {
    let answer = console.assets().answer(&folder, &file);
    if answer.0.is_success() {
        answer.into_response()
    } else {
        Failure::missing().into_response()
    }
}

/// Whether an address leads to the console and nowhere else.
fn is_ours(next: &str) -> bool {
    let below = next.strip_prefix("/funcs");
    below.is_some_and(|below| {
        (below.is_empty() || below.starts_with(['/', '?']))
            && below
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b'\\')
    })
}

#[cfg(test)]
mod tests {
    use super::is_ours;

    #[test]
    fn nobody_is_sent_elsewhere() {
        for ours in ["/funcs", "/funcs/a", "/funcs/a?find=b", "/funcs?x"] {
            assert!(is_ours(ours), "{ours}");
        }
        for other in [
            "",
            "//evil",
            "/funcsx",
            "/fn/a/b",
            "https://evil/funcs",
            "/funcs/\r\nx",
            "/funcs/ ",
            "/funcs\\evil",
        ] {
            assert!(!is_ours(other), "{other}");
        }
    }
}
