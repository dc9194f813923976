//! The body of every answer that is an error.

use serde::{Deserialize, Serialize};

/// What went wrong and why, for people and for programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorBody {
    /// A sentence that names what was given and what was expected.
    pub error: String,
    /// One lower-case word to branch on, such as `not_found`.
    pub code: String,
}

impl ErrorBody {
    /// An error body of this code and text.
    pub fn new(code: impl Into<String>, error: impl Into<String>) -> Self {
        Self {
            error: error.into(),
            code: code.into(),
        }
    }
}
