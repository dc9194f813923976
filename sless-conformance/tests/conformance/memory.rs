//! The backends in memory under the suites: on the machine's clock and several threads, and on a
//! virtual clock and one.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use sless_conformance::{
    Fixture, FixtureCall, Harness,
    builder::BuilderHarness,
    catalog::CatalogHarness,
    dispatcher::DispatcherHarness,
    invocation_log::InvocationLogHarness,
    lease::LeaseHarness,
    scheduler::{Prepared, SchedulerHarness},
    storage::StorageHarness,
    validator::ValidatorHarness,
};
use sless_core::{
    Artifact, ArtifactKind, Builder, Catalog, Clock, Digest, Dispatcher, Entrypoint, InvocationLog,
    Kind, Lease, LogSource, Namespace, Publish, Result, Runtime, Scheduler, Storage, SystemClock,
    Validator, VirtualClock,
    memory::{
        BuildPlan, HandlerContext, HandlerError, MemoryBuilder, MemoryCatalog, MemoryCatalogConfig,
        MemoryDispatcher, MemoryInvocationLog, MemoryLease, MemoryScheduler, MemorySchedulerConfig,
        MemoryStorage, MemoryValidator, NoopValidator,
    },
};

/// A clock that passes by itself, or that the suite passes.
#[derive(Clone, Debug)]
pub(crate) enum Time {
    System,
    Virtual(VirtualClock),
}

impl Time {
    pub(crate) fn virtual_clock() -> Self {
        Self::Virtual(VirtualClock::default())
    }

    fn clock(&self) -> Arc<dyn Clock> {
        match self {
            Self::System => Arc::new(SystemClock),
            Self::Virtual(clock) => Arc::new(clock.clone()),
        }
    }

    async fn pass(&self, duration: Duration) {
        match self {
            Self::System => tokio::time::sleep(duration).await,
            Self::Virtual(clock) => clock.advance(duration).await,
        }
    }
}

/// A harness of a backend in memory.
#[derive(Debug)]
pub(crate) struct Memory<T> {
    time: Time,
    backend: Mutex<Arc<T>>,
}

impl<T> Memory<T> {
    pub(crate) fn new(time: Time, make: impl FnOnce(Arc<dyn Clock>) -> T) -> Self {
        let backend = Mutex::new(Arc::new(make(time.clock())));
        Self { time, backend }
    }

    pub(crate) fn backend(&self) -> Arc<T> {
        self.backend
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn replace(&self, backend: T) {
        *self.backend.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(backend);
    }
}

#[async_trait]
impl<T: fmt::Debug + Send + Sync> Harness for Memory<T> {
    fn clock(&self) -> Arc<dyn Clock> {
        self.time.clock()
    }

    async fn pass(&self, duration: Duration) {
        self.time.pass(duration).await;
    }
}

pub(crate) fn storage(time: Time) -> Memory<MemoryStorage> {
    Memory::new(time, MemoryStorage::new)
}

#[async_trait]
impl StorageHarness for Memory<MemoryStorage> {
    async fn storage(&self) -> Result<Arc<dyn Storage>> {
        Ok(self.backend())
    }

    async fn reopen(&self) -> Result<bool> {
        Ok(false)
    }

    fn keeps_bodies_outside(&self) -> bool {
        false
    }
}

/// How many changes the catalog remembers here: more than a clause makes between two looks.
pub(crate) const HISTORY: usize = 400;

pub(crate) fn catalog(time: Time) -> Memory<MemoryCatalog> {
    let mut config = MemoryCatalogConfig::default();
    config.history = HISTORY;
    Memory::new(time, |clock| MemoryCatalog::with_config(clock, config))
}

/// Changes an object until the history holds nothing else.
pub(crate) async fn fill_history(catalog: &dyn Catalog) -> Result<bool> {
    let query = sless_core::ListQuery::all(Kind::Function).with_limit(1);
    let page = catalog.list(&query).await?;
    let Some(mut object) = page.items.into_iter().next() else {
        return Ok(false);
    };
    for number in 0..=HISTORY {
        object
            .metadata_mut()
            .labels
            .insert("number".to_owned(), number.to_string());
        object = catalog.update(object).await?;
    }
    Ok(true)
}

#[async_trait]
impl CatalogHarness for Memory<MemoryCatalog> {
    async fn catalog(&self) -> Result<Arc<dyn Catalog>> {
        Ok(self.backend())
    }

