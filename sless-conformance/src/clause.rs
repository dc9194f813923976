//! Clauses as data, and what they find.

use std::fmt;

use futures::future::BoxFuture;
use sless_core::{Error, ErrorKind, Result};

/// What a clause found: nothing to object to, or how it was violated.
pub type Outcome = Result<(), Violation>;

/// One clause of a contract, as a check that can be run on any harness of its suite.
///
/// The macros make one named test of each; a program that wants a report instead, or that wants to
/// see a clause fail, runs them itself.
pub struct Clause<H: ?Sized + 'static> {
    /// Where it stands in the contract, such as `storage-3`.
    pub id: &'static str,
    /// The name of its test.
    pub name: &'static str,
    /// Checks it.
    pub run: for<'a> fn(&'a H) -> BoxFuture<'a, Outcome>,
}

impl<H: ?Sized> fmt::Debug for Clause<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clause")
            .field("id", &self.id)
            .field("name", &self.name)
            .finish()
    }
}

/// How a clause was violated, in a sentence.
#[derive(Clone, PartialEq, Eq)]
pub struct Violation(String);

impl Violation {
    /// A violation that this sentence describes.
    pub fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }

    /// Puts what was being done in front.
    #[must_use]
    pub(crate) fn while_(self, doing: impl fmt::Display) -> Self {
        Self(format!("{doing}: {}", self.0))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Violation {}

impl From<Error> for Violation {
    /// An error where the contract promises success.
    fn from(error: Error) -> Self {
        Self(format!(
            "an error of kind {} that the contract does not allow: {}",
            error.kind(),
            error.chain()
        ))
    }
}

/// Says what was being done when something went wrong.
pub(crate) trait While<T> {
    fn while_(self, doing: impl fmt::Display) -> Result<T, Violation>;
}

impl<T, E: Into<Violation>> While<T> for Result<T, E> {
    fn while_(self, doing: impl fmt::Display) -> Result<T, Violation> {
        self.map_err(|error| error.into().while_(doing))
    }
}

/// Expects an error of this kind, and gives it.
pub(crate) fn refused<T>(
    result: Result<T>,
    kind: ErrorKind,
    what: impl fmt::Display,
) -> Result<Error, Violation> {
    match result {
        Err(error) if error.kind() == kind => Ok(error),
        Err(error) => Err(Violation(format!(
            "{what}: expected an error of kind {kind}, got {}: {}",
            error.kind(),
            error.chain()
        ))),
        Ok(_) => Err(Violation(format!(
            "{what}: expected an error of kind {kind}, got an answer"
        ))),
    }
}

/// Objects, with a sentence, unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($sentence:tt)+) => {
        if !$condition {
            return Err($crate::clause::Violation::new(format!($($sentence)+)));
        }
    };
}

/// Objects unless both are equal, naming what they are.
macro_rules! ensure_eq {
    ($left:expr, $right:expr, $($what:tt)+) => {{
        let (left, right) = (&$left, &$right);
        if left != right {
            return Err($crate::clause::Violation::new(format!(
                "{}: got {}, expected {}",
                format_args!($($what)+),
                $crate::clause::shown(left),
                $crate::clause::shown(right),
            )));
        }
    }};
}

/// A value in a violation, cut where it is long.
pub(crate) fn shown(value: &(impl fmt::Debug + ?Sized)) -> String {
    const CHARACTERS: usize = 600;
    let text = format!("{value:?}");
    match text.char_indices().nth(CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

pub(crate) use {ensure, ensure_eq};
