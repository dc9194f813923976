#![doc = include_str!("../README.md")]

mod chain;
#[cfg(feature = "llm")]
mod llm;
mod rules;
mod text;

pub use chain::ChainValidator;
#[cfg(feature = "llm")]
pub use llm::{BUILT_IN_PROMPT, CanaryRule, LlmConfig, LlmValidator, Prompt, Secret};
pub use rules::StaticValidator;