    async fn reopen(&self) -> Result<bool> {
        Ok(false)
    }

    async fn forget_history(&self) -> Result<bool> {
        fill_history(&*self.backend()).await
    }
}

/// A builder, and the storage that it reads from.
#[derive(Debug)]
pub(crate) struct BuilderAndStorage {
    pub(crate) builder: Arc<MemoryBuilder>,
    pub(crate) storage: Arc<MemoryStorage>,
}

pub(crate) fn builder(time: Time) -> Memory<BuilderAndStorage> {
    Memory::new(time, |clock| BuilderAndStorage {
        builder: Arc::new(MemoryBuilder::new(clock.clone())),
        storage: Arc::new(MemoryStorage::new(clock)),
    })
}

#[async_trait]
impl BuilderHarness for Memory<BuilderAndStorage> {
    async fn builder(&self) -> Result<Arc<dyn Builder>> {
        Ok(self.backend().builder.clone())
    }

    async fn reopen(&self) -> Result<bool> {
        let before = self.backend();
        let builder = Arc::new(before.builder.restarted(|_| BuildPlan::default()).await);
        self.replace(BuilderAndStorage {
            builder,
            storage: before.storage.clone(),
        });
        Ok(true)
    }

    async fn storage(&self) -> Result<Arc<dyn Storage>> {
        Ok(self.backend().storage.clone())
    }

    async fn keeps(&self, artifact: &Artifact) -> Result<bool> {
        Ok(self.backend().builder.keeps(artifact))
    }

    fn installs_here(&self) -> bool {
        false
    }
}

pub(crate) fn scheduler(time: Time) -> Memory<MemoryScheduler> {
    let mut config = MemorySchedulerConfig::default();
    config.queued_calls = 8;
    // A start that takes time has an in-between to be seen in.
    config.start_delay = Duration::from_millis(20);
    Memory::new(time, |clock| MemoryScheduler::with_config(clock, config))
}

/// Runs a fixture as a handler, under an entrypoint of its own.
pub(crate) fn register(scheduler: &MemoryScheduler, fixture: Fixture) -> Option<Prepared> {
    let entrypoint: Entrypoint = format!("{}.handle", fixture.as_str()).parse().ok()?;
    if let Some(function) = fixture.function() {
        let function = Arc::new(function);
        let handler = move |request: http::Request<sless_core::Body>, context: HandlerContext| {
            let function = function.clone();
            async move {
                let log = context.clone();
                let call = FixtureCall {
                    request,
                    request_id: context.request_id.clone(),
                    env: context.env.clone(),
                    clock: context.clock().clone(),
                    log: Arc::new(move |source, text: &str| match source {
                        LogSource::Stderr => log.log_error(text),
                        _ => log.log(text),
                    }),
                };
                let answer = function.call(call).await;
                answer.map_err(|error| HandlerError::new(error.kind, error.message))
            }
        };
        scheduler.register(entrypoint.as_str(), handler);
    } else if fixture == Fixture::Exit {
        // A closure has no process that could end.
        return None;
    }
    let artifact = Artifact {
        kind: ArtifactKind::Memory,
        reference: fixture.as_str().to_owned(),
        digest: Digest::of(fixture.as_str()),
    };
    Some(Prepared {
        artifact,
        runtime: Runtime::Python311,
        entrypoint,
    })
}

#[async_trait]
impl SchedulerHarness for Memory<MemoryScheduler> {
    async fn scheduler(&self) -> Result<Arc<dyn Scheduler>> {
        Ok(self.backend())
    }

    async fn reopen(&self) -> Result<bool> {
        let restarted = self.backend().restarted().await;
        self.replace(restarted);
        Ok(true)
    }

    async fn prepare(&self, fixture: Fixture) -> Result<Option<Prepared>> {
        Ok(register(&self.backend(), fixture))
    }

