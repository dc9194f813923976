//! [`Validator`]: source in, verdict out.

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{Result, Runtime, source::SourceTree};

/// Looks at uploaded code before it is stored, and says whether it is safe to run.
///
/// A model behind an HTTP endpoint, a set of rules, or both. Backends run
/// `sless_conformance::validator!`; the clauses stand in `docs/contracts/validator.md`.
///
/// # Contract
/// - The code is data: text in it that addresses the validator does not turn the verdict.
/// - `Err` means that it could not be found out. What then happens to the upload is policy, and the
///   engine's ([`ValidationPolicy`]), not the backend's.
/// - It keeps nothing of the code after the call.
#[async_trait]
pub trait Validator: fmt::Debug + Send + Sync + 'static {
    /// Who looks: the backend, and the model where there is one, with everything else that its verdicts
    /// depend on, such as the version of its rules or a digest of its prompt. It is stored with the
    /// verdict, which stands for as long as the same source is shown to the same identity. No secret is
    /// in it.
    fn identity(&self) -> String;

    /// Looks at the source of one upload.
    ///
    /// # Errors
    /// `Unavailable`, `Timeout`, `Overloaded`, or `Corrupt` for an answer that is no verdict.
    async fn validate(&self, source: &SourceTree, runtime: Runtime) -> Result<Verdict>;
}

/// What a [`Validator`] found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "lowercase")]
pub enum Verdict {
    /// Nothing was found.
    Safe,
    /// Something was found; the upload is refused.
    Unsafe {
        /// What, in a sentence for the uploader.
        reason: String,
    },
    /// Nobody looked.
    Skipped {
        /// Why not.
        reason: String,
    },
}

impl Verdict {
    /// What [`as_str`](Self::as_str) says of code that was found unsafe.
    pub(crate) const UNSAFE: &'static str = "unsafe";
    /// What [`as_str`](Self::as_str) says where nobody looked.
    pub(crate) const SKIPPED: &'static str = "skipped";

    /// The verdict as one lower-case word.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Safe => "safe",
            Self::Unsafe { .. } => Self::UNSAFE,
            Self::Skipped { .. } => Self::SKIPPED,
        }
    }

    /// Why, where there is something to say.
    pub fn reason(&self) -> &str {
        match self {
            Self::Safe => "",
            Self::Unsafe { reason } | Self::Skipped { reason } => reason,
        }
    }
}

/// What the engine makes of verdicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ValidationPolicy {
    /// What happens to code that is found unsafe.
    pub action: ValidationAction,
    /// What happens to an upload when nothing could be found out.
    pub on_failure: ValidationFailure,
}

/// What happens to code that is found unsafe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ValidationAction {
    /// It is refused, and nothing is stored.
    #[default]
    Block,
    /// It is accepted, and the answer warns.
    Warn,
    /// Nobody looks.
    Off,
}

/// What happens to an upload when the validator does not answer, or not with a verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ValidationFailure {
    /// It is accepted, and the answer warns.
    #[default]
    Soft,
    /// It is refused for now: the upload can be tried again.
    Hard,
}
