//! Uploads and the source that comes back out.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::FunctionPhase;

/// The answer to `POST …/functions/{name}/upload`, with status 202: the code is checked and stored,
/// its build follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UploadResult {
    /// The function.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The digest of the code's files. The same files give the same digest, in any zip.
    pub code_sha256: String,
    /// The build context in storage.
    pub s3_key: String,
    /// How far the function is now.
    pub phase: FunctionPhase,
    /// What the validator said.
    pub verdict: UploadVerdict,
    /// What was let through but deserves a look, as sentences.
    pub warnings: Vec<String>,
}

/// What the validator said about the code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UploadVerdict {
    /// The verdict in one word.
    pub outcome: VerdictOutcome,
    /// Why, where there is a reason to give.
    pub reason: Option<String>,
}

/// The stored verdict on the code of a function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FunctionVerdict {
    /// The verdict in one word.
    pub outcome: VerdictOutcome,
    /// Why, where there is a reason to give.
    pub reason: Option<String>,
    /// Who looked: the kind of validator, and the model where there is one.
    pub by: String,
    /// When.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: Timestamp,
    /// The digest of the code that was looked at: always that of the function.
    pub code_sha256: String,
}

/// A verdict in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum VerdictOutcome {
    /// Nothing was found.
    Safe,
    /// Something was found, and the policy lets it pass with a warning.
    Unsafe,
    /// It was not looked at; the reason says why.
    Skipped,
}

/// One file of a function's source: an item of `GET …/functions/{name}/source`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SourceFile {
    /// Its path in the zip, with `/` between folders.
    pub name: String,
    /// Its text. Bytes that are not UTF-8 are shown as U+FFFD, and `binary` is set then.
    pub content: String,
    /// Whether the file is not text, so that `content` is not the whole truth.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub binary: bool,
}
