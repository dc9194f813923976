//! [`Local`]: all of them on one data folder.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use sless_core::{Backends, Clock, Result, SystemClock, memory::NoopValidator};
use sless_runtime::SandboxReport;

use crate::{
    DataDir, LocalBuilder, LocalCatalog, LocalConfig, LocalDispatcher, LocalInvocationLog,
    LocalLease, LocalScheduler, LocalStorage,
    artifacts::{Artifacts, remove_folder},
    builder,
    catalog::SCHEMA,
    database::Database,
    logs::Logs,
    points,
    process::{Tools, kill_leftovers},
    records::Records,
    scheduler,
};

/// The backends of one machine on one data folder.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> sless_core::Result<()> {
/// use sless_core::{Catalog as _, Namespace};
/// use sless_local::{Local, LocalConfig};
///
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let data_dir = folder.path();
/// let local = Local::open(LocalConfig::new(data_dir)).await?;
/// local.catalog().ensure_namespace(&Namespace::new("demo")?).await?;
/// local.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Local {
    dir: DataDir,
    catalog_file: Database,
    catalog: Arc<LocalCatalog>,
    storage: Arc<LocalStorage>,
    dispatcher: Arc<LocalDispatcher>,
    invocations: Arc<LocalInvocationLog>,
    lease: Arc<LocalLease>,
    builder: Arc<LocalBuilder>,
    scheduler: Arc<LocalScheduler>,
    records: Records,
    logs: Logs,
    tools: Arc<Tools>,
    sandbox: Option<SandboxReport>,
    clock: Arc<dyn Clock>,
}

impl Local {
    /// Takes the data folder, making it if it is not there, and opens what is in it.
    ///
    /// # Errors
    /// `Unavailable`, reason `data_dir_in_use`, naming the process that owns it; `Unsupported` if a
    /// newer version of sless wrote it, or, reason `sandbox_lacking`, if a sandbox is required of which
    /// this machine lacks a part; `Corrupt` if a file is damaged.
    pub async fn open(config: LocalConfig) -> Result<Self> {
        Self::open_with_clock(config, Arc::new(SystemClock)).await
    }

    /// As [`open`](Self::open), on another clock than the machine's.
    ///
    /// # Errors
    /// Those of `open`.
    pub async fn open_with_clock(config: LocalConfig, clock: Arc<dyn Clock>) -> Result<Self> {
        let (sandbox, data_dir) = (config.sandbox.clone(), config.data_dir.clone());
        let sandbox = crate::blocking(move || {
            let report = sandbox.report(&data_dir);
            sandbox.check(report.as_ref())?;
            Ok(report)
        });
        let sandbox = sandbox.await?;
        let files = crate::blocking({
            let (config, clock) = (config.clone(), clock.clone());
            move || Files::open(&config, &clock)
        });
        let Files {
            dir,
            catalog_file,
            catalog,
            storage,
            dispatcher,
            invocations,
            lease,
            records,
        } = files.await?;
        let instance = records.instance().await?;
        let programs = crate::blocking({
            let (config, dir, instance) = (config.clone(), dir.clone(), instance.clone());
            move || Programs::find(&config, &dir, &instance)
        });
        let Programs {
            tools,
            artifacts,
            logs,
        } = programs.await?;
        let shared = builder::Shared {
            clock: clock.clone(),
            tools: tools.clone(),
            artifacts: artifacts.clone(),
            work: dir.work(),
            cache: dir.cache(),
            sandbox: config.sandbox.clone(),
            instance: instance.clone(),
            records: records.clone(),
            logs: logs.clone(),
        };
        let builder = LocalBuilder::open(config.builder, shared).await?;
        let leftovers = artifacts.clone();
        crate::blocking(move || leftovers.sweep_leftovers()).await?;
        let shared = scheduler::Shared {
            clock: clock.clone(),
            tools: tools.clone(),
            artifacts,
            homes: dir.homes(),
            runtime_dir: dir.runtime(),
            sandbox: config.sandbox,
            instance,
            records: records.clone(),
            logs: logs.clone(),
        };
        let scheduler = LocalScheduler::open(config.scheduler, shared).await?;
        Ok(Self {
            dir,
            catalog_file,
            catalog: Arc::new(catalog),
            storage: Arc::new(storage),
            dispatcher: Arc::new(dispatcher),
            invocations: Arc::new(invocations),
            lease: Arc::new(lease),
            builder: Arc::new(builder),
            scheduler: Arc::new(scheduler),
            records,
            logs,
            tools,
            sandbox,
            clock,
        })
    }

    /// All of them, for an engine. Nobody looks at uploads: put a validator of your own in.
    pub fn backends(&self) -> Backends {
        Backends {
            catalog: self.catalog.clone(),
            storage: self.storage.clone(),
            builders: vec![self.builder.clone()],
            scheduler: self.scheduler.clone(),
            validator: Arc::new(NoopValidator),
            dispatcher: self.dispatcher.clone(),
            publisher: Some(self.dispatcher.clone()),
            invocations: Some(self.invocations.clone()),
            // A data folder has one process.
            lease: None,
            cron: None,
            clock: self.clock.clone(),
        }
    }

