//! From settings to backends: a base that has all of them, and services put in the place of some.
//!
//! The base is chosen by `SLESS_BACKEND`. Each service that a setting names then replaces what the
//! base has of its kind, so that any mix works. A service is one file here, behind its cargo
//! feature, with one function `put_in(settings, &mut Assembled)` that is called from [`open`]: it
//! does nothing where its setting is absent, else connects, puts its trait object into
//! [`Assembled::backends`], and adds a [`Part`] where it has something to tell or to end.

#[cfg(feature = "amqp")]
mod amqp;
#[cfg(feature = "kubernetes")]
mod kubernetes;
#[cfg(feature = "llm")]
mod llm;
mod local;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "s3")]
mod s3;
mod validation;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use sless_core::Backends;

#[cfg(feature = "kubernetes")]
use crate::settings::BackendKind;
use crate::{StartError, settings::Settings};

/// What was opened, as one thing to run on and to close.
#[derive(Debug)]
pub(crate) struct Assembled {
    /// What the engine stands on.
    pub(crate) backends: Backends,
    /// What the names of the namespaces begin with that are this server's; all where empty.
    pub(crate) namespace_prefix: String,
    /// What is told of and closed, in the order in which it was opened.
    parts: Vec<Arc<dyn Part>>,
}

/// A base or a service that was opened.
#[async_trait]
pub(crate) trait Part: fmt::Debug + Send + Sync {
    /// What `/readyz` calls it.
    fn name(&self) -> &'static str;

    /// Whether it works now; if not, a sentence. Answers at once, from what is known.
    fn state(&self) -> Result<(), String>;

    /// Whether the process is of no use while this does not work, so that `/readyz` is 503. Where it
    /// is not, `/readyz` tells and stays 200: functions can be called without a broker.
    fn is_vital(&self) -> bool;

    /// What it tells beyond that, as a field of `/readyz` of its own.
    fn detail(&self) -> Option<(&'static str, serde_json::Value)> {
        None
    }

    /// Ends it, after the engine.
    async fn shutdown(&self);
}

impl Assembled {
    fn new(backends: Backends) -> Self {
        Self {
            backends,
            namespace_prefix: String::new(),
            parts: Vec::new(),
        }
    }

    /// Adds what is to be told of and closed.
    fn add(&mut self, part: impl Part + 'static) {
        self.parts.push(Arc::new(part));
    }

    /// What is told of.
    pub(crate) fn parts(&self) -> &[Arc<dyn Part>] {
        &self.parts
    }

    /// Closes what was opened, the last first. A part that takes far longer than `drain`, the time that what
    /// is under way has to end, is left: what it was at comes again, as after a crash.
    pub(crate) async fn shutdown(&self, drain: Duration) {
        let limit = drain + CLOSE;
        for part in self.parts.iter().rev() {
            if tokio::time::timeout(limit, part.shutdown()).await.is_err() {
                tracing::warn!(part = part.name(), ?limit, "a backend did not end in time");
            }
        }
    }
}

/// How long a part may take to close beyond the time that what is under way has to end.
const CLOSE: Duration = Duration::from_secs(30);

/// Opens what has all backends.
async fn base(settings: &Settings) -> Result<Assembled, StartError> {
    // Without its feature, the settings refuse it.
    #[cfg(feature = "kubernetes")]
    if settings.backend == BackendKind::Kubernetes {
        return kubernetes::open(settings).await;
    }
    local::open(settings).await
}

/// Opens what the settings ask for.
pub(crate) async fn open(settings: &Settings) -> Result<Assembled, StartError> {
    let mut opened = base(settings).await?;
    validation::put_in(settings, &mut opened)?;
    #[cfg(feature = "s3")]
    s3::put_in(settings, &mut opened).await?;
    #[cfg(feature = "amqp")]
    amqp::put_in(settings, &mut opened).await?;
    #[cfg(feature = "postgres")]
    postgres::put_in(settings, &mut opened).await?;
    if settings.services.database_url.is_none() {
        let kept = if opened.backends.invocations.is_some() {
            "by the base"
        } else {
            "nowhere"
        };
        tracing::info!(
            kept,
            "DATABASE_URL is not set: records of calls are not in PostgreSQL"
        );
    }
    Ok(opened)
}
