//! [`ChainValidator`].

use std::sync::Arc;

use async_trait::async_trait;
use sless_core::{Result, Runtime, Validator, Verdict, source::SourceTree};

/// Several validators, asked one after the other, the cheapest first.
///
/// - The first `Unsafe` is the verdict, and nobody else is asked.
/// - An `Err` does not keep the others from being asked: one of them may find the code unsafe. Where none
///   does, the first `Err` is the answer, since not everybody could find out. What then happens to the
///   upload is policy.
/// - Else it is `Safe` if one of them looked, and `Skipped` with the reasons of all if none did. Without
///   members nobody looks.
///
/// The identity names all members in their order, so that a stored verdict does not outlive a change of
/// one of them.
///
/// Dropping the future of [`validate`](Validator::validate) drops that of the member which is being asked.
#[derive(Clone, Debug)]
pub struct ChainValidator {
    members: Vec<Arc<dyn Validator>>,
}

impl ChainValidator {
    /// Asks these, in this order.
    pub fn new(members: impl IntoIterator<Item = Arc<dyn Validator>>) -> Self {
        Self {
            members: members.into_iter().collect(),
        }
    }
}

#[async_trait]
impl Validator for ChainValidator {
    fn identity(&self) -> String {
        let members: Vec<_> = self.members.iter().map(|one| one.identity()).collect();
        if members.is_empty() {
            return "none".to_owned();
        }
        members.join(" + ")
    }

    async fn validate(&self, source: &SourceTree, runtime: Runtime) -> Result<Verdict> {
        let mut failure = None;
        let mut looked = false;
        let mut skipped: Vec<String> = Vec::new();
        for member in &self.members {
            match member.validate(source, runtime).await {
                Ok(Verdict::Safe) => looked = true,
                Ok(Verdict::Skipped { reason }) => {
                    if !skipped.contains(&reason) {
                        skipped.push(reason);
                    }
                }
                Ok(found @ Verdict::Unsafe { .. }) => return Ok(found),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        if let Some(error) = failure {
            return Err(error);
        }
        if looked {
            return Ok(Verdict::Safe);
        }
        if skipped.is_empty() {
            skipped.push("no validator is configured".to_owned());
        }
        Ok(Verdict::Skipped {
            reason: skipped.join("; "),
        })
    }
}
