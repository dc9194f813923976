//! [`Fault`].

use std::{
    collections::BTreeMap,
    future::{Future, pending, ready},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::{
    FutureExt as _, StreamExt as _,
    future::BoxFuture,
    stream::{self, BoxStream},
};

use super::{Around, Decorated, FaultRule, Operation, fault_rule::Effect};
use crate::{Change, ChangeStream, Clock, ErrorKind, Result};

/// A backend that fails where [`Faults`] say so.
///
/// Calls of functions count too, as `scheduler.invoke`.
pub type Fault<T> = Decorated<T, Faults>;

/// What goes wrong, and how often each operation was called. Clones are the same one, so that a test
/// keeps one in its hand; several backends can share it.
///
/// The same seed and the same calls in the same order give the same faults.
///
/// ```
/// use std::sync::Arc;
/// use sless_core::{
///     ErrorKind, Storage, StorageKey, SystemClock,
///     decorate::{Fault, FaultRule, Faults},
///     memory::MemoryStorage,
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> sless_core::Result<()> {
/// let faults = Faults::seeded(7, Arc::new(SystemClock));
/// let storage = Fault::new(MemoryStorage::default(), &faults);
/// faults.add(FaultRule::on("storage.delete").first(1).failing(ErrorKind::Unavailable));
///
/// let key = StorageKey::new("functions/a")?;
/// let error = storage.delete(&key).await.expect_err("the first one fails");
/// assert_eq!(error.kind(), ErrorKind::Unavailable);
/// storage.delete(&key).await?;
/// assert_eq!(faults.calls("storage.delete"), 2);
/// assert_eq!(faults.injected("storage.delete"), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Faults(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    random: fastrand::Rng,
    rules: Vec<Active>,
    counts: BTreeMap<&'static str, Count>,
}

#[derive(Debug)]
struct Active {
    rule: FaultRule,
    /// How many calls it was about so far.
    seen: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    calls: u64,
    injected: u64,
}

impl<T> Fault<T> {
    /// Makes `inner` fail where `faults` say so.
    pub fn new(inner: T, faults: &Faults) -> Self {
        Self::around(inner, faults.clone())
    }
}

impl Faults {
    /// No fault yet. Waits are on `clock`.
    pub fn seeded(seed: u64, clock: Arc<dyn Clock>) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        let state = State {
            random,
            rules: Vec::new(),
            counts: BTreeMap::new(),
        };
        Self(Arc::new(Shared {
            clock,
            state: Mutex::new(state),
        }))
    }

    /// Adds a rule. Of several that apply to a call, the one that was added first does.
    pub fn add(&self, rule: FaultRule) {
        self.state().rules.push(Active { rule, seen: 0 });
    }

    /// Drops all rules. Calls that hang already go on hanging.
    pub fn clear(&self) {
        self.state().rules.clear();
    }

    /// How often this operation was called so far, faults included.
    pub fn calls(&self, operation: &str) -> u64 {
        self.state()
            .counts
            .get(operation)
            .map_or(0, |count| count.calls)
    }

    /// How often a rule applied to this operation so far.
    pub fn injected(&self, operation: &str) -> u64 {
        self.state()
            .counts
            .get(operation)
            .map_or(0, |count| count.injected)
    }

    /// How often each operation was called so far, by name.
    pub fn all_calls(&self) -> BTreeMap<&'static str, u64> {
        self.state()
            .counts
            .iter()
            .map(|(name, count)| (*name, count.calls))
            .collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call, and finds the rule that applies to it.
    fn decide(&self, operation: &'static str, subject: &str) -> Option<FaultRule> {
        let mut state = self.state();
        let State {
            random,
            rules,
            counts,
        } = &mut *state;
        let mut found = None;
        for active in rules
            .iter_mut()
            .filter(|active| active.rule.is_about(operation, subject))
        {
            active.seen += 1;
            // Asked also where an earlier rule applies, so that each draws the same numbers whatever
            // the others do.
            if active.rule.applies(active.seen, random) && found.is_none() {
                found = Some(active.rule.clone());
            }
        }
        let count = counts.entry(operation).or_default();
        count.calls += 1;
        count.injected += u64::from(found.is_some());
        found
    }

    /// Waits as long as the rule says.
    fn delay(&self, rule: &FaultRule) -> impl Future<Output = ()> + Send + use<> {
        let (clock, delay) = (Arc::clone(&self.0.clock), rule.delay());
        async move {
            if !delay.is_zero() {
                clock.sleep(delay).await;
            }
        }
    }
}

impl Around for Faults {
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
        let Some(rule) = self.decide(operation.name(), &operation.subject().to_string()) else {
            return call(arguments).await;
        };
        self.delay(&rule).await;
        match rule.effect {
            // The last two are for streams and hints.
            Effect::None | Effect::Cut(_) | Effect::Lose => call(arguments).await,
            Effect::FailBefore(kind) => Err(operation.name_in(rule.error(kind))),
            Effect::FailAfter(kind) => {
                drop(call(arguments).await);
                Err(operation.name_in(rule.error(kind)))
            }
            Effect::HangBefore => pending().await,
            Effect::HangAfter => {
                drop(call(arguments).await);
                pending().await
            }
        }
    }

    fn stream<T: Send + 'static>(
        self: &Arc<Self>,
        operation: Operation<'_>,
        stream: BoxStream<'static, Result<T>>,
    ) -> BoxStream<'static, Result<T>> {
        let Some(rule) = self.decide(operation.name(), &operation.subject().to_string()) else {
            return stream;
        };
        let fail = |kind| {
            let error = operation.name_in(rule.error(kind));
            stream::once(ready(Err(error))).boxed()
        };
        let stream = match rule.effect {
            Effect::None | Effect::Lose => stream,
            Effect::FailBefore(kind) => fail(kind),
            Effect::FailAfter(kind) => stream.chain(fail(kind)).boxed(),
            Effect::HangBefore => stream::pending().boxed(),
            Effect::HangAfter => stream.chain(stream::pending()).boxed(),
            Effect::Cut(items) => stream
                .take(items)
                .chain(fail(ErrorKind::Interrupted))
                .boxed(),
        };
        self.delay(&rule).map(|()| stream).flatten_stream().boxed()
    }

    fn hints(self: &Arc<Self>, operation: Operation<'_>, hints: ChangeStream) -> ChangeStream {
        let (faults, name) = (Arc::clone(self), operation.name());
        hints
            .filter_map(move |hint| {
                let subject = match &hint {
                    Change::Object(key) => key.to_string(),
                    Change::All => "all".to_owned(),
                };
                let rule = faults.decide(name, &subject);
                let lost = rule.is_some_and(|rule| rule.effect == Effect::Lose);
                ready((!lost).then_some(hint))
            })
            .boxed()
    }

    fn surrounds_invocations(&self) -> bool {
        true
    }
}
