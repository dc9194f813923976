//! [`Limit`].

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{Around, Decorated, Operation};
use crate::{Clock, Error, ErrorKind, Result, clock::timeout};

/// A backend that is called so many times at once.
///
/// Further calls wait, first come first served; too many of them, or too long a wait, is
/// [`Overloaded`](ErrorKind::Overloaded) with the limit's name. A call takes a place until the
/// backend has answered: bodies, watches and logs that stream afterwards take none.
///
/// Dropping the future gives the place, or the turn, to the next one.
pub type Limit<T> = Decorated<T, Limits>;

/// How many calls at once, and how many wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct LimitConfig {
    /// Calls at once.
    pub calls_at_once: usize,
    /// The most calls that wait.
    pub calls_waiting: usize,
    /// The longest wait.
    pub longest_wait: Duration,
}

impl Default for LimitConfig {
    /// 64 calls at once, 1,024 waiting, each at most 30 seconds.
    fn default() -> Self {
        Self {
            calls_at_once: 64,
            calls_waiting: 1_024,
            longest_wait: Duration::from_secs(30),
        }
    }
}

impl LimitConfig {
    /// So many calls at once.
    pub fn new(calls_at_once: usize) -> Self {
        Self {
            calls_at_once,
            ..Self::default()
        }
    }

    /// At most so many calls wait, each at most this long.
    #[must_use]
    pub const fn with_waiting(mut self, calls: usize, longest: Duration) -> Self {
        self.calls_waiting = calls;
        self.longest_wait = longest;
        self
    }
}

/// What a [`Limit`] puts around calls.
#[derive(Debug)]
pub struct Limits {
    config: LimitConfig,
    clock: Arc<dyn Clock>,
    places: Semaphore,
    waiting: AtomicUsize,
}

impl<T> Limit<T> {
    /// Limits the calls of `inner`. Waits are measured on `clock`.
    pub fn new(inner: T, config: LimitConfig, clock: Arc<dyn Clock>) -> Self {
        let places = Semaphore::new(config.calls_at_once.clamp(1, Semaphore::MAX_PERMITS));
        Self::around(
            inner,
            Limits {
                config,
                clock,
                places,
                waiting: AtomicUsize::new(0),
            },
        )
    }
}

impl Limits {
    async fn place(&self) -> Result<SemaphorePermit<'_>> {
        if let Ok(place) = self.places.try_acquire() {
            return Ok(place);
        }
        let LimitConfig {
            calls_waiting,
            longest_wait,
            ..
        } = self.config;
        let _waiting = Waiting::new(&self.waiting);
        if self.waiting.load(Ordering::Relaxed) > calls_waiting {
            let message = format!("limit calls_waiting of {calls_waiting} calls reached");
            return Err(overloaded(message, "limit_calls_waiting"));
        }
        match timeout(&*self.clock, longest_wait, self.places.acquire()).await {
            Ok(place) => place.map_err(|closed| Error::internal("closed").with_source(closed)),
            Err(_) => {
                let waited = longest_wait.as_millis();
                let message = format!("limit longest_wait of {waited} ms reached");
                Err(overloaded(message, "limit_longest_wait"))
            }
        }
    }
}

fn overloaded(message: String, reason: &'static str) -> Error {
    Error::new(ErrorKind::Overloaded, message).with_reason(reason)
}

struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Around for Limits {
    async fn around<'a, A, R, F>(
        &'a self,
        operation: Operation<'a>,
        arguments: A,
        call: F,
    ) -> Result<R>
    where
        A: Clone + Send + Sync + 'a,
        R: Send + 'a,
        F: Fn(A) -> BoxFuture<'a, Result<R>> + Send + Sync + 'a,
    {
        let _place = self
            .place()
            .await
            .map_err(|error| operation.name_in(error))?;
        call(arguments).await
    }
}
