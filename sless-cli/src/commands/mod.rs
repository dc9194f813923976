//! One file for each command: its arguments, and what it does.

pub(crate) mod completion;
pub(crate) mod context;
pub(crate) mod delete;
pub(crate) mod deploy;
pub(crate) mod doctor;
pub(crate) mod get;
pub(crate) mod init;
pub(crate) mod invoke;
pub(crate) mod job;
pub(crate) mod list;
pub(crate) mod login;
pub(crate) mod logs;
mod shown;
pub(crate) mod source;
pub(crate) mod trigger;
pub(crate) mod watch;
