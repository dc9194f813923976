//! Broken invocation logs, leases and validators.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;
use sless_conformance::{
    invocation_log::{self, InvocationLogHarness},
    lease::{self, LeaseHarness},
    validator::{self, ValidatorHarness},
};
use sless_core::{
    Grant, Invocation, InvocationLog, InvocationPage, InvocationQuery, Lease, Result, Retention,
    Runtime, Uid, Validator, Verdict, VirtualClock,
    memory::{MemoryInvocationLog, MemoryLease, MemoryValidator},
    source::SourceTree,
};

use super::{Broken, Expected, expect};

#[derive(Clone, Copy, Debug, PartialEq)]
enum LogDefect {
    /// What is sent again is kept again.
    KeepsTwice,
    /// A page is in the order of the calls.
    OldestFirst,
    /// Whether a call failed is not looked at.
    AllSucceed,
    /// Nothing is too old.
    NothingIsOld,
    /// A batch with a record that is there is dropped whole.
    DropsBatch,
}

#[derive(Debug)]
struct FaultyLog {
    inner: MemoryInvocationLog,
    defect: LogDefect,
}

impl FaultyLog {
    /// Whether a record with this id is there, as far as one page shows.
    async fn has(&self, record: &Invocation) -> Result<bool> {
        let (namespace, function) = (record.namespace.clone(), record.function.clone());
        let query = InvocationQuery::of_function(namespace, function, 1_000);
        let page = self.inner.query(&query).await?;
        Ok(page.items.iter().any(|known| known.id == record.id))
    }
}

#[async_trait]
impl InvocationLog for FaultyLog {
    async fn append(&self, mut records: Vec<Invocation>) -> Result<()> {
        match self.defect {
            LogDefect::KeepsTwice => {
                for record in &mut records {
                    if self.has(record).await? {
                        record.id = Uid::random();
                    }
                }
            }
            LogDefect::DropsBatch => {
                for record in &records {
                    if self.has(record).await? {
                        return Ok(());
                    }
                }
            }
            _ => {}
        }
        self.inner.append(records).await
    }

    async fn query(&self, query: &InvocationQuery) -> Result<InvocationPage> {
        let mut query = query.clone();
        if self.defect == LogDefect::AllSucceed {
            query.failed_only = false;
        }
        let mut page = self.inner.query(&query).await?;
        if self.defect == LogDefect::OldestFirst {
            page.items.reverse();
        }
        Ok(page)
    }

    async fn retain(&self, rule: &Retention, now: Timestamp) -> Result<u64> {
        let mut rule = *rule;
        if self.defect == LogDefect::NothingIsOld {
            rule.max_age = Duration::MAX;
        }
        self.inner.retain(&rule, now).await
    }
}

#[async_trait]
impl InvocationLogHarness for Broken<Arc<FaultyLog>, LogDefect> {
    async fn invocation_log(&self) -> Result<Arc<dyn InvocationLog>> {
        Ok(self.backend.clone())
    }

    async fn reopen(&self) -> Result<bool> {
        Ok(false)
    }
}

#[test]
fn a_broken_invocation_log_is_found() {
    let find = |defects: Expected<'_, LogDefect>| {
        let make = |defect| -> Box<dyn InvocationLogHarness> {
            let inner = MemoryInvocationLog::new();
            let backend = Arc::new(FaultyLog { inner, defect });
            Box::new(Broken {
                clock: VirtualClock::default(),
                backend,
                defect,
            })
        };
        expect(defects, invocation_log::clauses(), make);
    };
    find(&[
        (LogDefect::KeepsTwice, &["a_batch_can_be_sent_again"]),
        (
            LogDefect::OldestFirst,
            &[
                "a_batch_can_be_sent_again",
                "a_large_batch_is_kept",
                "an_appended_record_is_read_back_whole",
                "only_the_records_that_were_asked_for_are_given",
                "pages_give_every_record_once",
                "the_newest_records_come_first",
                "what_is_too_much_is_dropped_oldest_first",
                "what_is_too_old_is_dropped",
            ],
        ),
        (
            LogDefect::AllSucceed,
            &["only_the_records_that_were_asked_for_are_given"],
        ),
        (LogDefect::NothingIsOld, &["what_is_too_old_is_dropped"]),
        (LogDefect::DropsBatch, &["a_batch_can_be_sent_again"]),
    ]);
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum LeaseDefect {
    /// Everybody holds it.
    Everybody,
    /// The token stays the same.
    OneToken,
    /// Anybody gives it back.
    AnybodyReleases,
    /// It never expires.
    Forever,
    /// The token grows with every renewal.
    BusyToken,
    /// There is one lease for all names.
    OneName,
}

