//! Names that no other clause uses.

use sless_core::{Name, Namespace, Result, Uid};

/// Eight random hexadecimal digits.
pub(crate) fn tag() -> String {
    Uid::random().as_str().chars().take(8).collect()
}

/// A namespace that nobody else uses.
pub(crate) fn namespace() -> Result<Namespace> {
    Namespace::new(format!("conformance-{}", tag()))
}

pub(crate) fn name(text: impl AsRef<str>) -> Result<Name> {
    Name::new(text)
}
