//! Backends with one defect each: the suites have to find it, with the right clauses and no others.
//!
//! Each is a backend in memory with a wrapper that does one thing wrong. They run on a virtual clock,
//! with little patience.

mod builder;
mod catalog;
mod dispatcher;
mod others;
mod scheduler;
mod storage;

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use sless_conformance::{Clause, Harness};
use sless_core::{Clock, VirtualClock};

/// A harness with little patience, on a virtual clock, with one defect.
#[derive(Debug)]
pub(crate) struct Broken<B, D> {
    clock: VirtualClock,
    backend: B,
    defect: D,
}

#[async_trait]
impl<B, D> Harness for Broken<B, D>
where
    B: fmt::Debug + Send + Sync,
    D: fmt::Debug + Send + Sync,
{
    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.clock.clone())
    }

    async fn pass(&self, duration: Duration) {
        self.clock.advance(duration).await;
    }

    /// Longer than anything that a clause waits for.
    fn patience(&self) -> Duration {
        Duration::from_secs(6)
    }
}

/// How long a clause may take on a broken backend until it counts as violated.
const HANGS_AFTER: Duration = Duration::from_secs(20);

/// The names of the clauses that are violated, each with how.
fn violated<H: ?Sized>(
    clauses: &'static [Clause<H>],
    make: impl Fn() -> Box<H>,
) -> Vec<(&'static str, String)> {
    let mut violated = Vec::new();
    for clause in clauses {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.expect("a runtime");
        let harness = make();
        let outcome = runtime
            .block_on(async { tokio::time::timeout(HANGS_AFTER, (clause.run)(&*harness)).await });
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(violation)) => violated.push((clause.name, violation.to_string())),
            Err(_) => violated.push((clause.name, "it hangs".to_owned())),
        }
    }
    violated
}

/// Defects, each with the clauses that have to find it.
type Expected<'a, D> = &'a [(D, &'a [&'a str])];

/// Makes sure that each defect violates its clauses, and no others.
fn expect<H: ?Sized, D: Copy + fmt::Debug>(
    defects: Expected<'_, D>,
    clauses: &'static [Clause<H>],
    make: impl Fn(D) -> Box<H>,
) {
    let mut wrong = Vec::new();
    for (defect, expected) in defects {
        let found = violated(clauses, || make(*defect));
        let names: BTreeSet<_> = found.iter().map(|(name, _)| *name).collect();
        let expected: BTreeSet<_> = expected.iter().copied().collect();
        if names != expected {
            let missed: Vec<_> = expected.difference(&names).collect();
            let beside: Vec<_> = found
                .iter()
                .filter(|(name, _)| !expected.contains(name))
                .collect();
            wrong.push(format!(
                "{defect:?}: not found by {missed:#?}; found by {beside:#?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
