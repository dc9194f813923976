//! What is kept for functions and jobs: in memory, in the data folder, in the logs.

use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use sless_core::{Held, HeldStream, Result, Uid};

use super::{Inner, sink};
use crate::{error::BACKEND, error::Fault};

/// Lists it.
pub(super) fn all(inner: Arc<Inner>) -> HeldStream {
    let listed = stream::once(async move { inner.kept().await });
    let each = listed.map_ok(|items| stream::iter(items.into_iter().map(Ok)));
    each.try_flatten().boxed()
}

impl Inner {
    async fn kept(&self) -> Result<Vec<Held>> {
        let mut kept: Vec<Held> = {
            let runners = self.runners();
            let functions = runners.values().map(|runner| &runner.function);
            let workload = |id: &sless_core::FunctionId| {
                Held::new("workload", id.to_string(), BACKEND).of(id.key(), id.uid.clone())
            };
            functions.map(workload).collect()
        };
        // Of the rest only the uid is known.
        kept.extend(self.jobs.all().into_iter().map(|(uid, run)| {
            let name = format!("{uid} {run}");
            of_uid("run", name, uid)
        }));
        let homes = self.homes.clone();
        let homes = crate::blocking(move || {
            let entries = match std::fs::read_dir(&homes) {
                Ok(entries) => entries,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
                Err(error) => return Err(Fault::io("reading", &homes)(error).into()),
            };
            let names = entries.map(|entry| {
                let entry = entry.map_err(Fault::io("reading", &homes))?;
                Ok(entry.file_name().to_string_lossy().into_owned())
            });
            names.collect::<Result<Vec<_>>>()
        });
        let homes = homes.await?.into_iter();
        kept.extend(homes.map(|uid| of_uid("temporary_files", uid.clone(), Uid::new(uid))));
        let logs = self.logs.names().await?.into_iter();
        kept.extend(logs.filter_map(|log| {
            let uid = Uid::new(sink::uid_of(&log)?);
            Some(of_uid("log", log, uid))
        }));
        Ok(kept)
    }
}

fn of_uid(kind: &str, name: String, uid: Uid) -> Held {
    let mut held = Held::new(kind, name, BACKEND);
    held.uid = Some(uid);
    held
}
