//! One function: from what is in its folder to something that answers.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, TryStreamExt, future};
use jiff::Timestamp;
use sless_core::{
    ByteStream, CatalogExt, Error, Function, FunctionId, FunctionPhase, Kind, LogOptions,
    LogSource, LogTarget, Metadata, Name, Namespace, ObjectKey, Result, Sless, Trigger,
    TriggerType,
};

use sless_source::{Content, Declared};
use tokio_util::io::ReaderStream;

use super::print::{Label, Printer};

/// How long to wait until a log is looked for again.
const LOG_PAUSE: Duration = Duration::from_millis(100);

/// Deploys into the namespace of `dev`, and shows how it goes.
#[derive(Clone, Debug)]
pub(super) struct Deployer {
    pub(super) sless: Sless,
    pub(super) namespace: Namespace,
    pub(super) printer: Arc<Printer>,
}

impl Deployer {
    /// Makes function and triggers what the content says. The code is still what it was.
    pub(super) async fn put(&self, content: &Content) -> Result<Function> {
        let function = self
            .sless
            .put_function(&self.namespace, &content.name, &content.spec)
            .await?;
        self.put_triggers(content).await?;
        Ok(function)
    }

    /// Uploads the code and waits until it runs or cannot, showing the log of its build meanwhile.
    pub(super) async fn upload(&self, label: &Label, content: &Content) -> Result<Function> {
        let (namespace, name) = (&self.namespace, &content.name);
        let since = Timestamp::now();
        let zip = zip(content.clone()).await?;
        self.sless.upload(namespace, name, zip).await?;
        let mut shown = 0;
        let function = {
            let settled = self.sless.wait_until_settled(namespace, name);
            let log = self.show_build(label, name, since, &mut shown);
            tokio::select! {
                settled = settled => settled?,
                never = log => match never {},
            }
        };
        // What was written at the very end may not have come through yet.
        let options = LogOptions::default().with_since(since);
        if let Ok(lines) = self.sless.logs(namespace, name, &options).await {
            let build = lines.filter(|line| {
                future::ready(
                    line.as_ref()
                        .is_ok_and(|line| line.source == LogSource::Build),
                )
            });
            let mut rest = build.skip(shown);
            while let Some(Ok(line)) = rest.next().await {
                self.printer.log(label, &line);
            }
        }
        Ok(function)
    }

    /// Shows what a build says from now on, and counts its lines.
    async fn show_build(
        &self,
        label: &Label,
        name: &Name,
        since: Timestamp,
        shown: &mut usize,
    ) -> std::convert::Infallible {
        let options = LogOptions::default().following().with_since(since);
        if let Ok(mut lines) = self.sless.logs(&self.namespace, name, &options).await {
            while let Some(Ok(line)) = lines.next().await {
                // The log of the runs, which another task shows, follows.
                if line.source != LogSource::Build {
                    break;
                }
                self.printer.log(label, &line);
                *shown += 1;
            }
        }
        future::pending().await
    }

    /// Shows what a function writes, from now on and across its versions; never ends.
    pub(super) async fn show_runs(self, label: Label, function: FunctionId) {
        let mut since = Timestamp::now();
        let target = LogTarget::Function(function);
        loop {
            let options = LogOptions::default().following().with_since(since);
            if let Ok(mut lines) = self
                .sless
                .backends()
                .scheduler
                .logs(&target, &options)
                .await
            {
                while let Some(Ok(line)) = lines.next().await {
                    since = since.max(line.at + jiff::SignedDuration::from_nanos(1));
                    self.printer.log(&label, &line);
                }
            }
            tokio::time::sleep(LOG_PAUSE).await;
        }
    }

    /// Removes a function and its triggers. That it is not there is fine.
    pub(super) async fn remove(&self, name: &Name) -> Result<()> {
        for trigger in self.triggers(name).await? {
            self.delete(Kind::Trigger, trigger.metadata.name).await?;
        }
        self.delete(Kind::Function, name.clone()).await
    }

