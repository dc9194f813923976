//! The command `sless` as people and scripts use it, against the real server with its local backend.

#![allow(clippy::unwrap_used, missing_docs)]

mod access;
mod deploy;
mod examples;
mod flow;
mod init;
mod interrupt;
mod invoke;
mod jobs;
mod large;
mod reference;
mod server;
mod source;
mod startup;
mod support;
mod terminal;
mod triggers;
mod watch;
