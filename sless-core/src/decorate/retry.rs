//! [`Retry`].

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use backon::{BackoffBuilder as _, ExponentialBuilder};
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

use super::{Around, Decorated, Operation};
use crate::{Clock, Error, ErrorKind, Result};

/// A backend whose calls are made again where they failed for a passing reason.
///
/// A call is repeated if its error's [`Retry`](crate::Retry) class says that it can help, the error
/// is no [`Conflict`](ErrorKind::Conflict) (the same call meets it again: read first), and the
/// operation [`is_repeatable`](Operation::is_repeatable). Bodies and watches that break off later
/// are not resumed: the call that began them had succeeded.
///
/// An update whose first attempt was carried out although it failed answers `Conflict` on the
/// second: the caller reads again, as on any conflict.
///
/// Dropping the future ends the attempt, or the wait, that it is in.
pub type Retry<T> = Decorated<T, Retries>;

/// How often and when a [`Retry`] repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RetryConfig {
    /// Attempts in all, the first included.
    pub attempts: u32,
    /// The delay before the second attempt; it doubles from there.
    pub min_delay: Duration,
    /// The longest delay. Jitter, up to as much again, comes on top. An error that asks for a longer
    /// one ([`Retry::After`](crate::Retry::After)) is passed on, since the caller can wait better.
    pub max_delay: Duration,
    /// Where jitter begins. Give each process its own, so that they do not come back together; the
    /// same one gives the same delays.
    pub seed: u64,
}

impl Default for RetryConfig {
    /// Four attempts, after 100 ms and up to 5 s, with the seed 0.
    fn default() -> Self {
        Self {
            attempts: 4,
            min_delay: Duration::from_millis(100),
            max_delay: Duration::from_secs(5),
            seed: 0,
        }
    }
}

impl RetryConfig {
    /// So many attempts, the first included.
    #[must_use]
    pub const fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Delays from and up to these.
    #[must_use]
    pub const fn with_delays(mut self, min: Duration, max: Duration) -> Self {
        self.min_delay = min;
        self.max_delay = max;
        self
    }

    /// Where jitter begins.
    #[must_use]
    pub const fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }
}

/// What a [`Retry`] puts around calls.
#[derive(Debug)]
pub struct Retries {
    config: RetryConfig,
    clock: Arc<dyn Clock>,
    calls: AtomicU64,
}

impl<T> Retry<T> {
    /// Repeats the calls of `inner`, and waits on `clock`.
    pub fn new(inner: T, config: RetryConfig, clock: Arc<dyn Clock>) -> Self {
        Self::around(
            inner,
            Retries {
                config,
                clock,
                calls: AtomicU64::new(0),
            },
        )
    }
}

impl Retries {
    fn delays(&self) -> impl Iterator<Item = Duration> + Send + use<> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        ExponentialBuilder::new()
            .with_min_delay(self.config.min_delay)
            .with_max_delay(self.config.max_delay)
            .with_max_times(self.config.attempts.saturating_sub(1) as usize)
            .with_jitter()
            .with_jitter_seed(self.config.seed.wrapping_add(call))
            .build()
    }

    /// How long to wait before the next attempt; `None` where there is none.
    fn wait(&self, error: &Error, delay: Option<Duration>) -> Option<Duration> {
        if error.kind() == ErrorKind::Conflict {
            return None;
        }
        match error.retry() {
            crate::Retry::Never => None,
            crate::Retry::Transient => delay,
            crate::Retry::After(after) if after > self.config.max_delay => None,
            crate::Retry::After(after) => delay.map(|delay| delay.max(after)),
        }
    }
}

impl Around for Retries {
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
        let error = match call(arguments.clone()).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let (mut error, mut attempt, mut delays) = (error, 1_u32, self.delays());
        loop {
            if !operation.is_repeatable() {
                return Err(error);
            }
            let Some(wait) = self.wait(&error, delays.next()) else {
                return Err(error);
            };
            tracing::debug!(
                operation = operation.name(),
                subject = %operation.subject(),
                attempt,
                wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                %error,
                "a call failed and is repeated",
            );
            self.clock.sleep(wait).await;
            attempt += 1;
            match call(arguments.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(next) => error = next,
            }
        }
    }
}
