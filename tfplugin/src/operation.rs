//! One operation on one object, while it goes on.

use std::{
    fmt,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{Diagnostics, Path, Private, Value};

/// Why an operation has to end now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Interrupt {
    /// Terraform asked to stop, as after Ctrl-C, or is gone.
    Stopped,
    /// The operation took longer than it may.
    TimedOut,
}

/// One operation on one object. Clones are the same operation.
///
/// What it is told outlives a panic, a time-out and a stop: an object that exists is saved with
/// [`save`](Self::save) as soon as that is known, and is then in the state whatever comes after.
#[derive(Clone)]
pub struct Operation {
    inner: Arc<Inner>,
}

struct Inner {
    stop: CancellationToken,
    timeout: Duration,
    deadline: Instant,
    told: Mutex<Told>,
}

/// What an operation was told.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) state: Value,
    pub(crate) saved: bool,
    pub(crate) private: Private,
    pub(crate) diagnostics: Diagnostics,
}

impl Operation {
    pub(crate) fn new(
        stop: CancellationToken,
        timeout: Duration,
        state: Value,
        private: Private,
    ) -> Self {
        let far = Duration::from_secs(60 * 60 * 24 * 365);
        Self {
            inner: Arc::new(Inner {
                stop,
                timeout,
                deadline: Instant::now() + timeout.min(far),
                told: Mutex::new(Told {
                    state,
                    saved: false,
                    private,
                    diagnostics: Diagnostics::default(),
                }),
            }),
        }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        // What was told before a panic is what matters then.
        self.inner
            .told
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn snapshot(&self) -> Told {
        self.told().clone()
    }

    /// The state as of now; null says that there is no object. May be called again.
    pub fn save(&self, state: &Value) {
        let mut told = self.told();
        told.state.clone_from(state);
        told.saved = true;
    }

    /// What is kept beside the state.
    pub fn private(&self) -> Private {
        self.told().private.clone()
    }

    /// Changes what is kept beside the state.
    pub fn change_private(&self, change: impl FnOnce(&mut Private)) {
        change(&mut self.told().private);
    }

    /// The operation failed.
    pub fn error(&self, summary: impl Into<String>, detail: impl Into<String>) {
        self.told().diagnostics.error(summary, detail);
    }

    /// The operation failed because of this attribute.
    pub fn error_at(
        &self,
        path: impl Into<Path>,
        summary: impl Into<String>,
        detail: impl Into<String>,
    ) {
        self.told().diagnostics.error_at(path, summary, detail);
    }

    /// The operation goes on.
    pub fn warning(&self, summary: impl Into<String>, detail: impl Into<String>) {
        self.told().diagnostics.warning(summary, detail);
    }

    /// Whether it has failed already.
    pub fn has_failed(&self) -> bool {
        self.told().diagnostics.has_error()
    }

    /// How long it may take as a whole.
    pub fn timeout(&self) -> Duration {
        self.inner.timeout
    }

    /// How long it may go on.
    pub fn remaining(&self) -> Duration {
        self.inner
            .deadline
            .saturating_duration_since(Instant::now())
    }

    /// Waits until it has to end.
    pub async fn interrupted(&self) -> Interrupt {
        tokio::select! {
            biased;
            () = self.inner.stop.cancelled() => Interrupt::Stopped,
            () = tokio::time::sleep_until(self.inner.deadline) => Interrupt::TimedOut,
        }
    }

    /// Runs something that may be dropped half-way, until the operation has to end.
    ///
    /// # Errors
    /// Why it has to end; what was under way is dropped then. So nothing that creates is run here.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, Interrupt> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            interrupt = self.interrupted() => Err(interrupt),
        }
    }

    /// Sleeps, until the operation has to end.
    ///
    /// # Errors
    /// Why it has to end.
    pub async fn pause(&self, pause: Duration) -> Result<(), Interrupt> {
        self.run(tokio::time::sleep(pause)).await
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operation")
            .field("timeout", &self.inner.timeout)
            .finish_non_exhaustive()
    }
}
