//! Runs the handlers of Python and Node functions: HTTP in front, long-lived workers behind.

mod body;
mod config;
mod error;
mod host;
mod log;
mod once;

pub use body::Body;
pub use config::{HostConfig, Language, Limits, RestartPolicy};
pub use error::{CallError, HandlerError, Reason, StartError};
pub use host::{CallContext, Host, HostState};
pub use log::{DiscardLogs, LogLine, LogSink, LogStream};
pub use once::{JobOutcome, run_once};
