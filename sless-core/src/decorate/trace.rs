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

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        sync::{Mutex, PoisonError},
    };

    use tracing::instrument::WithSubscriber as _;

    use super::*;
    use crate::{
        Body, CallContext, PutOptions, Scheduler, Storage, StorageKey, VirtualClock, bytes_stream,
        decorate::{Fault, FaultRule, Faults},
        memory::{MemoryScheduler, MemoryStorage},
    };

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    // The only test in this binary that traces: `tracing` decides once, for all threads, whether
    // somebody listens to an event, and a test without a listener could come in between.
    #[tokio::test]
    async fn each_call_is_told_with_its_outcome_and_without_its_content() {
        let clock = VirtualClock::default();
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        let faults = Faults::seeded(0, Arc::clone(&shared));
        let storage = Fault::new(MemoryStorage::new(Arc::clone(&shared)), &faults);
        let storage = Trace::new(storage, "memory", Arc::clone(&shared));
        let scheduler = Trace::new(
            MemoryScheduler::new(shared),
            "memory",
            Arc::new(clock.clone()),
        );
        let workload = crate::memory::test_workload(0, 1);
        faults.add(FaultRule::on("storage.delete").failing(ErrorKind::Unavailable));
        faults.add(FaultRule::on("storage.put").delayed(Duration::from_millis(3)));
        let key = StorageKey::new("functions/a").expect("a key");

        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_ansi(false)
            .without_time()
            .with_writer(move || writer.clone())
            .finish();
        let calls = async move {
            let body = bytes_stream("a secret");
            storage
                .put(&key, body, &PutOptions::default())
                .await
                .expect("stored");
            let absent = StorageKey::new("absent").expect("a key");
            storage.head(&absent).await.expect_err("nothing is there");
            storage.delete(&key).await.expect_err("as injected");
            faults.add(FaultRule::on("storage.head").hanging());
            let hanging = Box::pin(storage.head(&key));
            drop(futures::FutureExt::now_or_never(hanging));
            scheduler.apply(&workload).await.expect("off");
            let invoker = scheduler.invoker(&workload.function).await.expect("there");
            let context = CallContext::new("r", Duration::from_secs(1));
            let request = http::Request::new(Body::empty());
            invoker
                .invoke(request, &context)
                .await
                .expect_err("it is off");
        };
        let calls = tokio::spawn(calls.with_subscriber(subscriber));
        clock.advance(Duration::from_millis(3)).await;
        calls.await.expect("no panic");

        let told = lines
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let told = String::from_utf8(told).expect("text");
        let ends: Vec<_> = told
            .lines()
            .filter(|line| line.contains("call ended"))
            .collect();
        for (line, parts) in ends.iter().zip([
            [
                "DEBUG",
                "operation=\"storage.put\"",
                "outcome=\"ok\" duration_us=3000",
            ],
            [
                "DEBUG",
                "operation=\"storage.head\" subject=absent",
                "outcome=\"not_found\"",
            ],
            [
                " WARN",
                "subject=functions/a",
                "outcome=\"unavailable\" reason=\"fault_injected\"",
            ],
            ["DEBUG", "operation=\"storage.head\"", "outcome=\"dropped\""],
            [
                "DEBUG",
                "operation=\"scheduler.apply\" subject=n/f",
                "outcome=\"ok\"",
            ],
            ["DEBUG", "operation=\"scheduler.invoker\"", "outcome=\"ok\""],
            [
                " WARN",
                "operation=\"scheduler.invoke\"",
                "reason=\"scaled_to_zero\"",
            ],
        ]) {
            for part in parts {
                assert!(line.contains(part), "{part} is not in {line}");
            }
        }
        assert_eq!(ends.len(), 7, "{told}");
        assert!(!told.contains("a secret"));
    }
}
