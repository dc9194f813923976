#![doc = include_str!("../README.md")]

mod api;
mod data;
pub mod docs;
mod function;
mod job;
mod name;
mod provider;
mod session;
mod token;
mod trigger;

pub use provider::Sless;
