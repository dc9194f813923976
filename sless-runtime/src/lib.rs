#![doc = include_str!("../README.md")]

mod answer;
mod assets;
mod body;
mod call;
mod command;
mod config;
mod confine;
mod error;
mod frame;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod host;
mod launch;
mod log;
mod once;
mod output;
mod pace;
mod pool;
mod process;
mod pump;
mod sandbox;
mod slot;
mod supervise;
mod system;
mod worker;
mod worker_log;
mod zygote;

pub use body::Body;
pub use config::{HostConfig, Language, Limits, RestartPolicy};
pub use confine::{ConfinedCommand, Confining, end_confined};
pub use error::{CallError, HandlerError, Reason, StartError};
pub use host::{CallContext, Host, HostState, LogTail};
pub use log::{DiscardLogs, LogLine, LogSink, LogStream};
pub use once::{JobOutcome, run_once};
pub use sandbox::{Confinement, Enforcement, Protection, Sandbox, SandboxReport};
pub use system::lacking;
#[cfg(target_os = "linux")]
pub use system::{Turn, give_turn};
pub use zygote::Zygote;
