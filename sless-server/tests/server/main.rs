//! The server from outside: through its port, on backends in memory.

#![allow(clippy::unwrap_used)]

mod command;
mod e2e;
mod hostile;
mod limits;
mod measure;
mod operations;
mod proxy;
mod proxy_messages;
mod queues;
mod resources;
mod support;
mod upload;
