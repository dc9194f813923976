//! What all routes share.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use sless_console::Console;
use sless_core::Sless;

use crate::{
    auth::SharedAuthenticator, backends::Part, metrics::Metrics, routes::Apart, settings::Limits,
};

/// What all routes share. Clones are the same.
#[derive(Clone, Debug)]
pub struct AppState {
    /// The engine.
    pub sless: Sless,
    /// Checks tokens.
    pub authenticator: SharedAuthenticator,
    /// The named limits.
    pub limits: Arc<Limits>,
    /// What `/metrics` shows.
    pub metrics: Metrics,
    /// What the server stands on, for `/readyz`.
    pub(crate) parts: Arc<[Arc<dyn Part>]>,
    /// The web console, where this process has that role.
    pub(crate) console: Option<Console>,
    /// How functions and the console are kept apart.
    pub(crate) apart: Apart,
    draining: Arc<AtomicBool>,
}

impl AppState {
    /// The state of a server that takes requests.
    pub fn new(
        sless: Sless,
        authenticator: SharedAuthenticator,
        limits: Limits,
        metrics: Metrics,
    ) -> Self {
        Self {
            sless,
            authenticator,
            limits: Arc::new(limits),
            metrics,
            parts: Arc::default(),
            console: None,
            apart: Apart::default(),
            draining: Arc::default(),
        }
    }

    /// With what `/readyz` is to tell of.
    #[must_use]
    pub(crate) fn with_parts(mut self, parts: Arc<[Arc<dyn Part>]>) -> Self {
        self.parts = parts;
        self
    }

    /// From now on `/readyz` says no, so that nothing new is sent here.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        if let Some(console) = &self.console {
            console.close();
        }
    }

    /// Whether the server is about to stop.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}
