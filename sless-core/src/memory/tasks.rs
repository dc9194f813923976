//! The background tasks of a backend.

use std::{future::Future, sync::Mutex};

use tokio::task::JoinSet;

use super::lock;

/// Tasks that end when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Tasks(Mutex<JoinSet<()>>);

impl Tasks {
    /// Runs a future beside the caller, on the caller's runtime.
    pub(super) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = lock(&self.0);
        // Those that ended are let go here, so that the set does not grow with time.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(future);
    }

    /// Ends all of them and waits until they have.
    pub(super) async fn end(&self) {
        let mut tasks = std::mem::take(&mut *lock(&self.0));
        tasks.shutdown().await;
    }
}
