//! What is left to do for puts that were dropped.

use std::{future::Future, sync::Arc};

use sless_core::StorageKey;
use tokio::{runtime::Handle, sync::Semaphore};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The tasks of one storage, on the runtime that it was connected on.
#[derive(Debug)]
pub(crate) struct Dropped {
    runtime: Handle,
    tasks: TaskTracker,
    cancelled: CancellationToken,
    places: Arc<Semaphore>,
}

impl Dropped {
    /// On the runtime of the caller.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            runtime: Handle::current(),
            tasks: TaskTracker::new(),
            cancelled: CancellationToken::new(),
            places: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))),
        }
    }

    /// Runs something that a caller waits for, to its end even if the caller is dropped.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let cancelled = self.cancelled.clone();
        let task = async move {
            tokio::select! {
                biased;
                () = cancelled.cancelled() => {}
                () = work => {}
            }
        };
        self.tasks.spawn_on(task, &self.runtime);
    }

    /// Runs what aborts the upload of a put that was dropped.
    pub(crate) fn abort(&self, key: StorageKey, work: impl Future<Output = ()> + Send + 'static) {
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            tracing::warn!(%key, "parts of an upload are left: limit dropped_uploads is reached");
            return;
        };
        self.spawn(async move {
            work.await;
            drop(place);
        });
    }

    /// Waits for all of them.
    pub(crate) async fn finish(&self) {
        self.tasks.close();
        self.tasks.wait().await;
        self.tasks.reopen();
    }

    pub(crate) fn cancel(&self) {
        self.cancelled.cancel();
    }
}
