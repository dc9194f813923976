//! [`Trace`].

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use tracing::{Instrument as _, Span};

use super::{Around, Decorated, Operation};
use crate::{Clock, Error, ErrorKind, Result};

/// A backend whose calls are told to `tracing`.
///
/// Each call is a span `backend_call` at level debug, with `backend`, `operation` and `subject`, and
/// ends in one event with `outcome` (`ok`, the kind of the error, or `dropped`) and `duration_us`.
/// Errors that callers live with every day are told at level debug, others as warnings. No content
/// and no credential is in any of them: an [`Error`]'s text holds none.
pub type Trace<T> = Decorated<T, Traces>;

/// What a [`Trace`] puts around calls.
#[derive(Debug)]
pub struct Traces {
    backend: &'static str,
    clock: Arc<dyn Clock>,
}

impl<T> Trace<T> {
    /// Tells of the calls of `inner` under the name of this backend, and measures on `clock`.
    pub fn new(inner: T, backend: &'static str, clock: Arc<dyn Clock>) -> Self {
        Self::around(inner, Traces { backend, clock })
    }
}

/// A call under way. Dropped before it has ended, it says so.
struct Ending<'a> {
    clock: &'a dyn Clock,
    began: Duration,
    span: Span,
    ended: bool,
}

impl Ending<'_> {
    fn tell(&mut self, error: Option<&Error>) {
        self.ended = true;
        let _in_span = self.span.enter();
        let duration = self.clock.elapsed().saturating_sub(self.began);
        let duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        match error {
            None => tracing::debug!(outcome = "ok", duration_us, "call ended"),
            Some(error) if is_daily(error.kind()) => {
                let outcome = error.kind().as_str();
                tracing::debug!(outcome, reason = error.reason(), %error, duration_us, "call ended");
            }
            Some(error) => {
                let outcome = error.kind().as_str();
                tracing::warn!(outcome, reason = error.reason(), %error, duration_us, "call ended");
            }
        }
    }
}

/// Whether callers meet this without anything being wrong.
const fn is_daily(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NotFound
            | ErrorKind::AlreadyExists
            | ErrorKind::Conflict
            | ErrorKind::Invalid
            | ErrorKind::Expired
    )
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let _in_span = self.span.enter();
            let duration = self.clock.elapsed().saturating_sub(self.began);
            let duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
            tracing::debug!(outcome = "dropped", duration_us, "call ended");
        }
    }
}

impl Around for Traces {
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
        let span = tracing::debug_span!(
            "backend_call",
            backend = self.backend,
            operation = operation.name(),
            subject = %operation.subject(),
        );
        let clock = &*self.clock;
        let mut ending = Ending {
            clock,
            began: clock.elapsed(),
            span: span.clone(),
            ended: false,
        };
        let answer = call(arguments).instrument(span).await;
        ending.tell(answer.as_ref().err());
        answer
    }

    fn surrounds_invocations(&self) -> bool {
        true
    }
}
