use sless_core::{Error, Result};

use crate::error::BACKEND;

/// Runs work that blocks on a thread where it may.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|broken| {
            Err(Error::internal("work on another thread broke off")
                .at(BACKEND)
                .with_source(broken))
        })
}
