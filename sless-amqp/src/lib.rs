#![doc = include_str!("../README.md")]

mod config;
mod connection;
mod dispatcher;
mod error;
mod message;
mod names;
mod publisher;
mod rescue;

pub use config::AmqpConfig;
pub use dispatcher::AmqpDispatcher;
