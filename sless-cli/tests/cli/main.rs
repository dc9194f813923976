//! The command `sless` as people and scripts use it, against the real server with its local backend; and the
//! life of a function in a cluster too.

#![allow(clippy::unwrap_used, missing_docs)]

mod access;
mod deploy;
mod examples;
mod flow;
#[path = "../../../sless-server/tests/ground/mod.rs"]
mod ground;
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
