//! One machine: SQLite, files, processes.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use sless_core::Clock;
#[cfg(not(feature = "fault-points"))]
use sless_core::SystemClock;
use sless_local::{Enforcement, Local, LocalConfig, SandboxMode, SandboxReport};

use super::{Assembled, Part};
use crate::{StartError, settings::Settings};

pub(super) async fn open(settings: &Settings) -> Result<Assembled, StartError> {
    let local = Local::open_with_clock(config(settings), clock()).await?;
    for sentence in local.missing().await {
        tracing::warn!("{sentence}");
    }
    let detail = sandbox(settings.sandbox.mode, local.sandbox());
    let mut assembled = Assembled::new(local.backends());
    assembled.add(LocalPart { local, detail });
    Ok(assembled)
}

#[cfg(feature = "fault-points")]
fn clock() -> Arc<dyn Clock> {
    crate::faults::clock()
}

#[cfg(not(feature = "fault-points"))]
fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}

fn config(settings: &Settings) -> LocalConfig {
    let mut config = LocalConfig::new(&settings.data_dir);
    config.tools.clone_from(&settings.tools);
    config.sandbox.mode = settings.sandbox.mode;
    let confinement = &mut config.sandbox.confinement;
    confinement.read.clone_from(&settings.sandbox.read);
    confinement.write.clone_from(&settings.sandbox.write);
    let drain = u64::try_from(settings.drain_timeout.as_millis()).unwrap_or(u64::MAX);
    config.scheduler.drain_ms = drain;
    config.scheduler.zygotes = settings.limits.zygotes;
    config.queue.drain_ms = drain;
    config
}

/// What keeps functions apart here, for the log and for `/readyz`.
fn sandbox(mode: SandboxMode, report: Option<&SandboxReport>) -> Value {
    let word = match mode {
        SandboxMode::Auto => "auto",
        SandboxMode::Required => "required",
        SandboxMode::Off => "off",
    };
    let Some(report) = report else {
        tracing::warn!("SLESS_LOCAL_SANDBOX is off: functions may do what this user may do");
        return json!({ "mode": word });
    };
    let (mut enforced, mut partly, mut lacking) = (Vec::new(), Map::new(), Map::new());
    for protection in &report.protections {
        let name = protection.name;
        match &protection.enforcement {
            Enforcement::Enforced => enforced.push(name),
            Enforcement::Partly(how) => {
                partly.insert(name.to_owned(), json!(how));
            }
            Enforcement::Lacking(why) => {
                tracing::warn!(
                    protection = name,
                    against = protection.against,
                    why,
                    "functions are not kept from everything on this machine"
                );
                lacking.insert(name.to_owned(), json!(why));
            }
            _ => {}
        }
    }
    tracing::info!(
        enforced = enforced.join(","),
        lacking = lacking.len(),
        "functions are confined"
    );
    json!({ "mode": word, "enforced": enforced, "partly": partly, "lacking": lacking })
}

#[derive(Debug)]
struct LocalPart {
    local: Local,
    detail: Value,
}

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

    fn detail(&self) -> Option<(&'static str, Value)> {
        Some(("sandbox", self.detail.clone()))
    }

    async fn shutdown(&self) {
        self.local.shutdown().await;
    }
}
