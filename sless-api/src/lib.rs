//! Wire types and typed client of the REST API of sless.
//!
//! This crate is what a client and the server agree on, and nothing else: it knows no backend.
//! Bodies are flat JSON objects with `snake_case` names. A request with a field that is not listed
//! here is refused by name; an answer may carry fields that an older client does not know, and such
//! a client ignores them.
//!
//! - A type named `Create…` or `Patch…` is a request; the type without a prefix is the answer.
//! - In a `Patch…`, leaving a field out and giving `null` differ: see [`Field`].
//! - Times are RFC 3339 in UTC; durations are text such as `"500ms"` or `"1m 30s"`: see
//!   [`WireDuration`].
//! - Lists come in pages: see [`Page`].
//! - Every error answer is an [`ErrorBody`].
//!
//! Features: `openapi` adds schemas for an OpenAPI document, `client` adds the typed client.
//!
//! ```
//! use sless_api::{CreateFunction, from_json};
//!
//! let body = br#"{"name": "hello", "runtime": "python3.11"}"#;
//! let function: CreateFunction = from_json(body)?;
//! assert_eq!(function.name, "hello");
//!
//! let error = from_json::<CreateFunction>(br#"{"name": "hello", "runtime": "x", "cpus": 2}"#)
//!     .expect_err("cpus is not a field");
//! assert_eq!(error.field(), "cpus");
//! # Ok::<(), sless_api::DecodeError>(())
//! ```

mod decode;
mod duration;
mod env;
mod error;
mod field;
mod function;
mod invocation;
mod job;
mod log;
mod namespace;
mod page;
mod queue;
mod receipt;
mod trigger;
mod upload;

#[cfg(feature = "client")]
pub mod client;

pub use decode::{DecodeError, DecodeErrorKind, from_json};
pub use duration::{InvalidDuration, WireDuration};
pub use env::Env;
pub use error::ErrorBody;
pub use field::Field;
pub use function::{CreateFunction, Function, FunctionPhase, PatchFunction};
pub use invocation::{Invocation, InvocationOrigin, InvocationsQuery};
pub use job::{CreateJob, Job, JobPhase, PatchJob};
pub use log::{LogLine, LogQuery, LogSource};
pub use namespace::{Ensured, EnsuredStatus};
pub use page::{ListQuery, Page};
pub use queue::{DeadLetter, Published, Purged, Redrive, Redriven};
pub use receipt::{LeftItem, Receipt, RemovedItem};
pub use trigger::{
    CreateTrigger, CronPolicies, Delivery, MissedRuns, Overlap, PatchTrigger, QueueDeclare,
    Trigger, TriggerType,
};
pub use upload::{FunctionVerdict, SourceFile, UploadResult, UploadVerdict, VerdictOutcome};
