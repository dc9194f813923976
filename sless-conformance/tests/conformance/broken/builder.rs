use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt as _;
use sless_conformance::builder::{BuilderHarness, clauses};
use sless_core::{
    Artifact, BuildId, BuildRequest, BuildStatus, Builder, BuilderCapabilities, ChangeStream,
    FunctionId, HeldStream, LogOptions, LogStream, Receipt, Result, Storage, VirtualClock,
    memory::{BuildPlan, MemoryBuilder, MemoryStorage},
};

use super::{Broken, Expected, expect};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Defect {
    /// What is done is forgotten at once, so that the next `ensure` builds again.
    Forgets,
    /// Every failure is called a passing one.
    AllPasses,
    /// `cancel` does nothing.
    CancelsNothing,
    /// `cancel` forgets builds that are done.
    CancelsAll,
    /// `prune` removes nothing, and says so.
    PrunesNothing,
    /// `prune` keeps nothing.
    PrunesAll,
    /// A receipt is never empty.
    BusyReceipt,
    /// Logs are empty.
    EmptyLog,
    /// There is a log of everything.
    LogOfNothing,
    /// Nothing is hinted.
    Silent,
    /// The time that a build may take is not looked at.
    NoTimeout,
    /// All artifacts have one digest.
    OneDigest,
    /// What a crash leaves is nothing.
    Volatile,
    /// It says that it holds nothing.
    Hides,
}

/// The builder with the defect.
#[derive(Debug)]
struct Faulty {
    inner: MemoryBuilder,
    defect: Defect,
}

#[async_trait]
impl Builder for Faulty {
    fn capabilities(&self) -> BuilderCapabilities {
        self.inner.capabilities()
    }

    async fn ensure(&self, request: &BuildRequest) -> Result<BuildStatus> {
        let mut request = request.clone();
        if self.defect == Defect::NoTimeout {
            request.timeout = BuildRequest::TIMEOUT;
        }
        let mut status = self.inner.ensure(&request).await?;
        match &mut status {
            BuildStatus::Succeeded { artifact, .. } if self.defect == Defect::OneDigest => {
                artifact.digest = sless_core::Digest::of("one");
            }
            BuildStatus::Succeeded { .. } if self.defect == Defect::Forgets => {
                self.inner.prune(&request.id.function, &[]).await?;
            }
            BuildStatus::Failed { transient, .. } if self.defect == Defect::AllPasses => {
                *transient = true;
            }
            _ => {}
        }
        Ok(status)
    }

    async fn cancel(&self, id: &BuildId) -> Result<()> {
        match self.defect {
            Defect::CancelsNothing => Ok(()),
            Defect::CancelsAll => self.inner.prune(&id.function, &[]).await.map(drop),
            _ => self.inner.cancel(id).await,
        }
    }

    async fn logs(&self, id: &BuildId, options: &LogOptions) -> Result<LogStream> {
        match (self.defect, self.inner.logs(id, options).await) {
            (Defect::EmptyLog, Ok(_)) | (Defect::LogOfNothing, Err(_)) => {
                Ok(futures::stream::empty().boxed())
            }
            (_, other) => other,
        }
    }

    async fn prune(&self, function: &FunctionId, keep: &[BuildId]) -> Result<Receipt> {
        match self.defect {
            Defect::PrunesNothing => Ok(Receipt::default()),
            Defect::PrunesAll => self.inner.prune(function, &[]).await,
            Defect::BusyReceipt => {
                let mut receipt = self.inner.prune(function, keep).await?;
                receipt.add("nothing", "in particular", "broken");
                Ok(receipt)
            }
            _ => self.inner.prune(function, keep).await,
        }
    }

    fn held(&self) -> HeldStream {
        if self.defect == Defect::Hides {
            return futures::stream::empty().boxed();
        }
        self.inner.held()
    }

    fn changes(&self) -> ChangeStream {
        if self.defect == Defect::Silent {
            return futures::stream::pending().boxed();
        }
        self.inner.changes()
    }
}

#[derive(Debug)]
struct Backend {
    builder: std::sync::Mutex<Arc<Faulty>>,
    storage: Arc<MemoryStorage>,
}

impl Backend {
    fn builder(&self) -> Arc<Faulty> {
        self.builder.lock().expect("no panic").clone()
    }
}

#[async_trait]
impl BuilderHarness for Broken<Backend, Defect> {
    async fn builder(&self) -> Result<Arc<dyn Builder>> {
        Ok(self.backend.builder())
    }

