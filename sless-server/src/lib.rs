//! The reference server of sless: settings, backends, the engine, and HTTP in front.
//!
//! [`routes`] is a function from requests to answers; [`serve`] puts it, or an axum router, behind a
//! listener with limits and a graceful end. Only this crate knows HTTP's status codes of the REST API and
//! the environment.

pub mod auth;
pub mod cli;
pub mod dev;
pub mod error;
pub mod extract;
#[cfg(feature = "fault-points")]
pub mod faults;
pub mod metrics;
pub mod settings;
pub mod telemetry;

mod app;
mod backends;
mod convert;
mod routes;
mod serve;
mod state;

pub use app::{App, StartError};
pub use routes::{Routes, document, routes};
pub use serve::{Drained, ServeConfig, serve};
pub use state::AppState;
