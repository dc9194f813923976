//! What a deletion removed, and where.

use serde::{Deserialize, Serialize};

/// The answer to a `DELETE`: everything that the resource had made, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Receipt {
    /// `function`, `trigger` or `job`.
    pub kind: String,
    /// The namespace.
    pub namespace: String,
    /// The resource.
    pub name: String,
    /// Whether nothing is left. Where it is false, the server goes on by itself.
    pub complete: bool,
    /// What there was, in the order of removal.
    pub items: Vec<ReceiptItem>,
}

/// One thing that a deletion came upon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReceiptItem {
    /// Where it was: `storage`, `scheduler`, `builder`, `dispatcher`, `catalog`.
    pub place: String,
    /// What it was, such as a storage key.
    pub what: String,
    /// What became of it.
    pub outcome: ReceiptOutcome,
    /// Why it is left, where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// What became of one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReceiptOutcome {
    /// It is gone now.
    Removed,
    /// It was gone already.
    Absent,
    /// It is going.
    Pending,
    /// It could not be removed yet; the server tries again.
    Failed,
}
