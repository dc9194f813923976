//! The folders of functions, their `HOME` and `TMPDIR`: what they may hold.
//!
//! No limit of the kernel bounds them without a quota that only root can set. So they are looked at, and
//! whoever holds more loses its workers and its files.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Duration,
};

use sless_core::{Failure, LogSource, Uid};

use super::{Inner, runner::Runner, sink::function_log};
use crate::sandbox::{SandboxMode, is_over};

/// The word of what happens to a function whose folder holds too much.
const REASON: &str = "limit_home_bytes";

/// How many functions that were emptied are told to a job that is slow to hear it.
pub(super) const EMPTIED: usize = 64;

/// Looks at the folders of functions that are awake, as long as there is a scheduler.
pub(super) async fn watch(scheduler: Weak<Inner>) {
    loop {
        let Some(inner) = scheduler.upgrade() else {
            return;
        };
        let Some(pause) = inner.home_look() else {
            return;
        };
        let clock = inner.clock.clone();
        drop(inner);
        clock.sleep(pause).await;
        let Some(inner) = scheduler.upgrade() else {
            return;
        };
        let runners: Vec<_> = inner.runners().values().cloned().collect();
        for runner in runners.into_iter().filter(|runner| runner.is_awake()) {
            let home = inner.home(&runner.function.uid);
            if inner.is_over(home.clone()).await {
                inner.empty(&runner, home).await;
            }
        }
    }
}

impl Inner {
    /// How often folders are looked at; `None` where they are not.
    fn home_look(&self) -> Option<Duration> {
        let pause = Duration::from_millis(self.sandbox.home_look_ms.max(1));
        (self.sandbox.mode != SandboxMode::Off).then_some(pause)
    }

    fn home(&self, function: &Uid) -> PathBuf {
        self.homes.join(function.as_str())
    }

    async fn is_over(&self, home: PathBuf) -> bool {
        let (bytes, files) = (self.sandbox.home_bytes, self.sandbox.home_files);
        let looked = crate::blocking(move || Ok(is_over(&home, bytes, files)));
        looked.await.unwrap_or(false)
    }

    fn too_much(&self) -> String {
        let (bytes, files) = (self.sandbox.home_bytes, self.sandbox.home_files);
        format!(
            "its folder held more than home_bytes of {bytes} bytes or home_files of {files} files"
        )
    }

    /// Ends the workers of a function, and removes its files.
    async fn empty(self: &Arc<Self>, runner: &Runner, home: PathBuf) {
        let function = &runner.function;
        let line = format!(
            "{}: its workers were ended and its files removed",
            self.too_much()
        );
        tracing::warn!(%function, "{line}");
        let log = self.logs.writer(&function_log(function));
        log.text(LogSource::System, line);
        // Its jobs share the folder, and would find it empty at their next look. There may be none.
        let _ = self.emptied.send(function.uid.clone());
        runner.cut_off(self).await;
        clear(home).await;
    }

    /// Waits until the folder of a function holds too much, and says so; for ever where nobody looks.
    pub(super) async fn home_overflow(&self, function: &Uid) -> Failure {
        let Some(pause) = self.home_look() else {
            return std::future::pending().await;
        };
        let home = self.home(function);
        let mut emptied = self.emptied.subscribe();
        loop {
            // It may be emptied between two looks, since the function's own workers share it.
            let told = async { while emptied.recv().await.as_ref() != Ok(function) {} };
            if self.is_over(home.clone()).await {
                break;
            }
            tokio::select! {
                () = told => break,
                () = self.clock.sleep(pause) => {}
            }
        }
        Failure::new(REASON, self.too_much())
    }

    /// Removes the files of a function.
    pub(super) async fn clear_home(&self, function: &Uid) {
        clear(self.home(function)).await;
    }
}

/// Removes what is in a folder, not the folder: a worker that starts may have it as its own already.
async fn clear(home: PathBuf) {
    let cleared = crate::blocking(move || {
        if let Err(error) = remove_all(&home) {
            tracing::warn!(%error, "the files of a function were not removed yet");
        }
        Ok(())
    });
    let _ = cleared.await;
}

fn remove_all(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let removed = if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())
        } else {
            fs::remove_file(entry.path())
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
