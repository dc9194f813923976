//! Traits, resources and engine of sless: serverless functions on swappable backends.
pub mod builder;
pub mod catalog;
pub mod change;
pub mod clock;
pub mod cron;
pub mod decorate;
pub mod dispatcher;
pub mod engine;
pub mod error;
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
pub use digest::Digest;
pub use dispatcher::{
    DeadLetter, DeadLetterPage, DeadLetterQuery, DeadLetterSelection, Delivery, Dispatcher,
    Disposition, EventSink, Message, Publish, Subscription, SubscriptionStatus,
};
pub use engine::{Backends, Call, Deploy, Health, Observer, Options, Roles, Sless, Stats, Upload, dispose};
pub use error::{Error, ErrorKind, Result, Retry};
pub use failure::{Failure, reason};
pub use invocations::{
    Invocation, InvocationLog, InvocationPage, InvocationQuery, Origin, Retention,
};
pub use lease::{Grant, Lease};
pub use logs::{LogLine, LogOptions, LogSource, LogStream};
pub use names::{NAME_MAX, Name, Namespace, derived};
pub use quantity::Quantity;
pub use resource::{
    DeliveryOptions, Function, FunctionId, FunctionJob, FunctionPhase, FunctionSpec, JobId,
    JobPhase, JobSpec, Kind, Metadata, Object, ObjectKey, Resource, Trigger, TriggerId,
    TriggerSpec, TriggerType, Uid, Version,
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
pub use validator::{
    ValidationAction, ValidationFailure, ValidationPolicy, Validator, Verdict,
};
