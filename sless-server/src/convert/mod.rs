//! Between what is on the wire and what the engine keeps: one file per kind.
//!
//! Every conversion from the wire checks what the wire type cannot, and names the field. What the
//! engine checks by itself is left to it.

mod function;
mod invocation;
mod job;
mod log;
mod queue;
mod receipt;
mod trigger;

pub(crate) use function::{function_spec, function_view, patch_function, phase};
pub(crate) use invocation::invocation_view;
pub(crate) use job::{job_spec, job_view, patch_job};
pub(crate) use log::{log_line, log_options, log_text};
pub(crate) use queue::dead_letter_view;
pub(crate) use receipt::receipt_view;
pub(crate) use trigger::{patch_trigger, trigger_spec, trigger_view};

use std::{fmt::Display, str::FromStr};

use crate::error::ApiError;

/// Reads the text of a field; an error names it.
fn field<T: FromStr<Err = sless_core::Error>>(name: &str, text: &str) -> Result<T, ApiError> {
    text.parse()
        .map_err(|error: sless_core::Error| invalid(name, error.message()))
}

fn invalid(name: &str, problem: impl Display) -> ApiError {
    ApiError::bad_request("field_invalid", format!("field {name}: {problem}"))
}

/// `None` for the empty text that stands for nothing.
fn filled(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
