//! Ctrl-C and the request to terminate.

use std::{io, pin::pin};

use crate::{
    failure::{Exit, Failure, Result},
    output::Output,
};

/// Tells when the command is to end. While one exists, a signal no longer ends the process by itself.
#[derive(Debug)]
pub(crate) struct Interrupt {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Interrupt {
    #[cfg(unix)]
    pub(crate) fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    #[cfg(not(unix))]
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Waits for the signal; the status is what the process is to end with.
    #[cfg(unix)]
    pub(crate) async fn told(&mut self) -> Exit {
        tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            _ = self.terminate.recv() => Exit::Terminated,
        }
    }

    #[cfg(not(unix))]
    pub(crate) async fn told(&mut self) -> Exit {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Exit::Interrupted
    }

    /// Does something that can be cut off at any place.
    pub(crate) async fn cut<T>(&mut self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            biased;
            exit = self.told() => Err(Failure::silent(exit)),
            done = work => done,
        }
    }

    /// Does something to its end although told to stop, and then stops. Told once more, it stops at
    /// once.
    pub(crate) async fn whole<T>(
        &mut self,
        output: &Output,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let mut work = pin!(work);
        let exit = tokio::select! {
            done = &mut work => return done,
            exit = self.told() => exit,
        };
        output.say("finishing what has begun; Ctrl-C once more ends at once");
        tokio::select! {
            done = &mut work => done.and(Err(Failure::silent(exit))),
            exit = self.told() => Err(Failure::silent(exit)),
        }
    }
}