    async fn reopen(&self) -> Result<bool> {
        let before = self.backend.builder();
        let inner = if self.defect == Defect::Volatile {
            MemoryBuilder::new(Arc::new(self.clock.clone()))
        } else {
            before.inner.restarted(|_| BuildPlan::default()).await
        };
        let after = Arc::new(Faulty {
            inner,
            defect: self.defect,
        });
        *self.backend.builder.lock().expect("no panic") = after;
        Ok(true)
    }

    async fn storage(&self) -> Result<Arc<dyn Storage>> {
        Ok(self.backend.storage.clone())
    }

    async fn keeps(&self, artifact: &Artifact) -> Result<bool> {
        // The digest is what one of the defects is about.
        let real = |digest| {
            self.backend.builder().inner.keeps(&Artifact {
                digest,
                ..artifact.clone()
            })
        };
        Ok(self.defect == Defect::OneDigest || real(artifact.digest))
    }

    fn installs_here(&self) -> bool {
        false
    }
}

fn find(defects: Expected<'_, Defect>) {
    let make = |defect| -> Box<dyn BuilderHarness> {
        let clock = VirtualClock::default();
        let shared: Arc<dyn sless_core::Clock> = Arc::new(clock.clone());
        let builder = Faulty {
            inner: MemoryBuilder::new(shared.clone()),
            defect,
        };
        let storage = Arc::new(MemoryStorage::new(shared));
        let backend = Backend {
            builder: std::sync::Mutex::new(Arc::new(builder)),
            storage,
        };
        Box::new(Broken {
            clock,
            backend,
            defect,
        })
    };
    expect(defects, clauses(), make);
}

#[test]
fn a_builder_that_builds_again_is_found() {
    find(&[
        (Defect::AllPasses, &["a_failed_build_stays_failed"]),
        (Defect::Volatile, &["a_finished_build_survives_a_reopen"]),
        (
            Defect::Forgets,
            &[
                "a_build_ends_with_an_artifact",
                "a_build_has_a_log",
                "a_build_that_was_cut_off_is_built_again",
                "a_finished_build_survives_a_reopen",
                "a_followed_log_ends_with_the_build",
                "a_passing_failure_is_tried_again",
                "a_shared_artifact_stays_while_it_is_used",
                "another_attempt_builds_anew",
                "builds_that_are_not_kept_are_removed",
                "cancelling_what_is_not_under_way_changes_nothing",
                "pruning_again_removes_nothing",
                "the_same_build_is_not_built_twice",
                "what_is_built_is_held_until_it_is_pruned",
            ],
        ),
    ]);
}

#[test]
fn a_builder_that_does_not_stop_is_found() {
    find(&[
        (Defect::CancelsNothing, &["a_cancelled_build_begins_anew"]),
        (
            Defect::CancelsAll,
            &["cancelling_what_is_not_under_way_changes_nothing"],
        ),
        (Defect::NoTimeout, &["a_build_that_takes_too_long_fails"]),
    ]);
}

#[test]
fn a_builder_that_prunes_wrongly_is_found() {
    find(&[
        (
            Defect::PrunesNothing,
            &[
                "a_finished_build_survives_a_reopen",
                "a_shared_artifact_stays_while_it_is_used",
                "builds_that_are_not_kept_are_removed",
                "pruning_again_removes_nothing",
                "pruning_ends_what_is_under_way",
                "what_is_built_is_held_until_it_is_pruned",
            ],
        ),
        (
            Defect::PrunesAll,
            &[
                "builds_that_are_not_kept_are_removed",
                "pruning_again_removes_nothing",
            ],
        ),
        (Defect::BusyReceipt, &["pruning_again_removes_nothing"]),
    ]);
}

#[test]
fn a_builder_that_says_too_little_is_found() {
    find(&[
        (Defect::EmptyLog, &["a_build_has_a_log"]),
        (Defect::Hides, &["what_is_built_is_held_until_it_is_pruned"]),
        (
            Defect::LogOfNothing,
            &[
                "a_build_that_is_not_there_has_no_log",
                "a_cancelled_build_begins_anew",
                "builds_that_are_not_kept_are_removed",
                "pruning_ends_what_is_under_way",
            ],
        ),
        (
            Defect::Silent,
            &["a_change_is_hinted_when_a_build_moves_on"],
        ),
        (
            Defect::OneDigest,
            &[
                "a_finished_build_survives_a_reopen",
                "a_shared_artifact_stays_while_it_is_used",
                "builds_that_are_not_kept_are_removed",
                "other_content_gives_another_artifact",
                "pruning_again_removes_nothing",
            ],
        ),
    ]);
}
