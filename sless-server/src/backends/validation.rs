//! Who looks at uploads: rules, a model, both in this order, or nobody.

use std::sync::Arc;

use sless_core::Validator;
use sless_validator::{ChainValidator, StaticValidator};

use super::Assembled;
use crate::{StartError, settings::Settings};

/// Puts the validators that the settings ask for in the place of the base's.
pub(super) fn put_in(settings: &Settings, assembled: &mut Assembled) -> Result<(), StartError> {
    let mut validators: Vec<Arc<dyn Validator>> = Vec::new();
    if settings.validation.static_rules {
        validators.push(Arc::new(StaticValidator));
    }
    #[cfg(feature = "llm")]
    validators.extend(super::llm::open(settings)?);
    assembled.backends.validator = match validators.len() {
        0 => return Ok(()),
        1 => validators.remove(0),
        _ => Arc::new(ChainValidator::new(validators)),
    };
    let looks = assembled.backends.validator.identity();
    tracing::info!(%looks, policy = ?settings.validation.policy, "uploads are looked at");
    Ok(())
}
