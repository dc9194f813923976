//! The connection to the server, shared by everything that uses it.

use std::{
    fmt,
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

use jiff::Timestamp;
use sless_api::client::Client;

/// The server, and on whose behalf it is spoken to.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    /// When the token expires, where it says so.
    pub(crate) expires: Option<Timestamp>,
}

impl Session {
    /// That the token has expired, in a sentence, where it has.
    pub(crate) fn expired(&self) -> Option<String> {
        let expires = self
            .expires
            .filter(|expires| *expires <= Timestamp::now())?;
        Some(format!(
            "The token expired at {expires:.0}. Give the provider a new one and run it again."
        ))
    }
}

/// The session of a provider, which comes about when it is configured.
#[derive(Clone, Default)]
pub(crate) struct Connection(Arc<Inner>);

#[derive(Default)]
struct Inner {
    session: OnceLock<Arc<Session>>,
    /// Why there is none.
    missing: RwLock<Option<String>>,
}

impl Connection {
    pub(crate) fn establish(&self, session: Session) {
        // Configured twice, the first one stays: Terraform configures once.
        let _ = self.0.session.set(Arc::new(session));
    }

    /// There is no session yet, for this reason.
    pub(crate) fn is_missing(&self, why: String) {
        let missing = self.0.missing.write();
        *missing.unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    pub(crate) fn session(&self) -> Option<Arc<Session>> {
        self.0.session.get().cloned()
    }

    /// Why there is no session.
    pub(crate) fn why_missing(&self) -> String {
        let missing = self.0.missing.read();
        let missing = missing.unwrap_or_else(PoisonError::into_inner);
        missing
            .clone()
            .unwrap_or_else(|| "the provider is not configured".to_owned())
    }

    /// The session, or an error that says why there is none.
    pub(crate) fn demand(&self, operation: &tfplugin::Operation) -> Option<Arc<Session>> {
        let session = self.session();
        if session.is_none() {
            operation.error(
                "The provider cannot reach its server yet",
                self.why_missing(),
            );
        }
        session
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}
