//! The suite of [`Builder`]; its contract is `docs/contracts/builder.md`.

mod contexts;
mod crash;
mod dependencies;
mod ensure;
mod failure;
mod logs;
mod prune;

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use sless_core::{
    Artifact, BuildId, BuildRequest, BuildStatus, Builder, Failure, FunctionId, LogOptions, Result,
    Runtime, Storage, Uid,
};

use crate::{
    Harness, Outcome, Violation,
    clause::{While as _, ensure},
    harness::eventually,
    suite::suite,
    unique,
};
use contexts::{Contexts, Source};

/// What the suite has to know of a builder.
#[async_trait]
pub trait BuilderHarness: Harness {
    /// The builder. The same one at each call, until `reopen`.
    ///
    /// # Errors
    /// Whatever keeps it from being there; the clause then fails with it.
    async fn builder(&self) -> Result<Arc<dyn Builder>>;

    /// Ends the builder as a crash would, builds under way included, and opens another one over the
    /// same data, which `builder` gives from then on. The clause holds no handle of the old one when
    /// it calls this. Answers `false` where the data ends with the process.
    ///
    /// # Errors
    /// Whatever keeps it from being opened.
    async fn reopen(&self) -> Result<bool>;

    /// Where the suite puts build contexts. Any storage that the builder can read from; the suite
    /// reads along, and can make it slow.
    ///
    /// # Errors
    /// Whatever keeps it from being there.
    async fn storage(&self) -> Result<Arc<dyn Storage>>;

    /// The runtime that the suite builds for.
    fn runtime(&self) -> Runtime {
        Runtime::Python311
    }

    /// Whether this artifact is still kept.
    ///
    /// # Errors
    /// If that cannot be found out.
    async fn keeps(&self, artifact: &Artifact) -> Result<bool>;

    /// Whether packages can really be installed where the suite runs. The suite installs packages
    /// that lie in the source, so that no network is needed, but pip or npm is.
    fn installs_here(&self) -> bool;
}

/// One run of one clause: functions of its own, pruned at its end.
pub(crate) struct Case<'a> {
    harness: &'a dyn BuilderHarness,
    contexts: Contexts,
    functions: Mutex<Vec<FunctionId>>,
}

impl<'a> Case<'a> {
    async fn open(harness: &'a dyn BuilderHarness) -> Result<Self, Violation> {
        let contexts = Contexts::new(harness.storage().await?, harness.runtime());
        Ok(Self {
            harness,
            contexts,
            functions: Mutex::default(),
        })
    }

    async fn close(&self) -> Outcome {
        self.contexts.release();
        let functions = self
            .functions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for function in functions {
            self.builder()
                .await?
                .prune(&function, &[])
                .await
                .while_("cleaning up")?;
        }
        self.contexts.clear().await.while_("cleaning up")?;
        Ok(self.harness.clean_up().await?)
    }

    async fn builder(&self) -> Result<Arc<dyn Builder>> {
        self.harness.builder().await
    }

    /// A new function.
    fn function(&self) -> Result<FunctionId> {
        let function = FunctionId {
            namespace: unique::namespace()?,
            name: unique::name("built")?,
            uid: Uid::random(),
        };
        self.functions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(function.clone());
        Ok(function)
    }

    /// A request to build this source for this function.
    async fn request(
        &self,
        function: &FunctionId,
        source: Source,
    ) -> Result<BuildRequest, Violation> {
        self.contexts
            .request(function, source)
            .await
            .while_("storing a build context")
    }

    /// A request to build a source without dependencies, for a function of its own.
    async fn one(&self, number: u32) -> Result<BuildRequest, Violation> {
        self.request(&self.function()?, Source::plain(number)).await
    }

    /// Ensures until the build has an end.
    async fn end(&self, request: &BuildRequest) -> Result<BuildStatus, Violation> {
        let builder = self.builder().await?;
        let status = eventually!(self.harness, format!("the build {} ends", request.id), {
            match builder.ensure(request).await.while_("ensuring")? {
                status @ (BuildStatus::Succeeded { .. } | BuildStatus::Failed { .. }) => Ok(status),
                status => Err(status),
            }
        });
        Ok(status)
    }

    /// Ensures until there is an artifact.
    async fn built(&self, request: &BuildRequest) -> Result<Artifact, Violation> {
        match self.end(request).await? {
            BuildStatus::Succeeded { artifact, .. } => Ok(artifact),
            status => Err(Violation::new(format!(
                "the build did not succeed: {status:?}"
            ))),
        }
    }

    /// Ensures until the build has failed for good.
    async fn failed(&self, request: &BuildRequest, reason: &str) -> Result<Failure, Violation> {
        match self.end(request).await? {
            BuildStatus::Failed { failure, .. } => {
                ensure!(
                    failure.reason == reason,
                    "expected reason {reason}: {failure:?}"
                );
                ensure!(!failure.message.is_empty(), "the failure has no sentence");
                Ok(failure)
            }
            status => Err(Violation::new(format!(
                "expected a failed build: {status:?}"
            ))),
        }
    }

    /// The whole log of a build that is over.
    async fn log(&self, id: &BuildId) -> Result<Vec<sless_core::LogLine>, Violation> {
        use futures::TryStreamExt as _;
        let builder = self.builder().await?;
        let stream = builder
            .logs(id, &LogOptions::default())
            .await
            .while_("reading the log")?;
        stream.try_collect().await.while_("reading the log")
    }
}

suite! {
    ($)
    /// Makes a test of each clause of [`Builder`](sless_core::Builder)'s contract.
    ///
    /// Takes an expression that makes a [`BuilderHarness`](crate::builder::BuilderHarness); it may
    /// `await`. Attributes in front go to every test.
    builder, "builder", BuilderHarness, Case<'_>;
    1 ensure::a_build_ends_with_an_artifact,
    2 ensure::the_same_build_is_not_built_twice,
    3 ensure::parallel_ensures_build_once,
    4 ensure::the_same_content_gives_the_same_artifact,
    5 ensure::other_content_gives_another_artifact,
    6 ensure::a_change_is_hinted_when_a_build_moves_on,
    7 failure::a_context_that_is_gone_fails_the_build,
    8 failure::a_context_that_is_broken_fails_the_build,
    9 failure::a_failed_build_stays_failed,
    10 failure::another_attempt_builds_anew,
    11 failure::a_passing_failure_is_tried_again,
    12 failure::a_build_that_takes_too_long_fails,
    13 failure::a_cancelled_build_begins_anew,
    14 failure::cancelling_what_is_not_under_way_changes_nothing,
    15 logs::a_build_has_a_log,
    16 logs::a_followed_log_ends_with_the_build,
    17 logs::a_build_that_is_not_there_has_no_log,
    18 prune::builds_that_are_not_kept_are_removed,
    19 prune::pruning_again_removes_nothing,
    20 prune::a_shared_artifact_stays_while_it_is_used,
    21 prune::pruning_ends_what_is_under_way,
    22 dependencies::dependencies_are_installed_or_refused,
    23 dependencies::a_failed_install_fails_the_build,
    24 crash::a_finished_build_survives_a_reopen,
    25 crash::a_build_that_was_cut_off_is_built_again,
    26 prune::what_is_built_is_held_until_it_is_pruned,
}