#[derive(Debug)]
struct FaultyLease {
    inner: MemoryLease,
    defect: LeaseDefect,
    count: std::sync::atomic::AtomicU64,
}

#[async_trait]
impl Lease for FaultyLease {
    async fn acquire(&self, name: &str, holder: &str, ttl: Duration) -> Result<Option<Grant>> {
        let count = self
            .count
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        match self.defect {
            LeaseDefect::Everybody => Ok(Some(Grant { token: 1 })),
            LeaseDefect::OneToken => {
                let grant = self.inner.acquire(name, holder, ttl).await?;
                Ok(grant.map(|_| Grant { token: 1 }))
            }
            LeaseDefect::Forever => self.inner.acquire(name, holder, ttl * 1_000_000).await,
            LeaseDefect::BusyToken => {
                let grant = self.inner.acquire(name, holder, ttl).await?;
                Ok(grant.map(|_| Grant { token: count }))
            }
            LeaseDefect::OneName => self.inner.acquire("one", holder, ttl).await,
            LeaseDefect::AnybodyReleases => self.inner.acquire(name, holder, ttl).await,
        }
    }

    async fn release(&self, name: &str, holder: &str) -> Result<()> {
        match self.defect {
            LeaseDefect::AnybodyReleases => {
                for holder in ["one", "other"] {
                    self.inner.release(name, holder).await?;
                }
                Ok(())
            }
            LeaseDefect::OneName => self.inner.release("one", holder).await,
            _ => self.inner.release(name, holder).await,
        }
    }
}

#[async_trait]
impl LeaseHarness for Broken<Arc<FaultyLease>, LeaseDefect> {
    async fn lease(&self) -> Result<Arc<dyn Lease>> {
        Ok(self.backend.clone())
    }

    async fn another(&self) -> Result<Arc<dyn Lease>> {
        Ok(self.backend.clone())
    }
}

#[test]
fn a_broken_lease_is_found() {
    let find = |defects: Expected<'_, LeaseDefect>| {
        let make = |defect| -> Box<dyn LeaseHarness> {
            let clock = VirtualClock::default();
            let inner = MemoryLease::new(Arc::new(clock.clone()));
            let backend = Arc::new(FaultyLease {
                inner,
                defect,
                count: 1.into(),
            });
            Box::new(Broken {
                clock,
                backend,
                defect,
            })
        };
        expect(defects, lease::clauses(), make);
    };
    find(&[
        (
            LeaseDefect::Everybody,
            &[
                "a_released_lease_goes_to_another_with_a_higher_token",
                "an_expired_lease_goes_to_another_with_a_higher_token",
                "leases_of_other_names_are_apart",
                "one_of_several_at_once_gets_it",
                "only_its_holder_releases_a_lease",
                "renewing_keeps_others_out",
                "whoever_comes_first_holds_the_lease",
            ],
        ),
        (
            LeaseDefect::OneToken,
            &[
                "a_released_lease_goes_to_another_with_a_higher_token",
                "an_expired_lease_goes_to_another_with_a_higher_token",
            ],
        ),
        (
            LeaseDefect::AnybodyReleases,
            &["only_its_holder_releases_a_lease"],
        ),
        (
            LeaseDefect::Forever,
            &["an_expired_lease_goes_to_another_with_a_higher_token"],
        ),
        (
            LeaseDefect::BusyToken,
            &[
                "only_its_holder_releases_a_lease",
                "renewing_keeps_the_token",
            ],
        ),
        (LeaseDefect::OneName, &["leases_of_other_names_are_apart"]),
    ]);
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ValidatorDefect {
    /// Finds everything unsafe.
    Suspicious,
    /// Believes what the code says.
    Credulous,
    /// Looks at the first file.
    FirstFile,
    /// Looks at code of any size.
    Tireless,
    /// Looks at what is no code, too.
    Thorough,
    /// Does not say why.
    Terse,
}

