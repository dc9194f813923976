//! The console as a value: what its routes share, and the router itself.

use std::sync::Arc;

use axum::Router;
use jiff::Timestamp;
use sless_core::{Namespace, Sless};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{
    ConsoleConfig, Gate, SessionKey,
    assets::Assets,
    routes,
    session::{Session, SessionKey as Key},
};

/// A web console on an engine. Clones are the same console.
///
/// Its [`router`](Console::router) answers under `/funcs`; a program mounts it by
/// [`Router::merge`](axum::Router::merge).
#[derive(Clone, Debug)]
pub struct Console(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    sless: Sless,
    gate: Arc<dyn Gate>,
    key: Key,
    config: ConsoleConfig,
    assets: Assets,
    streams: Arc<Semaphore>,
    closed: CancellationToken,
}

impl Console {
    /// A console on this engine, whose users are checked by `gate` and whose sessions are sealed with
    /// `key`.
    pub fn new(sless: Sless, gate: Arc<dyn Gate>, key: SessionKey, config: ConsoleConfig) -> Self {
        let streams = config.streams.min(Semaphore::MAX_PERMITS);
        Self(Arc::new(Inner {
            sless,
            gate,
            key,
            config,
            assets: Assets::new(),
            streams: Arc::new(Semaphore::new(streams)),
            closed: CancellationToken::new(),
        }))
    }

    /// The routes under `/funcs`.
    pub fn router(&self) -> Router {
        routes::router(self)
    }

    /// Ends all streams of events, and begins no more, so that a server can drain. Browsers connect
    /// again, to whoever listens then.
    pub fn close(&self) {
        self.0.closed.cancel();
    }

    pub(crate) fn sless(&self) -> &Sless {
        &self.0.sless
    }

    pub(crate) fn gate(&self) -> &dyn Gate {
        &*self.0.gate
    }

    pub(crate) fn config(&self) -> &ConsoleConfig {
        &self.0.config
    }

    pub(crate) fn assets(&self) -> &Assets {
        &self.0.assets
    }

    pub(crate) fn streams(&self) -> &Arc<Semaphore> {
        &self.0.streams
    }

    pub(crate) fn closed(&self) -> &CancellationToken {
        &self.0.closed
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.0.sless.backends().clock.now()
    }

    pub(crate) fn seal(&self, session: &Session) -> Option<String> {
        self.0.key.seal(session)
    }

    pub(crate) fn open_session(&self, text: &str) -> Option<Session> {
        self.0.key.open(text, self.now())
    }

    /// Whether this subject may see and change this namespace.
    pub(crate) fn opens(&self, subject: &str, namespace: &Namespace) -> bool {
        self.0.gate.opens(subject, namespace)
    }
}
