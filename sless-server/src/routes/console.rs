//! The web console on this server, and what keeps it and functions apart.
//!
//! Functions are somebody's code. Where their pages and the console are on one host, a script of such a
//! page could read the console with the session of whoever looks at it, and no check of the console's
//! own could tell. So either the console has a host of its own (`SLESS_CONSOLE_HOST`), or a browser is
//! told to keep pages of functions to themselves (`SLESS_CONSOLE_SANDBOX`).

use std::sync::Arc;

use async_trait::async_trait;
use axum::{
    Router,
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
};
use hyper::header::{CONTENT_SECURITY_POLICY, HOST, HeaderMap, HeaderValue, SET_COOKIE};
use jiff::Timestamp;
use sless_console::{Console, ConsoleConfig, Gate, Identity, Refusal, SESSION_COOKIE, SessionKey};
use sless_core::{Namespace, Sless};

use crate::{
    app::StartError,
    auth::{Hs256Key, SharedAuthenticator},
    error::ApiError,
    settings::Settings,
};

/// What a page of a function may do in a browser: everything that needs no origin.
const SANDBOX: &str = "sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts \
                       allow-top-navigation-by-user-activation";

/// Opens the console.
pub(crate) fn open(
    settings: &Settings,
    sless: &Sless,
    authenticator: SharedAuthenticator,
) -> Result<Console, StartError> {
    let given = &settings.console;
    let beside = || settings.data_dir.join("console.key");
    let path = given.key_file.clone().unwrap_or_else(beside);
    let key = Hs256Key::load_or_create(&path).map_err(StartError::ConsoleKey)?;
    let external_url = &sless.options().external_url;
    let external_url = match (&given.host, external_url.split_once("://")) {
        (Some(host), Some((scheme, _))) => format!("{scheme}://{host}"),
        _ => external_url.clone(),
    };
    let mut config = ConsoleConfig::new(external_url).with_public(given.public);
    config.token_bytes = settings.limits.token_bytes;
    config.source_bytes = settings.limits.source_view_bytes as u64;
    config.upload_time = settings.limits.upload_timeout;
    if given.public {
        tracing::warn!(
            "SLESS_CONSOLE_PUBLIC=true: whoever reaches this server can read all functions, their \
             source, their logs and their calls"
        );
    }
    let gate = Arc::new(TokenGate(authenticator));
    Ok(Console::new(
        sless.clone(),
        gate,
        SessionKey::new(key.secret()),
        config,
    ))
}

/// The tokens of the REST API open the console too.
#[derive(Debug)]
struct TokenGate(SharedAuthenticator);

#[async_trait]
impl Gate for TokenGate {
    async fn check(&self, token: &str) -> Result<Identity, Refusal> {
        let checked = self.0.authenticate(token, Timestamp::now()).await;
        let principal = checked.map_err(|error| Refusal {
            status: error.status(),
            code: error.code(),
            message: error.to_string(),
        })?;
        Ok(Identity {
            subject: principal.sub,
            expires_at: principal.expires_at,
        })
    }

    fn home(&self, subject: &str) -> Namespace {
        Namespace::of_subject(subject)
    }

    fn opens(&self, subject: &str, namespace: &Namespace) -> bool {
        self.home(subject) == *namespace || self.0.is_admin(subject)
    }
}

/// How functions and the console are kept apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Apart {
    /// The console's own host.
    host: Option<Arc<str>>,
    sandbox: bool,
}

impl Apart {
    pub(crate) fn new(settings: &Settings) -> Self {
        let given = &settings.console;
        Self {
            host: given.host.as_deref().map(Into::into),
            sandbox: given.sandbox && given.host.is_none(),
        }
    }

    /// All routes but those of functions, each only on its host.
    pub(super) fn hosts(&self, routes: Router) -> Router {
        match &self.host {
            Some(_) => routes.layer(from_fn_with_state(self.clone(), own_host)),
            None => routes,
        }
    }

    /// The answer to a request that came to the other one's host.
    pub(super) fn refuses(&self, request: &Request) -> Option<Response> {
        let host = self.host.as_deref()?;
        let asked = request.headers().get(HOST);
        let is_console = asked
            .and_then(|asked| asked.to_str().ok())
            .is_some_and(|asked| asked.eq_ignore_ascii_case(host));
        let path = request.uri().path();
        let below = |root: &str| {
            let rest = path.strip_prefix(root);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let refused = (below("/funcs") && !is_console) || (below("/fn") && is_console);
        refused.then(|| ApiError::no_route(path).into_response())
    }

    /// Sees to it that a browser keeps the page of a function to itself.
    pub(super) fn keep_apart(&self, response: &mut Response) {
        if !self.sandbox {
            return;
        }
        let headers = response.headers_mut();
        // Beside whatever policy the function has of its own: a browser keeps to all of them.
        headers.append(CONTENT_SECURITY_POLICY, HeaderValue::from_static(SANDBOX));
        drop_session_cookies(headers);
    }
}

async fn own_host(State(apart): State<Apart>, request: Request, next: Next) -> Response {
    match apart.refuses(&request) {
        Some(refused) => refused,
        None => next.run(request).await,
    }
}

/// A function has no say in who is signed in.
fn drop_session_cookies(headers: &mut HeaderMap) {
    let names_ours = |field: &HeaderValue| {
        let name = field.as_bytes().split(|byte| *byte == b'=').next();
        name.is_some_and(|name| name.trim_ascii() == SESSION_COOKIE.as_bytes())
    };
    if !headers.get_all(SET_COOKIE).iter().any(names_ours) {
        return;
    }
    let kept: Vec<_> = headers
        .get_all(SET_COOKIE)
        .iter()
        .filter(|field| !names_ours(field))
        .cloned()
        .collect();
    headers.remove(SET_COOKIE);
    for field in kept {
        headers.append(SET_COOKIE, field);
    }
}
