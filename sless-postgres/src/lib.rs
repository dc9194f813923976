#![doc = include_str!("../README.md")]

mod config;
mod connection;
mod error;
mod invocations;
mod migrate;
mod tls;

pub use config::PostgresConfig;
pub use invocations::PostgresInvocationLog;
