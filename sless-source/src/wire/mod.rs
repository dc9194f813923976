//! From the wire types of the REST API to what the engine keeps: one file per kind.
//!
//! Every conversion checks what the wire type cannot, and names the field. What the engine checks by
//! itself is left to it.

mod function;
mod trigger;

use std::{fmt::Display, str::FromStr};

pub use function::{function_spec, patch_function};
pub use trigger::{patch_trigger, trigger_spec};

/// A field whose value cannot be used. Its text names the field and what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FieldError {
    message: String,
}

impl FieldError {
    /// An error about this field.
    pub fn new(name: &str, problem: impl Display) -> Self {
        Self {
            message: format!("field {name}: {problem}"),
        }
    }

    /// The whole text.
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// An error about values that are wrong together, in the words of the engine.
impl From<sless_core::Error> for FieldError {
    fn from(error: sless_core::Error) -> Self {
        Self {
            message: error.message().to_owned(),
        }
    }
}

/// Reads the text of a field; an error names it.
///
/// # Errors
/// [`FieldError`] with the words of the type that was to be read.
pub fn field<T: FromStr<Err = sless_core::Error>>(name: &str, text: &str) -> Result<T, FieldError> {
    text.parse()
        .map_err(|error: sless_core::Error| FieldError::new(name, error.message()))
}
