//! One machine: SQLite, files, processes.

use async_trait::async_trait;
use sless_local::{Local, LocalConfig};

use super::{Assembled, Part};
use crate::{StartError, settings::Settings};

pub(super) async fn open(settings: &Settings) -> Result<Assembled, StartError> {
    let local = Local::open(config(settings)).await?;
    for sentence in local.missing().await {
        tracing::warn!("{sentence}");
    }
    let mut assembled = Assembled::new(local.backends());
    assembled.add(LocalPart(local));
    Ok(assembled)
}

fn config(settings: &Settings) -> LocalConfig {
    let mut config = LocalConfig::new(&settings.data_dir);
    config.tools.clone_from(&settings.tools);
    let drain = u64::try_from(settings.drain_timeout.as_millis()).unwrap_or(u64::MAX);
    config.scheduler.drain_ms = drain;
    config.queue.drain_ms = drain;
    config
}

#[derive(Debug)]
struct LocalPart(Local);

#[async_trait]
impl Part for LocalPart {
    fn name(&self) -> &'static str {
        "local"
    }

    /// It is part of this process: it works as long as that does.
    fn state(&self) -> Result<(), String> {
        Ok(())
    }

    fn is_vital(&self) -> bool {
        true
    }

    async fn shutdown(&self) {
        self.0.shutdown().await;
    }
}
