//! The suite, on each of them.

use std::sync::Arc;

use async_trait::async_trait;
use sless_conformance::{Harness, validator::ValidatorHarness};
use sless_core::{Result, Validator, Verdict, memory::MemoryValidator};
use sless_validator::{ChainValidator, StaticValidator};

use crate::corpus::PAYLOAD;

#[derive(Debug)]
pub(crate) struct Of<T>(pub(crate) T);

impl<T: std::fmt::Debug + Send + Sync> Harness for Of<T> {}

#[async_trait]
impl<T: Validator + Clone> ValidatorHarness for Of<T> {
    async fn validator(&self) -> Result<Arc<dyn Validator>> {
        Ok(Arc::new(self.0.clone()))
    }

    fn unsafe_file(&self) -> Option<String> {
        Some(PAYLOAD.to_owned())
    }
}

mod rules {
    use super::{Of, StaticValidator};
    sless_conformance::validator!(Of(StaticValidator));
}

fn chain() -> ChainValidator {
    ChainValidator::new([
        Arc::new(MemoryValidator::fixed(Verdict::Skipped {
            reason: "it never looks".to_owned(),
        })) as Arc<dyn Validator>,
        Arc::new(StaticValidator),
        Arc::new(MemoryValidator::refusing("a text that no clause holds")),
    ])
}

mod chain_of_rules {
    use super::{Of, chain};
    sless_conformance::validator!(Of(chain()));
}

#[cfg(feature = "llm")]
mod scripted_model {
    use crate::{conformance::Of, peer};
    sless_conformance::validator!(Of(peer::judge().await.shared()));
}

#[cfg(feature = "llm")]
mod scripted_model_without_schemas {
    use crate::{conformance::Of, peer};
    sless_conformance::validator!(Of(peer::plain_judge().await.shared()));
}

#[cfg(feature = "llm")]
mod real_model {
    use crate::{conformance::Of, real};
    sless_conformance::validator!(
        #[ignore = "needs an LLM: testing/llm/up"]
        Of(Arc::new(real::validator()))
    );
    use std::sync::Arc;
}
