//! What the user is told.

use crate::{Path, proto};

/// Something to tell: an error or a warning.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostic {
    /// Whether the operation failed.
    pub is_error: bool,
    /// What went wrong, in a line.
    pub summary: String,
    /// Why, and what to do.
    pub detail: String,
    /// Where; [`Path::ROOT`] for the whole.
    pub path: Path,
}

/// All that there is to tell about one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics(Vec<Diagnostic>);

impl Diagnostics {
    /// The operation failed.
    pub fn error(&mut self, summary: impl Into<String>, detail: impl Into<String>) {
        self.error_at(Path::ROOT, summary, detail);
    }

    /// The operation failed because of this attribute.
    pub fn error_at(
        &mut self,
        path: impl Into<Path>,
        summary: impl Into<String>,
        detail: impl Into<String>,
    ) {
        self.push(true, path.into(), summary.into(), detail.into());
    }

    /// The operation goes on.
    pub fn warning(&mut self, summary: impl Into<String>, detail: impl Into<String>) {
        self.warning_at(Path::ROOT, summary, detail);
    }

    /// The operation goes on, though this attribute deserves a look.
    pub fn warning_at(
        &mut self,
        path: impl Into<Path>,
        summary: impl Into<String>,
        detail: impl Into<String>,
    ) {
        self.push(false, path.into(), summary.into(), detail.into());
    }

    fn push(&mut self, is_error: bool, path: Path, summary: String, detail: String) {
        self.0.push(Diagnostic {
            is_error,
            summary,
            detail,
            path,
        });
    }

    /// Whether there is an error among them.
    pub fn has_error(&self) -> bool {
        self.0.iter().any(|diagnostic| diagnostic.is_error)
    }

    /// What there is, in its order.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.0.iter()
    }

    /// Takes these in, behind the others.
    pub fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    pub(crate) fn into_wire(self) -> Vec<proto::Diagnostic> {
        let wire = |diagnostic: Diagnostic| proto::Diagnostic {
            severity: if diagnostic.is_error {
                proto::Severity::Error.into()
            } else {
                proto::Severity::Warning.into()
            },
            summary: diagnostic.summary,
            detail: diagnostic.detail,
            attribute: Some(diagnostic.path.to_wire()).filter(|path| !path.steps.is_empty()),
        };
        self.0.into_iter().map(wire).collect()
    }
}
