//! Terraform as the parent of this process.

use std::{os::unix::process::parent_id, time::Duration};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How often to look whether Terraform is still there.
const LOOK: Duration = Duration::from_millis(500);

/// How long operations may take to end once nobody waits for them.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// Ends the plugin when its parent is gone: a Terraform that was killed outright says nothing.
///
/// Only looking is sure: a signal at the parent's death comes from the end of the *thread* that
/// started us, and a Go program's threads come and go.
pub(super) fn watch(shutdown: CancellationToken, stop: CancellationToken) -> JoinSet<()> {
    let parent = parent_id();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        while parent_id() == parent {
            tokio::time::sleep(LOOK).await;
        }
        tracing::warn!("Terraform is gone");
        stop.cancel();
        shutdown.cancel();
        tokio::time::sleep(LAST_WAIT).await;
        // What goes on now would go on unseen.
        std::process::exit(1);
    });
    tasks
}

/// Ignores SIGINT while the answer is held.
pub(super) fn ignore_interrupts() -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(async {
        // An error says that the signal is not ours to take: then it ends the process, as ever.
        while tokio::signal::ctrl_c().await.is_ok() {
            tracing::debug!("SIGINT: Terraform asks to stop by itself");
        }
    });
    tasks
}
