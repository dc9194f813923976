//! What the harnesses of all suites have in common, and how one clause is run as a test.

use std::{
    fmt,
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use sless_core::{Clock, Result, SystemClock};

use crate::clause::{Outcome, Violation};

/// How long one clause may take in all before its test fails.
pub const CLAUSE_TIME_MAX: Duration = Duration::from_secs(300);

/// What a suite has to know of any backend: how its time passes.
///
/// The defaults fit a backend on the machine's clock. One on a [`VirtualClock`](sless_core::VirtualClock)
/// overrides `clock` and `pass`, and its suite then takes no longer than its work:
///
/// ```
/// # use std::{sync::Arc, time::Duration};
/// # use sless_core::{Clock, VirtualClock};
/// #[derive(Debug, Default)]
/// struct MyHarness(VirtualClock);
///
/// #[async_trait::async_trait]
/// impl sless_conformance::Harness for MyHarness {
///     fn clock(&self) -> Arc<dyn Clock> {
///         Arc::new(self.0.clone())
///     }
///
///     async fn pass(&self, duration: Duration) {
///         self.0.advance(duration).await;
///     }
/// }
/// ```
#[async_trait]
pub trait Harness: fmt::Debug + Send + Sync {
    /// The clock that the backend asks.
    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(SystemClock)
    }

    /// Lets this much of the backend's time pass.
    async fn pass(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    /// How long, in the backend's time, a suite waits for what has to happen until it says that it
    /// does not. Where that time passes in a moment, a suite waits a tenth of it in real time.
    fn patience(&self) -> Duration {
        Duration::from_secs(30)
    }

    /// For how long a suite looks on where it makes sure that something does *not* happen: longer
    /// than the backend needs to do it wrongly.
    fn quiet(&self) -> Duration {
        Duration::from_millis(300)
    }

    /// Removes what the backend has no method to remove, such as namespaces. Called after each
    /// clause, with the clause's own objects gone already.
    ///
    /// # Errors
    /// Whatever goes wrong; the clause then fails with it.
    async fn clean_up(&self) -> Result<()> {
        Ok(())
    }
}

/// Runs one clause on a runtime of its own, `current_thread` or `multi_thread`. For the macros.
///
/// # Panics
/// If the clause is violated, or takes longer than [`CLAUSE_TIME_MAX`].
#[doc(hidden)]
#[track_caller]
#[allow(clippy::panic, reason = "this is how a test fails")]
pub fn run(flavor: &str, clause: impl Future<Output = Outcome>) {
    use tokio::runtime::Builder;
    let mut builder = match flavor {
        "current_thread" => Builder::new_current_thread(),
        "multi_thread" => Builder::new_multi_thread(),
        other => panic!("flavor {other:?}: expected \"current_thread\" or \"multi_thread\""),
    };
    let runtime = builder
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap_or_else(|error| panic!("no tokio runtime: {error}"));
    let outcome = runtime.block_on(async {
        tokio::time::timeout(CLAUSE_TIME_MAX, clause)
            .await
            .unwrap_or_else(|_| {
                let seconds = CLAUSE_TIME_MAX.as_secs();
                Err(Violation::new(format!(
                    "it took longer than {seconds} s (CLAUSE_TIME_MAX)"
                )))
            })
    });
    // A backend may hold a thread of its own; its test is over all the same.
    runtime.shutdown_background();
    if let Err(violation) = outcome {
        panic!("{violation}");
    }
}

/// Waits for a condition: polls it, lets time pass in growing steps, and gives up.
pub(crate) struct Wait<'a, H: ?Sized> {
    harness: &'a H,
    what: String,
    begun: Instant,
    passed: Duration,
    step: Duration,
}

impl<'a, H: Harness + ?Sized> Wait<'a, H> {
    pub(crate) fn new(harness: &'a H, what: impl Into<String>) -> Self {
        Self {
            harness,
            what: what.into(),
            begun: Instant::now(),
            passed: Duration::ZERO,
            step: Duration::from_millis(1),
        }
    }

    /// The condition does not hold yet.
    ///
    /// A virtual clock can pass the whole patience in no time, while what is waited for needs real
    /// time, a thread for instance.
    pub(crate) async fn turn(&mut self, seen: impl fmt::Display) -> Outcome {
        let patience = self.harness.patience();
        if self.passed < patience {
            self.harness.pass(self.step).await;
            self.passed += self.step;
            self.step = (self.step * 2).min(Duration::from_millis(100));
        } else if self.begun.elapsed() < patience / 10 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        } else {
            return Err(Violation::new(format!(
                "not within {} s: {}; seen last: {seen}",
                patience.as_secs_f32(),
                self.what
            )));
        }
        tokio::task::yield_now().await;
        Ok(())
    }
}

/// Awaits, while the backend's time passes: in small steps, which grow with what has passed, so that a
/// long time takes few of them and a short one is still met.
pub(crate) async fn passing<H: Harness + ?Sized, T>(
    harness: &H,
    future: impl Future<Output = T>,
) -> T {
    futures::pin_mut!(future);
    let mut passed = Duration::ZERO;
    loop {
        let step = Duration::from_millis(5) + passed / 50;
        tokio::select! {
            biased;
            value = &mut future => return value,
            () = harness.pass(step) => passed += step,
        }
    }
}

/// Polls `look` until it gives `Ok`. Its `Err` says what was seen instead.
macro_rules! eventually {
    ($harness:expr, $what:expr, $look:expr) => {{
        let mut wait = $crate::harness::Wait::new($harness, $what);
        loop {
            match $look {
                Ok(found) => break found,
                Err(seen) => wait.turn(format!("{seen:?}")).await?,
            }
        }
    }};
}

pub(crate) use eventually;

/// `Ok` if the condition holds, else what was seen.
pub(crate) fn when<T>(condition: bool, seen: T) -> Result<T, T> {
    if condition { Ok(seen) } else { Err(seen) }
}
