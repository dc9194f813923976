//! Who may sign in: the one thing that a console asks of the program that mounts it.

use std::fmt;

use async_trait::async_trait;
use http::StatusCode;
use jiff::Timestamp;
use sless_core::Namespace;

/// Checks tokens and says what they open.
#[async_trait]
pub trait Gate: fmt::Debug + Send + Sync + 'static {
    /// Checks a token, at a sign-in or in the `Authorization` field of a request.
    ///
    /// # Errors
    /// Why it opens nothing.
    async fn check(&self, token: &str) -> Result<Identity, Refusal>;

    /// The namespace that a subject begins at.
    fn home(&self, subject: &str) -> Namespace;

    /// Whether this namespace is open to a subject whose token was good. Asked at every request, so
    /// that what is taken away is gone at once.
    fn opens(&self, subject: &str, namespace: &Namespace) -> bool;
}

/// Whose a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The subject.
    pub subject: String,
    /// When the token ends, and with it the session.
    pub expires_at: Timestamp,
}

/// Why a token opens nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The status of the answer.
    pub status: StatusCode,
    /// A machine word.
    pub code: &'static str,
    /// A sentence, in which no part of the token is.
    pub message: String,
}
