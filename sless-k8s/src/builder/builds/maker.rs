//! What tells one builder from another: how an image is made.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use sless_core::{
    BuildId, BuildRequest, BuildStatus, Changes, Clock, Digest, Error, ErrorKind, Failure,
    FunctionId, ObjectKey, Receipt, Result, Retry, reason,
};
use tokio::sync::{Semaphore, watch};

use super::{log::BuildLog, site::Site};

/// Makes images.
#[async_trait]
pub(in crate::builder) trait Maker: fmt::Debug + Send + Sync {
    /// Whether it installs dependencies.
    fn installs(&self) -> bool;

    /// The places for builds like this one; who gets none waits.
    fn places(&self, request: &BuildRequest) -> &Semaphore;

    /// Makes an image in the function's repository, and answers its digest. A dropped future leaves what
    /// [`abandon`](Maker::abandon) takes away.
    async fn make(
        &self,
        site: &Site,
        request: &BuildRequest,
        progress: &Progress,
    ) -> Result<Digest, Broken>;

    /// Ends what goes on for a build outside of this process, and waits until it has ended.
    async fn abandon(&self, site: &Site, id: &BuildId) -> Result<()>;

    /// The same for every build of a function that is not kept.
    async fn clear(
        &self,
        site: &Site,
        function: &FunctionId,
        keep: &[BuildId],
        receipt: &mut Receipt,
    ) -> Result<()>;
}

/// Why a build did not come to an end.
#[derive(Debug)]
pub(in crate::builder) enum Broken {
    /// For good.
    Failed(Failure),
    /// It can work the next time.
    Later(Failure),
    /// A backend did not do what it was asked for.
    Passing(Error),
}

impl Broken {
    /// How this is told, and whether the next `ensure` tries again.
    pub(super) fn told(self, id: &BuildId) -> (Failure, bool) {
        match self {
            Self::Failed(failure) => (failure, false),
            Self::Later(failure) => (failure, true),
            Self::Passing(error) => {
                tracing::warn!(build = %id, error = %error.chain(), "a build broke off");
                let word = match error.kind() {
                    ErrorKind::NotFound => reason::IMAGE_PULL.to_owned(),
                    ErrorKind::Unauthenticated | ErrorKind::PermissionDenied => {
                        error.reason().to_owned()
                    }
                    _ => reason::BACKEND_UNAVAILABLE.to_owned(),
                };
                let failure = Failure::new(word, error.message().to_owned());
                (failure, error.retry() != Retry::Never)
            }
        }
    }

    pub(super) fn timeout(limit: Duration) -> Self {
        let seconds = limit.max(Duration::from_secs(1)).as_secs();
        let message = format!("the build took longer than {seconds} s");
        Self::Failed(Failure::new(reason::BUILD_TIMEOUT, message))
    }
}

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        Self::Passing(error)
    }
}

/// Where a build says how far it is.
#[derive(Debug)]
pub(in crate::builder) struct Progress {
    pub(super) log: BuildLog,
    pub(super) state: watch::Sender<BuildStatus>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) changes: Changes,
    pub(super) key: ObjectKey,
}

impl Progress {
    /// The next step begins. It is a line of the log, too.
    pub(in crate::builder) fn step(&self, text: &str) {
        self.line(text);
        self.at(text);
    }

    /// What is being done now. Whoever watches is told where it is something else than before.
    pub(in crate::builder) fn at(&self, text: &str) {
        let new = self.state.send_if_modified(|state| {
            let same = matches!(state, BuildStatus::Running { step } if step == text);
            if !same {
                *state = BuildStatus::Running {
                    step: text.to_owned(),
                };
            }
            !same
        });
        if new {
            self.changes.notify(self.key.clone());
        }
    }

    /// A line of the log.
    pub(in crate::builder) fn line(&self, text: impl Into<String>) {
        self.log.add(self.clock.now(), text);
    }
}
