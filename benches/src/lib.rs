//! What the programs that measure sless have in common: load on a port and what came of it, the real
//! server as a process of its own, what the system knows of processes, and tables.
//!
//! It reads `/proc`, and is empty where there is none.

#![cfg(target_os = "linux")]

pub mod cores;
pub mod deploy;
pub mod http;
pub mod load;
pub mod processes;
pub mod report;
pub mod server;
