//! Namespaces.

use serde::{Deserialize, Serialize};

/// Whether `ensure` had something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum EnsuredStatus {
    /// The namespace was made now; the answer's status is 201.
    Created,
    /// The namespace was there; the answer's status is 200.
    Exists,
}

/// The answer to `POST /v1/namespaces/{ns}/ensure`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Ensured {
    /// The namespace.
    pub namespace: String,
    /// Whether it was made now.
    pub status: EnsuredStatus,
}
