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
    /// One item for each thing that is still there.
    #[serde(default)]
    pub left: Vec<LeftItem>,
}

/// One thing that a deletion could not remove, or not yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeftItem {
    /// What it is.
    pub kind: String,
    /// Its name where it is kept.
    pub name: String,
    /// The backend that keeps it.
    pub backend: String,
    /// Why it is still there, in a sentence.
    pub why: String,
    /// Whether the server goes on to remove it. Where not, an operator has to.
    pub again: bool,
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
