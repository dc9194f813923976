use std::sync::Arc;

use crate::{
    Builder, Catalog, Clock, CronScheduler, Dispatcher, Error, InvocationLog, Lease, Publish,
    Result, Scheduler, Storage, SystemClock, Validator, memory,
};

/// Everything that the engine stands on: a struct of trait objects, each of which can be swapped.
///
/// Start from [`Backends::in_memory`], or from what a backend crate gives, and replace what you
/// like:
///
/// ```
/// # use std::sync::Arc;
/// use sless_core::{Backends, memory::MemoryStorage};
///
/// let backends = Backends {
///     storage: Arc::new(MemoryStorage::default()),
///     ..Backends::in_memory()
/// };
/// # drop(backends);
/// ```
#[derive(Clone, Debug)]
pub struct Backends {
    /// What is wanted.
    pub catalog: Arc<dyn Catalog>,
    /// Sources and build contexts.
    pub storage: Arc<dyn Storage>,
    /// What makes artifacts; of several, the first that can build a source does.
    pub builders: Vec<Arc<dyn Builder>>,
    /// What runs functions and jobs.
    pub scheduler: Arc<dyn Scheduler>,
    /// What looks at uploads.
    pub validator: Arc<dyn Validator>,
    /// What takes messages from queues.
    pub dispatcher: Arc<dyn Dispatcher>,
    /// What puts messages into queues, where the dispatcher's backend can.
    pub publisher: Option<Arc<dyn Publish>>,
    /// What keeps records of calls.
    pub invocations: Option<Arc<dyn InvocationLog>>,
    /// Who leads, where several processes share these backends; `None` where this is the only one.
    pub lease: Option<Arc<dyn Lease>>,
    /// What fires cron triggers; `None` where the engine does it itself.
    pub cron: Option<Arc<dyn CronScheduler>>,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
}

impl Backends {
    /// All backends in the memory of this process, on the system's clock. Functions are closures
    /// there: give them to a [`MemoryScheduler`](memory::MemoryScheduler).
    pub fn in_memory() -> Self {
        Self::in_memory_on(Arc::new(SystemClock))
    }

    /// All backends in the memory of this process, on this clock.
    pub fn in_memory_on(clock: Arc<dyn Clock>) -> Self {
        let dispatcher = Arc::new(memory::MemoryDispatcher::new(clock.clone()));
        Self {
            catalog: Arc::new(memory::MemoryCatalog::new(clock.clone())),
            storage: Arc::new(memory::MemoryStorage::new(clock.clone())),
            builders: vec![Arc::new(memory::MemoryBuilder::new(clock.clone()))],
            scheduler: Arc::new(memory::MemoryScheduler::new(clock.clone())),
            validator: Arc::new(memory::NoopValidator),
            dispatcher: dispatcher.clone(),
            publisher: Some(dispatcher),
            invocations: Some(Arc::new(memory::MemoryInvocationLog::default())),
            lease: None,
            cron: None,
            clock,
        }
    }

    /// Checks that the parts fit: the scheduler runs what each builder makes. A process that reconciles
    /// no functions needs no builder.
    pub(super) fn check(&self, builds: bool) -> Result<()> {
        if builds && self.builders.is_empty() {
            return Err(Error::invalid("no builder: expected at least one"));
        }
        let runs = self.scheduler.capabilities().artifacts;
        for builder in &self.builders {
            let makes = builder.capabilities().artifacts;
            if !runs.contains(&makes) {
                return Err(Error::invalid(format!(
                    "a builder makes artifacts of kind {makes:?}, the scheduler runs {runs:?}"
                )));
            }
        }
        Ok(())
    }
}
