//! Between what is on the wire and what the engine keeps: one file per kind.
//!
//! What comes from the wire and is also read from a manifest is converted by [`sless_source::wire`].

mod function;
mod invocation;
mod job;
mod log;
mod queue;
mod receipt;
mod trigger;

pub(crate) use function::{function_view, outcome, phase};
pub(crate) use invocation::{invocation_view, origin};
pub(crate) use job::{job_spec, job_view, patch_job};
pub(crate) use log::{log_line, log_options, log_text};
pub(crate) use queue::dead_letter_view;
pub(crate) use receipt::receipt_view;
pub(crate) use sless_source::wire::{function_spec, trigger_spec};
pub(crate) use trigger::trigger_view;

use sless_api::{PatchFunction, PatchTrigger};
use sless_core::{FunctionSpec, TriggerSpec};
use sless_source::wire;

use crate::error::ApiError;

/// Applies a patch to what is wanted of a function.
pub(crate) fn patch_function(
    patch: &PatchFunction,
    spec: &mut FunctionSpec,
) -> Result<(), ApiError> {
    Ok(wire::patch_function(patch, spec)?)
}

/// Applies a patch to what is wanted of a trigger.
pub(crate) fn patch_trigger(patch: &PatchTrigger, spec: &mut TriggerSpec) -> Result<(), ApiError> {
    Ok(wire::patch_trigger(patch, spec)?)
}

/// `None` for the empty text that stands for nothing.
fn filled(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
