//! A worker's process: a child of ours, or one that a zygote forked.

use std::io;
use std::process::ExitStatus;

use tokio::process::Child;

use crate::worker::Worker;
#[cfg(target_os = "linux")]
use crate::zygote::Forked;

/// Dropped, it is killed and reaped.
#[derive(Debug)]
pub(crate) enum Process {
    Own(Child),
    #[cfg(target_os = "linux")]
    Forked(Forked),
}

impl Process {
    /// Waits for its end, and tells the worker. A wait that was dropped can be repeated.
    pub(crate) async fn wait(&mut self, worker: &Worker) -> io::Result<ExitStatus> {
        match self {
            Process::Own(child) => {
                let status = child.wait().await;
                worker.reaped();
                status
            }
            #[cfg(target_os = "linux")]
            Process::Forked(forked) => forked.wait(worker).await,
        }
    }
}
