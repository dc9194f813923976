//! [`NoopValidator`] and [`MemoryValidator`].

use std::{fmt, sync::Arc};

use async_trait::async_trait;

use crate::{
    Result, Runtime, Validator, Verdict,
    source::{ReviewSet, SourceTree},
};

/// The [`Validator`] where none is configured: it looks at nothing, and says so.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoopValidator;

#[async_trait]
impl Validator for NoopValidator {
    fn identity(&self) -> String {
        "none".to_owned()
    }

    async fn validate(&self, _: &SourceTree, _: Runtime) -> Result<Verdict> {
        Ok(Verdict::Skipped {
            reason: "no validator is configured".to_owned(),
        })
    }
}

type Rule = dyn Fn(&SourceTree, Runtime) -> Result<Verdict> + Send + Sync;

/// A [`Validator`] that is a closure of this program.
///
/// ```
/// use sless_core::{Runtime, Validator, Verdict, memory::MemoryValidator, source::SourceTree};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> sless_core::Result<()> {
/// let validator = MemoryValidator::refusing("minerd");
/// let source = SourceTree::from_files([("handler.py", "import os; os.system('minerd')")])?;
/// let verdict = validator.validate(&source, Runtime::Python311).await?;
/// assert!(matches!(verdict, Verdict::Unsafe { .. }));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct MemoryValidator(Arc<Rule>);

impl MemoryValidator {
    /// Says what this closure says.
    pub fn new(
        rule: impl Fn(&SourceTree, Runtime) -> Result<Verdict> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(rule))
    }

    /// Gives every source this verdict.
    pub fn fixed(verdict: Verdict) -> Self {
        Self::new(move |_, _| Ok(verdict.clone()))
    }

    /// Finds a source unsafe if one of its files that are looked at holds this text, and skips what is
    /// too large to look at; see [`SourceTree::reviewable`].
    pub fn refusing(text: impl Into<String>) -> Self {
        let text = text.into();
        Self::new(move |source, _| {
            let set = source.reviewable()?;
            if set.oversized {
                let most = ReviewSet::MOST_BYTES;
                let reason = format!("{} bytes of code, more than {most}", set.bytes);
                return Ok(Verdict::Skipped { reason });
            }
            let found = set
                .files
                .iter()
                .find(|(_, content)| content.contains(&text));
            Ok(found.map_or(Verdict::Safe, |(path, _)| Verdict::Unsafe {
                reason: format!("{path} holds {text:?}"),
            }))
        })
    }
}

impl fmt::Debug for MemoryValidator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryValidator").finish_non_exhaustive()
    }
}

#[async_trait]
impl Validator for MemoryValidator {
    fn identity(&self) -> String {
        "memory".to_owned()
    }

    async fn validate(&self, source: &SourceTree, runtime: Runtime) -> Result<Verdict> {
        (self.0)(source, runtime)
    }
}