#[derive(Debug)]
struct FaultyValidator {
    inner: MemoryValidator,
    defect: ValidatorDefect,
}

const MARK: &str = "a_mark_of_unsafe_code";

#[async_trait]
impl Validator for FaultyValidator {
    fn identity(&self) -> String {
        "broken".to_owned()
    }

    async fn validate(&self, source: &SourceTree, runtime: Runtime) -> Result<Verdict> {
        let marked = |path: &str| {
            let bytes = source.read(path).unwrap_or_default();
            String::from_utf8_lossy(&bytes).contains(MARK)
        };
        let files = || source.files().iter().map(|file| file.path.as_str());
        let found = |found: bool| {
            let reason = "it holds the mark".to_owned();
            Ok(if found {
                Verdict::Unsafe { reason }
            } else {
                Verdict::Safe
            })
        };
        match self.defect {
            ValidatorDefect::Suspicious => found(true),
            ValidatorDefect::Credulous => {
                let text = |path: &str| source.read(path).unwrap_or_default();
                let says =
                    |path: &str| String::from_utf8_lossy(&text(path)).contains("reviewed by hand");
                if files().any(says) {
                    return Ok(Verdict::Safe);
                }
                self.inner.validate(source, runtime).await
            }
            ValidatorDefect::FirstFile => {
                let set = source.reviewable()?;
                if set.oversized {
                    return Ok(Verdict::Skipped {
                        reason: "it is too much".to_owned(),
                    });
                }
                found(set.files.first().is_some_and(|(path, _)| marked(path)))
            }
            ValidatorDefect::Tireless => {
                let set = source.reviewable()?;
                found(set.files.iter().any(|(path, _)| marked(path)))
            }
            ValidatorDefect::Thorough => {
                if source.reviewable()?.oversized {
                    return Ok(Verdict::Skipped {
                        reason: "it is too much".to_owned(),
                    });
                }
                found(files().any(marked))
            }
            ValidatorDefect::Terse => match self.inner.validate(source, runtime).await? {
                Verdict::Unsafe { .. } => Ok(Verdict::Unsafe {
                    reason: String::new(),
                }),
                other => Ok(other),
            },
        }
    }
}

#[async_trait]
impl ValidatorHarness for Broken<Arc<FaultyValidator>, ValidatorDefect> {
    async fn validator(&self) -> Result<Arc<dyn Validator>> {
        Ok(self.backend.clone())
    }

    fn unsafe_file(&self) -> Option<String> {
        Some(format!("def handle(event):\n    return \"{MARK}\"\n"))
    }
}

#[test]
fn a_broken_validator_is_found() {
    let find = |defects: Expected<'_, ValidatorDefect>| {
        let make = |defect| -> Box<dyn ValidatorHarness> {
            let backend = Arc::new(FaultyValidator {
                inner: rules(),
                defect,
            });
            Box::new(Broken {
                clock: VirtualClock::default(),
                backend,
                defect,
            })
        };
        expect(defects, validator::clauses(), make);
    };
    find(&[
        (
            ValidatorDefect::Suspicious,
            &[
                "a_source_without_code_is_not_unsafe",
                "as_much_code_as_may_be_is_looked_at",
                "safe_code_is_safe",
                "too_much_code_is_skipped",
                "verdicts_of_parallel_calls_are_not_mixed_up",
            ],
        ),
        (
            ValidatorDefect::Credulous,
            &["code_cannot_talk_the_validator_round"],
        ),
        (
            ValidatorDefect::FirstFile,
            &[
                "code_cannot_talk_the_validator_round",
                "unsafe_code_is_unsafe_and_says_why",
            ],
        ),
        (ValidatorDefect::Tireless, &["too_much_code_is_skipped"]),
        (
            ValidatorDefect::Thorough,
            &["a_source_without_code_is_not_unsafe"],
        ),
        (
            ValidatorDefect::Terse,
            &["unsafe_code_is_unsafe_and_says_why"],
        ),
    ]);
}

/// A validator without a defect.
fn rules() -> MemoryValidator {
    MemoryValidator::refusing(MARK)
}
