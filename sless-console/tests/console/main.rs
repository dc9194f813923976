//! The console as a function from requests to answers, on backends in memory.

#![allow(clippy::unwrap_used)]

mod actions;
mod escaping;
mod listing;
mod live;
mod session;
mod support;
