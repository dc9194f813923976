//! What goes wrong, where and when.

use std::time::Duration;

use crate::{Error, ErrorKind, Retry};

/// One thing that goes wrong: on which calls, when, and what.
///
/// A rule that says nothing of when applies every time.
///
/// ```
/// use sless_core::{ErrorKind, decorate::FaultRule};
///
/// // The second put is carried out, and its caller is told that it timed out.
/// let rule = FaultRule::on("storage.put").nth(2).failing_after(ErrorKind::Timeout);
/// // A tenth of all calls of the catalog fail.
/// let rule = FaultRule::on("catalog.*").with_probability(0.1).failing(ErrorKind::Unavailable);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct FaultRule {
    operation: String,
    subject: Option<String>,
    when: When,
    delay: Duration,
    retry: Option<Retry>,
    pub(super) effect: Effect,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum When {
    Always,
    Nth(u64),
    First(u64),
    Probability(f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    FailBefore(ErrorKind),
    FailAfter(ErrorKind),
    HangBefore,
    HangAfter,
    Cut(usize),
    Lose,
}

impl FaultRule {
    /// On this operation, by [name](super::Operation::name): `storage.put`, all of a trait as
    /// `storage.*`, or all there are as `*`.
    pub fn on(operation: impl Into<String>) -> Self {
        Self {
            operation: operation.into(),
            subject: None,
            when: When::Always,
            delay: Duration::ZERO,
            retry: None,
            effect: Effect::None,
        }
    }

    /// Only where the subject holds this text.
    #[must_use]
    pub fn about(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    /// Only the `nth` time, from 1, counted among the calls that this rule is about.
    #[must_use]
    pub const fn nth(mut self, nth: u64) -> Self {
        self.when = When::Nth(nth);
        self
    }

    /// Only the first so many times.
    #[must_use]
    pub const fn first(mut self, times: u64) -> Self {
        self.when = When::First(times);
        self
    }

    /// Each time with this probability, from 0 to 1, drawn from the seed.
    #[must_use]
    pub const fn with_probability(mut self, probability: f64) -> Self {
        self.when = When::Probability(probability);
        self
    }

    /// Waits this long before the call.
    #[must_use]
    pub const fn delayed(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Fails without calling the backend. A stream fails before its first item.
    #[must_use]
    pub const fn failing(mut self, kind: ErrorKind) -> Self {
        self.effect = Effect::FailBefore(kind);
        self
    }

    /// Calls the backend, drops its answer, and fails. A stream fails behind its last item.
    #[must_use]
    pub const fn failing_after(mut self, kind: ErrorKind) -> Self {
        self.effect = Effect::FailAfter(kind);
        self
    }

    /// Never answers, and never calls the backend. Drop the caller to see what a crash at this point
    /// leaves.
    #[must_use]
    pub const fn hanging(mut self) -> Self {
        self.effect = Effect::HangBefore;
        self
    }

    /// Calls the backend, and never answers.
    #[must_use]
    pub const fn hanging_after(mut self) -> Self {
        self.effect = Effect::HangAfter;
        self
    }

    /// Breaks a stream off with [`Interrupted`](ErrorKind::Interrupted) behind this many items.
    #[must_use]
    pub const fn cutting(mut self, items: usize) -> Self {
        self.effect = Effect::Cut(items);
        self
    }

    /// Loses hints, one by one. For operations named `*.changes`.
    #[must_use]
    pub const fn losing(mut self) -> Self {
        self.effect = Effect::Lose;
        self
    }

    /// Whether the error says that trying again can help; what its kind says where this is left out.
    #[must_use]
    pub const fn with_retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self
    }

    pub(super) fn is_about(&self, operation: &str, subject: &str) -> bool {
        let named = match self.operation.strip_suffix('*') {
            Some(prefix) => operation.starts_with(prefix),
            None => self.operation == operation,
        };
        named
            && self
                .subject
                .as_ref()
                .is_none_or(|text| subject.contains(text.as_str()))
    }

    /// Whether it applies to the call that is the `seen`th of those it is about.
    pub(super) fn applies(&self, seen: u64, random: &mut fastrand::Rng) -> bool {
        match self.when {
            When::Always => true,
            When::Nth(nth) => seen == nth,
            When::First(times) => seen <= times,
            When::Probability(probability) => random.f64() < probability,
        }
    }

    pub(super) const fn delay(&self) -> Duration {
        self.delay
    }

    pub(super) fn error(&self, kind: ErrorKind) -> Error {
        let error = Error::new(kind, "injected fault")
            .with_reason("fault_injected")
            .at("fault");
        match self.retry {
            Some(retry) => error.with_retry(retry),
            None => error,
        }
    }
}
