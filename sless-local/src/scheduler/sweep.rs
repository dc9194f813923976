//! What a crash left of functions and jobs of which nothing is remembered.

use std::{fs, path::Path};

use sless_core::{Result, Uid};

use super::{Inner, sink};
use crate::{artifacts::remove_folder, error::Fault};

impl Inner {
    /// Removes the logs and the folders of functions and jobs that were forgotten before these were gone.
    /// Called once, before anything is applied.
    pub(super) async fn sweep(&self) -> Result<()> {
        self.logs
            .sweep(|log| sink::uid_of(log).is_some_and(|uid| !self.remembers(&Uid::new(uid))))
            .await?;
        let homes = self.homes.clone();
        for name in crate::blocking(move || names(&homes)).await? {
            if !self.remembers(&Uid::new(name.as_str())) {
                let home = self.homes.join(name);
                crate::blocking(move || remove_folder(&home)).await?;
            }
        }
        Ok(())
    }

    /// Removes the artifacts that nobody uses any more: their builds may have been forgotten while something
    /// still ran from them.
    pub(super) async fn sweep_artifacts(&self) {
        let artifacts = self.artifacts.clone();
        if let Err(error) = crate::blocking(move || artifacts.sweep()).await {
            tracing::warn!(error = %error.chain(), "an artifact was not removed yet");
        }
    }

    fn remembers(&self, uid: &Uid) -> bool {
        self.runners().contains_key(uid) || self.jobs.knows_uid(uid)
    }
}

fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder).map_err(Fault::io("reading", folder))?;
    let names = entries.map(|entry| {
        let entry = entry.map_err(Fault::io("reading", folder))?;
        Ok(entry.file_name().to_string_lossy().into_owned())
    });
    names.collect()
}
