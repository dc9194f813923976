//! Traits, resources and engine of sless: serverless functions on swappable backends.

pub mod error;

pub use error::{Error, ErrorKind, Result, Retry};
