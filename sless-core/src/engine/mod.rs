//! The engine: it brings what is to what is wanted, and calls functions.
//!
//! [`Sless`] is level-triggered. The catalog holds what is wanted and the backends hold what is; for
//! each kind of object a reconciler looks, compares, does the smallest step that can be repeated,
//! writes the status, and says when to look again. What wakes it are hints: of the catalog's watch,
//! of the backends' change streams, and of a slow resync that covers for lost ones. One object is
//! never reconciled twice at once, failures back off for each object, and a restart at any point
//! loses nothing.

mod annotation;
mod backends;
mod controller;
mod cron;
mod deploy;
mod entry;
mod events;
mod function;
mod index;
mod invoke;
mod job;
mod leadership;
mod options;
mod orphans;
pub(crate) mod points;
mod queue;
mod receipts;
mod record;
mod routes;
mod sless;
mod subscription;
mod sweep;
mod trigger;
mod upload;

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Semaphore, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::{
    backends::Backends,
    deploy::Deploy,
    events::dispose,
    invoke::Call,
    options::{Observer, Options, Roles},
    orphans::Orphans,
    sless::{Health, Sless, Stats},
    upload::Upload,
};
use self::{
    controller::backoff,
    cron::Timetable,
    index::Index,
    leadership::{Leadership, Post},
    queue::WorkQueue,
    receipts::{Receipts, Untidy},
    record::Recorder,
    routes::Routes,
    subscription::Subscriptions,
};
use crate::{Error, Object, Result, TriggerType, Uid};

/// What all parts of a running engine share.
#[derive(Debug)]
struct Engine {
    backends: Backends,
    options: Options,
    queue: WorkQueue,
    index: Index,
    routes: Routes,
    timetable: Timetable,
    receipts: Receipts,
    untidy: Untidy,
    leadership: Leadership,
    subscriptions: Subscriptions,
    recorder: Recorder,
    uploads: Semaphore,
    /// Whether the catalog has been read and is being followed.
    follows: watch::Sender<bool>,
    /// Where names come from that else are chance.
    simulation: Option<Mutex<fastrand::Rng>>,
    /// Ends every loop.
    stop: CancellationToken,
    /// Loops, reconciles, and calls by cron and by messages.
    tasks: TaskTracker,
    /// Calls whose head has not been answered yet.
    calls: TaskTracker,
    /// Ends the storing of records, after everything else.
    recorded: CancellationToken,
    recording: TaskTracker,
}

impl Engine {
    fn new(backends: Backends, options: Options) -> (Arc<Self>, record::RecordQueue) {
        let stored = backends.invocations.is_some();
        let (recorder, records) = Recorder::new(&options, backends.clock.clone(), stored);
        let engine = Self {
            queue: WorkQueue::default(),
            index: Index::default(),
            routes: Routes::new(options.routes),
            timetable: Timetable::default(),
            receipts: Receipts::default(),
            untidy: Untidy::default(),
            leadership: Leadership::default(),
            subscriptions: Subscriptions::default(),
            recorder,
            uploads: Semaphore::new(options.uploads_at_once.max(1)),
            follows: watch::Sender::new(false),
            simulation: options
                .simulation
                .map(|seed| Mutex::new(fastrand::Rng::with_seed(seed))),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            calls: TaskTracker::new(),
            recorded: CancellationToken::new(),
            recording: TaskTracker::new(),
            backends,
            options,
        };
        (Arc::new(engine), records)
    }
}

impl Engine {
    /// Whether this process removes what was made for an object.
    fn cleans_up(&self, object: &Object) -> bool {
        match object {
            Object::Trigger(trigger) if trigger.spec.kind == TriggerType::Event => {
                self.leads(Post::Dispatcher)
            }
            _ => self.leads(Post::Operator),
        }
    }

    /// A name that nobody has yet.
    fn new_name(&self) -> Uid {
        match &self.simulation {
            None => Uid::random(),
            Some(random) => {
                let bytes = random
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .u128(..);
                let uuid = uuid::Builder::from_random_bytes(bytes.to_be_bytes()).into_uuid();
                Uid::new(uuid.to_string())
            }
        }
    }

    /// Where work that blocks is done.
    fn threads(&self) -> Threads {
        if self.simulation.is_some() {
            Threads::None
        } else {
            Threads::Own
        }
    }
}

/// Where work that blocks is done.
#[derive(Clone, Copy, Debug)]
enum Threads {
    /// On threads where it may.
    Own,
    /// In the task that waits for it.
    None,
}

/// Runs work that blocks.
async fn blocking<T: Send + 'static>(
    threads: Threads,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    if matches!(threads, Threads::None) {
        return work();
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(panicked) => {
            Err(Error::internal("work on another thread broke off").with_source(panicked))
        }
    }
}