    /// Removes what an earlier run left, except for these functions, whose builds are of use. All
    /// triggers go: what was due in between is not caught up with.
    pub(super) async fn remove_leftovers(&self, kept: &[&Name]) -> Result<()> {
        self.sless.ensure_namespace(&self.namespace).await?;
        let catalog = &self.sless.backends().catalog;
        let triggers: Vec<Trigger> = catalog.read_all(Some(&self.namespace)).await?;
        for trigger in triggers {
            self.delete(Kind::Trigger, trigger.metadata.name).await?;
        }
        let functions: Vec<Function> = catalog.read_all(Some(&self.namespace)).await?;
        for Function { metadata, .. } in functions {
            if !kept.contains(&&metadata.name) {
                self.delete(Kind::Function, metadata.name).await?;
            }
        }
        Ok(())
    }

    async fn delete(&self, kind: Kind, name: Name) -> Result<()> {
        let key = ObjectKey::new(kind, self.namespace.clone(), name);
        match self.sless.delete(&key).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    async fn triggers(&self, function: &Name) -> Result<Vec<Trigger>> {
        let all: Vec<Trigger> = self
            .sless
            .backends()
            .catalog
            .read_all(Some(&self.namespace))
            .await?;
        Ok(all
            .into_iter()
            .filter(|trigger| trigger.spec.function_ref == *function)
            .collect())
    }

    async fn put_triggers(&self, content: &Content) -> Result<()> {
        let catalog = &self.sless.backends().catalog;
        let mut there = self.triggers(&content.name).await?;
        let wanted = |trigger: &Trigger| {
            let mut wanted = content.declared().iter();
            wanted.any(|Declared { name, spec, .. }| {
                *name == trigger.metadata.name && spec.kind == trigger.spec.kind
            })
        };
        for trigger in there.extract_if(.., |trigger| !wanted(trigger)) {
            self.delete(Kind::Trigger, trigger.metadata.name).await?;
        }
        for Declared { name, spec, .. } in content.declared() {
            match there.iter().find(|trigger| trigger.metadata.name == *name) {
                Some(trigger) if trigger.spec == *spec => {}
                Some(_) => {
                    let change = |trigger: &mut Trigger| {
                        trigger.spec = spec.clone();
                        Ok(())
                    };
                    catalog.modify(&self.namespace, name, change).await?;
                }
                None => {
                    let metadata = Metadata::new(self.namespace.clone(), name.clone());
                    let added = catalog.add(Trigger::new(metadata, spec.clone())).await;
                    added.map_err(|error| match error.kind() {
                        sless_core::ErrorKind::AlreadyExists => Error::invalid(format!(
                            "a trigger named `{name}` belongs to another function: expected a name \
                             of its own for each trigger"
                        )),
                        _ => error,
                    })?;
                }
            }
        }
        Ok(())
    }
}

/// The zip of a content, made beside the tasks and read while it is taken.
async fn zip(content: Content) -> Result<ByteStream> {
    let made = tokio::task::spawn_blocking(move || content.zip());
    let zip = made
        .await
        .map_err(|cause| Error::internal("writing the zip broke off").with_source(cause))??;
    let pieces = ReaderStream::with_capacity(tokio::fs::File::from_std(zip.file), 64 << 10);
    let pieces = pieces.map_err(|cause| Error::internal("cannot read the zip").with_source(cause));
    Ok(pieces.boxed())
}

/// A trigger in a sentence.
pub(super) fn describe(Declared { name, spec, .. }: &Declared) -> String {
    let what = match spec.kind {
        TriggerType::Http => "its URL".to_owned(),
        TriggerType::Event => format!("queue `{}`", spec.queue.as_deref().unwrap_or_default()),
        TriggerType::Cron => {
            let next = spec.parse_schedule().ok();
            let next = next.and_then(|schedule| schedule.upcoming(Timestamp::now()).next());
            let next = next
                .map(|next| format!(", next at {next:.0}"))
                .unwrap_or_default();
            let schedule = spec.schedule.as_deref().unwrap_or_default();
            let zone = spec.time_zone.as_deref().unwrap_or("UTC");
            format!(
                "schedule `{schedule}` in {zone}{}",
                if spec.enabled { &next } else { "" }
            )
        }
    };
    let off = if spec.enabled { "" } else { " (disabled)" };
    format!("trigger {name}: {what}{off}")
}

/// How a function that does not run is told. The end of its log, which the message holds too, has been
/// shown already.
pub(super) fn trouble(function: &Function) -> String {
    let status = &function.status;
    let message = status.message.lines().next().unwrap_or_default();
    let serves = match status.serving {
        Some(_) if status.phase == FunctionPhase::Failed => "\nthe version before serves on",
        _ => "",
    };
    format!("{}: {message}{serves}", status.reason)
}