    fn overflow(&self) -> usize {
        10
    }
}

pub(crate) fn dispatcher(time: Time) -> Memory<MemoryDispatcher> {
    Memory::new(time, MemoryDispatcher::new)
}

#[async_trait]
impl DispatcherHarness for Memory<MemoryDispatcher> {
    async fn dispatcher(&self) -> Result<Arc<dyn Dispatcher>> {
        Ok(self.backend())
    }

    async fn publisher(&self) -> Result<Arc<dyn Publish>> {
        Ok(self.backend())
    }

    async fn reopen(&self) -> Result<bool> {
        let restarted = self.backend().restarted().await;
        self.replace(restarted);
        Ok(true)
    }

    fn separates_namespaces(&self) -> bool {
        true
    }

    fn message_bytes_max(&self) -> Option<usize> {
        Some(1 << 20)
    }

    async fn remove_queue(&self, _: &Namespace, _: &str) -> Result<()> {
        Ok(())
    }
}

pub(crate) fn invocation_log(time: Time) -> Memory<MemoryInvocationLog> {
    Memory::new(time, |_| MemoryInvocationLog::new())
}

#[async_trait]
impl InvocationLogHarness for Memory<MemoryInvocationLog> {
    async fn invocation_log(&self) -> Result<Arc<dyn InvocationLog>> {
        Ok(self.backend())
    }

    async fn reopen(&self) -> Result<bool> {
        Ok(false)
    }
}

pub(crate) fn lease(time: Time) -> Memory<MemoryLease> {
    Memory::new(time, MemoryLease::new)
}

#[async_trait]
impl LeaseHarness for Memory<MemoryLease> {
    async fn lease(&self) -> Result<Arc<dyn Lease>> {
        Ok(self.backend())
    }

    async fn another(&self) -> Result<Arc<dyn Lease>> {
        Ok(self.backend())
    }
}

const UNSAFE: &str = "import os\n\ndef handle(event):\n    os.system('minerd -o pool')\n";

pub(crate) fn validator() -> Memory<MemoryValidator> {
    Memory::new(Time::System, |_| MemoryValidator::refusing("minerd"))
}

#[async_trait]
impl ValidatorHarness for Memory<MemoryValidator> {
    async fn validator(&self) -> Result<Arc<dyn Validator>> {
        Ok(self.backend())
    }

    fn unsafe_file(&self) -> Option<String> {
        Some(UNSAFE.to_owned())
    }
}

fn noop_validator() -> Memory<NoopValidator> {
    Memory::new(Time::System, |_| NoopValidator)
}

#[async_trait]
impl ValidatorHarness for Memory<NoopValidator> {
    async fn validator(&self) -> Result<Arc<dyn Validator>> {
        Ok(self.backend())
    }

    fn unsafe_file(&self) -> Option<String> {
        None
    }
}

macro_rules! suites {
    ($module:ident, $flavor:literal, $time:expr) => {
        mod $module {
            mod storage {
                use crate::memory::{Time, storage};
                sless_conformance::storage!(flavor = $flavor, storage($time));
            }

            mod catalog {
                use crate::memory::{Time, catalog};
                sless_conformance::catalog!(flavor = $flavor, catalog($time));
            }

            mod builder {
                use crate::memory::{Time, builder};
                sless_conformance::builder!(flavor = $flavor, builder($time));
            }

            mod scheduler {
                use crate::memory::{Time, scheduler};
                sless_conformance::scheduler!(flavor = $flavor, scheduler($time));
            }

            mod dispatcher {
                use crate::memory::{Time, dispatcher};
                sless_conformance::dispatcher!(flavor = $flavor, dispatcher($time));
            }

            mod invocation_log {
                use crate::memory::{Time, invocation_log};
                sless_conformance::invocation_log!(flavor = $flavor, invocation_log($time));
            }

            mod lease {
                use crate::memory::{Time, lease};
                sless_conformance::lease!(flavor = $flavor, lease($time));
            }
        }
    };
}

suites!(on_the_machines_clock, "multi_thread", Time::System);
suites!(on_a_virtual_clock, "current_thread", Time::virtual_clock());

mod validator_of_rules {
    use super::validator;
    sless_conformance::validator!(validator());
}

mod validator_of_nothing {
    use super::noop_validator;
    sless_conformance::validator!(noop_validator());
}
