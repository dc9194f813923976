//! What a deletion removed, and where.

use serde::{Deserialize, Serialize};

/// The answer to a `DELETE`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Receipt {
    /// The namespace.
    pub namespace: String,
    /// The resource.
    pub name: String,
    /// Whether nothing is left. Where it is false, the server goes on by itself.
    pub complete: bool,
    /// One item for each thing that was there and is gone.
    pub removed: Vec<RemovedItem>,
}

/// One thing that a deletion removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RemovedItem {
    /// What it was, such as `process` or `stored_source`.
    pub kind: String,
    /// Its name where it was kept.
    pub name: String,
    /// The backend that kept it.
    pub backend: String,
}
