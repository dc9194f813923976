//! From settings to a running server.

use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use sless_core::{Options, Retention, Roles, Sless, source::SourceLimits};
use tokio::net::TcpListener;

use crate::{
    AppState, Drained, ServeConfig,
    auth::{
        AuthMode, Authenticator, Hs256Key, Jwks, JwksConfig, JwksError, KeyFileError, TokenLimits,
    },
    backends::{self, Assembled},
    metrics::Metrics,
    routes::{self, Routes},
    serve,
    settings::{AuthKind, Limits, Role, Settings},
};

/// Why a server did not start, or did not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A backend, or the engine on it, cannot begin.
    #[error("the backends cannot be opened")]
    Backend(#[from] sless_core::Error),
    /// The shared secret cannot be used.
    #[error("the shared secret of SLESS_AUTH=hs256 cannot be used")]
    Key(#[from] KeyFileError),
    /// The key of the console's sessions cannot be used.
    #[error("the key of the console's sessions, SLESS_CONSOLE_KEY_FILE, cannot be used")]
    ConsoleKey(#[source] KeyFileError),
    /// The identity provider's keys cannot be asked for.
    #[error("the keys of SLESS_AUTH=jwks cannot be used")]
    Jwks(#[from] JwksError),
    /// The address is taken, or is not ours.
    #[error("SLESS_LISTEN is {address}: it cannot be listened on")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
}

/// A server that has its backends and its listener, and takes requests once it is run.
#[derive(Debug)]
pub struct App {
    assembled: Assembled,
    sless: Sless,
    state: AppState,
    routes: Routes,
    listener: TcpListener,
    config: ServeConfig,
}

impl App {
    /// Opens the backends, starts the engine, and takes the port.
    ///
    /// # Errors
    /// [`StartError`] naming what cannot be had.
    pub async fn start(settings: &Settings) -> Result<Self, StartError> {
        let address = settings.listen;
        let failed = |source| StartError::Listen { address, source };
        // First, since a second server on one machine is told fastest by its port.
        let listener = listen(address).await.map_err(failed)?;
        let authenticator = authenticator(settings)?;
        if asks_for_tokens(settings) {
            authenticator.prepare().await;
        }
        let assembled = backends::open(settings).await?;
        let metrics = Metrics::new();
        let mut options = options(settings, &metrics);
        if address.port() == 0 && settings.external_url == format!("http://{address}") {
            // Only now is it known which port the system gave.
            options.external_url = format!("http://{}", listener.local_addr().map_err(failed)?);
        }
        let sless = Sless::with_options(assembled.backends.clone(), options)?;
        let limits = settings.limits.clone();
        let authenticator = Arc::new(authenticator);
        let mut state = AppState::new(sless.clone(), authenticator.clone(), limits, metrics)
            .with_parts(assembled.parts().into());
        state.apart = routes::Apart::new(settings);
        if settings.has_role(Role::Console) {
            state.console = Some(routes::open_console(settings, &sless, authenticator)?);
        }
        let routes = if settings.has_role(Role::Api) {
            routes::routes(state.clone())
        } else {
            routes::operations_only(state.clone())
        };
        let config = ServeConfig::new(&settings.limits, settings.drain_timeout);
        Ok(Self {
            assembled,
            sless,
            state,
            routes,
            listener,
            config,
        })
    }

    /// The engine.
    pub fn sless(&self) -> &Sless {
        &self.sless
    }

    /// Where it listens.
    ///
    /// # Errors
    /// What the system says.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` is done; then drains, and closes the backends.
    ///
    /// # Errors
    /// What [`serve`] says.
    pub async fn run(self, stop: impl Future<Output = ()>) -> io::Result<()> {
        let Self {
            assembled,
            sless,
            state,
            routes,
            listener,
            config,
        } = self;
        let metrics = state.metrics.clone();
        let told = async {
            stop.await;
            tracing::info!(limit = ?config.drain_timeout, "stopping: requests under way may end");
            state.drain();
        };
        let served = serve(listener, routes, &config, metrics, told).await;
        if let Ok(Drained::CutOff) = served {
            tracing::warn!(limit = ?config.drain_timeout, "requests were cut off");
        }
        sless.shutdown().await;
        assembled.shutdown(config.drain_timeout).await;
        served.map(drop)
    }
}

/// How long a port that is taken is tried again: a child that a killed server was about to start has a copy of
/// its socket until the child's own program runs.
const PORT_WAIT: Duration = Duration::from_secs(2);

/// How often it is tried.
const PORT_LOOK: Duration = Duration::from_millis(20);

async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let began = Instant::now();
    loop {
        match TcpListener::bind(address).await {
            Err(error)
                if error.kind() == io::ErrorKind::AddrInUse && began.elapsed() < PORT_WAIT =>
            {
                tokio::time::sleep(PORT_LOOK).await;
            }
            bound => return bound,
        }
    }
}

/// What an uploaded zip may hold, under these limits.
pub(crate) fn source_limits(limits: &Limits) -> SourceLimits {
    let mut source = SourceLimits::default();
    source.zip_bytes = limits.zip_bytes;
    source.total_bytes = limits.source_bytes;
    source.entries = limits.source_entries;
    source.file_bytes = limits.source_file_bytes;
    source
}

/// How often sources are looked for whose function is gone, where they are stored in a folder of ours.
const SWEEP: Duration = Duration::from_secs(6 * 3600);

fn options(settings: &Settings, metrics: &Metrics) -> Options {
    let limits = &settings.limits;
    let mut options = Options::default();
    options.roles = Roles {
        operator: settings.has_role(Role::Operator),
        dispatcher: settings.has_role(Role::Dispatcher),
    };
    options.external_url.clone_from(&settings.external_url);
    options.source_limits = source_limits(limits);
    options.uploads_at_once = limits.uploads;
    options.validation = settings.validation.policy;
    if let Some(kubernetes) = &settings.kubernetes {
        options.lease_ttl = kubernetes.lease_ttl;
        options.runtimes.clone_from(&kubernetes.runtimes);
    }
    if let Some(llm) = &settings.services.llm {
        // The model's own time ends first, and says more.
        options.validation_timeout = llm.timeout + Duration::from_secs(1);
    }
    // A folder of this process's own; a bucket may have sources of other installations in it.
    options.sweep = settings.services.s3.is_none().then_some(SWEEP);
    options.drain = settings.drain_timeout;
    options.retention = Retention {
        max_age: limits.invocations_kept_for,
        max_records: limits.invocations_kept,
    };
    options.observer = Some(Arc::new(metrics.clone()));
    options
}

/// Whether this process has routes that ask for a token.
fn asks_for_tokens(settings: &Settings) -> bool {
    settings.has_role(Role::Api) || settings.has_role(Role::Console)
}

/// A process without routes that ask for a token needs no key.
fn authenticator(settings: &Settings) -> Result<Authenticator, StartError> {
    let (limits, asks) = (&settings.limits, asks_for_tokens(settings));
    let settings = &settings.auth;
    let mode = match (settings.kind, &settings.jwks_url) {
        _ if !asks => AuthMode::Structural,
        (AuthKind::Jwks, Some(url)) => AuthMode::Jwks(Jwks::new(JwksConfig::new(url))?),
        (AuthKind::Structural, _) => AuthMode::Structural,
        _ => AuthMode::Hs256(Hs256Key::load_or_create(&settings.hs256_key_file)?),
    };
    let token = TokenLimits {
        token_bytes: limits.token_bytes,
        ..TokenLimits::default()
    };
    Ok(Authenticator::new(mode, settings.admin_subs.iter().cloned()).with_limits(token))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[tokio::test]
    async fn a_port_that_is_given_up_in_a_moment_is_taken() {
        let held = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = held.local_addr().unwrap();
        let given_up = async { drop(held) };
        let (bound, ()) = tokio::join!(biased; listen(address), given_up);
        assert_eq!(bound.unwrap().local_addr().unwrap(), address);
    }
}
