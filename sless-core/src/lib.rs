//! Serverless functions on swappable backends: the traits, the resources and the engine.
//!
//! Start with [`Sless`]: it deploys functions, calls them, and keeps them as they are wanted, on
//! whatever [`Backends`] it is given. There is a trait for each thing that a backend can be:
//!
//! | trait | does | its contract |
//! |---|---|---|
//! | [`Catalog`] | keeps what is wanted: functions, triggers, jobs | `docs/contracts/catalog.md` |
//! | [`Storage`] | keeps bytes by key: sources, build contexts | `docs/contracts/storage.md` |
//! | [`Builder`] | makes an artifact of a build context | `docs/contracts/builder.md` |
//! | [`Scheduler`] | runs artifacts, and jobs | `docs/contracts/scheduler.md` |
//! | [`Validator`] | says whether code is safe to run | `docs/contracts/validator.md` |
//! | [`Dispatcher`] | takes messages from queues | `docs/contracts/dispatcher.md` |
//!
//! and beside them [`InvocationLog`], [`Lease`] and [`Clock`]. To write one, implement the trait and
//! run its suite of the crate `sless-conformance`. The backends in [`memory`] are the smallest that
//! pass; those of one machine are in `sless-local`.
//!
//! Nothing here opens a socket, reads the environment, prints, or spawns a task that nobody owns. Time
//! comes from a [`Clock`], so that a test can hold it. Errors are one type, [`Error`], which says
//! what went wrong, where, and whether trying again can help; the table in [`source`] says what an
//! upload may hold, and [`cron`] when a schedule fires.

pub mod builder;
pub mod catalog;
pub mod change;
pub mod clock;
pub mod cron;
pub mod cron_scheduler;
pub mod decorate;
pub mod dispatcher;
pub mod engine;
pub mod error;
pub mod fault_point;
pub mod held;
pub mod invocations;
pub mod lease;
pub mod logs;
pub mod memory;
#[cfg(feature = "mock")]
pub mod mock;
pub mod resource;
pub mod scheduler;
pub mod source;
pub mod storage;
pub mod validator;

mod body;
mod digest;
mod failure;
mod log_tail;
mod names;
mod quantity;
mod runtime;

pub use body::{Body, ByteStream, bytes_stream, collect_bytes};
pub use builder::{
    Artifact, ArtifactKind, BuildId, BuildRequest, BuildStatus, Builder, BuilderCapabilities,
    ContextRef,
};
pub use catalog::{
    Catalog, CatalogExt, DeleteOptions, Ensured, ListQuery, Page, WatchEvent, WatchOptions,
    WatchStream,
};
pub use change::{Change, ChangeStream, Changes, Left, Receipt, Removed};
pub use clock::{Clock, SystemClock, VirtualClock};
pub use cron_scheduler::{CronScheduler, CronStatus, CronTrigger};
pub use digest::Digest;
pub use dispatcher::{
    DeadLetter, DeadLetterPage, DeadLetterQuery, DeadLetterSelection, Delivery, Dispatcher,
    Disposition, EventSink, Message, Publish, Subscription, SubscriptionStatus,
};
pub use engine::{
    Backends, Call, Deploy, Health, Observer, Options, Orphans, Roles, Sless, Stats, Upload,
    dispose,
};
pub use error::{Error, ErrorKind, Result, Retry};
pub use failure::{Failure, reason};
pub use fault_point::FaultPoint;
pub use held::{Held, HeldStream};
pub use invocations::{
    Invocation, InvocationLog, InvocationPage, InvocationQuery, Origin, Retention,
};
pub use lease::{Grant, Lease};
pub use log_tail::LogTail;
pub use logs::{LogLine, LogOptions, LogSource, LogStream};
pub use names::{NAME_MAX, Name, Namespace, derived};
pub use quantity::Quantity;
pub use resource::{
    DeliveryOptions, EventCounts, Function, FunctionId, FunctionJob, FunctionPhase, FunctionSpec,
    JobId, JobPhase, JobSpec, Kind, Metadata, Object, ObjectKey, QueueDeclare, Resource, Trigger,
    TriggerId, TriggerSpec, TriggerType, Uid, Version,
};
pub use runtime::{Language, Runtime, RuntimeInfo, RuntimeVersions};
pub use scheduler::{
    CallContext, Invoke, JobRun, LogTarget, RunPhase, RunStatus, Scheduler, SchedulerCapabilities,
    Workload, WorkloadPhase, WorkloadStatus,
};
pub use source::Entrypoint;
pub use storage::{
    Fetched, GetOptions, ObjectInfo, Presign, PutMode, PutOptions, Storage, StorageCapabilities,
    StorageKey, Stored,
};
pub use validator::{ValidationAction, ValidationFailure, ValidationPolicy, Validator, Verdict};