    /// What this machine lacks, a sentence each: an interpreter, for instance. Functions that need it
    /// fail with that sentence.
    pub async fn missing(&self) -> Vec<String> {
        let system = sless_runtime::lacking().map(str::to_owned);
        let mut missing: Vec<_> = system.into_iter().collect();
        missing.extend(self.tools.missing().await);
        missing
    }

    /// What keeps functions and installers apart on this machine, and what it lacks for that. `None` where
    /// the sandbox is off.
    pub const fn sandbox(&self) -> Option<&SandboxReport> {
        self.sandbox.as_ref()
    }

    /// What builds.
    pub const fn builder(&self) -> &Arc<LocalBuilder> {
        &self.builder
    }

    /// What runs.
    pub const fn scheduler(&self) -> &Arc<LocalScheduler> {
        &self.scheduler
    }

    /// The data folder.
    pub const fn dir(&self) -> &DataDir {
        &self.dir
    }

    /// What is wanted.
    pub const fn catalog(&self) -> &Arc<LocalCatalog> {
        &self.catalog
    }

    /// Uploaded sources and build contexts.
    pub const fn storage(&self) -> &Arc<LocalStorage> {
        &self.storage
    }

    /// The queues.
    pub const fn dispatcher(&self) -> &Arc<LocalDispatcher> {
        &self.dispatcher
    }

    /// What was called.
    pub const fn invocations(&self) -> &Arc<LocalInvocationLog> {
        &self.invocations
    }

    /// Who may act.
    pub const fn lease(&self) -> &Arc<LocalLease> {
        &self.lease
    }

    /// The clock of all of them.
    pub const fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Finishes what is under way, within the limits of the configuration, and closes the files. Every
    /// later call answers `Unavailable`, reason `closed`. The data folder is free once the last handle
    /// is dropped.
    ///
    /// Without it, nothing is lost that was acknowledged; calls of queues are cut off and come again.
    pub async fn shutdown(&self) {
        told("the queues", self.dispatcher.shutdown()).await;
        told("the builds", self.builder.shutdown()).await;
        told("the workers", self.scheduler.shutdown()).await;
        let files = async {
            self.logs.flush().await;
            self.records.close().await;
            self.catalog.end_watches();
            self.catalog_file.close().await;
            self.invocations.close().await;
        };
        told("the files", files).await;
    }
}

/// How long a part may take to end until that is told, and told again.
const END_TOLD: Duration = Duration::from_secs(10);

/// Waits for the end of a part, and says so where it takes long.
async fn told(what: &'static str, end: impl Future<Output = ()>) {
    let mut end = std::pin::pin!(end);
    let began = Instant::now();
    while tokio::time::timeout(END_TOLD, end.as_mut()).await.is_err() {
        tracing::warn!(what, after = ?began.elapsed(), "still waiting for an end");
    }
}

/// What is opened first, in one go.
struct Files {
    dir: DataDir,
    catalog_file: Database,
    catalog: LocalCatalog,
    storage: LocalStorage,
    dispatcher: LocalDispatcher,
    invocations: LocalInvocationLog,
    lease: LocalLease,
    records: Records,
}

impl Files {
    fn open(config: &LocalConfig, clock: &Arc<dyn Clock>) -> Result<Self> {
        let dir = DataDir::open(&config.data_dir)?;
        let catalog_file = Database::open(&dir, &SCHEMA, &config.catalog.database)?;
        Ok(Self {
            catalog: LocalCatalog::in_database(
                catalog_file.clone(),
                &config.catalog,
                clock.clone(),
            )?,
            lease: LocalLease::in_database(catalog_file.clone(), clock.clone()),
            storage: LocalStorage::open(&dir, &config.storage)?,
            dispatcher: LocalDispatcher::open(&dir, &config.queue, clock.clone())?,
            invocations: LocalInvocationLog::open(&dir, &config.invocations)?,
            records: Records::open(&dir, &config.work)?,
            catalog_file,
            dir,
        })
    }
}

/// What programs need.
struct Programs {
    tools: Arc<Tools>,
    artifacts: Artifacts,
    logs: Logs,
}

impl Programs {
    /// Ends what an earlier process left running, and removes what it left half made.
    fn find(config: &LocalConfig, dir: &DataDir, instance: &str) -> Result<Self> {
        let killed = kill_leftovers(instance);
        if killed > 0 {
            tracing::warn!(killed, "processes that an earlier server left were ended");
        }
        points::KILLED.pass();
        remove_folder(&dir.work())?;
        points::SWEPT.pass();
        dir.make_folders()?;
        Ok(Self {
            tools: Arc::new(Tools::new(config.tools.clone())),
            artifacts: Artifacts::new(dir.artifacts()),
            logs: Logs::open(dir.logs(), &config.logs)?,
        })
    }
}
