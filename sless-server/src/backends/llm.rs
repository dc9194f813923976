//! The model that looks at uploads.

use std::{fs, io::Read as _, path::Path, sync::Arc};

use sless_core::{Error, Validator};
use sless_validator::{CanaryRule, LlmConfig, LlmValidator, Prompt};

use crate::{
    StartError,
    settings::{Canary, Settings},
};

/// The validator of the model that the settings name; nobody is asked before the first upload.
pub(super) fn open(settings: &Settings) -> Result<Option<Arc<dyn Validator>>, StartError> {
    let Some(llm) = &settings.services.llm else {
        return Ok(None);
    };
    let mut config = LlmConfig::new(&llm.endpoint)
        .with_timeout(llm.timeout)
        .with_canary(match llm.canary {
            Canary::WhereAddressed => CanaryRule::WhereAddressed,
            Canary::Always => CanaryRule::Always,
        });
    if let Some(model) = &llm.model {
        config = config.with_model(model);
    }
    if let Some(key) = &llm.api_key {
        config = config.with_api_key(key.expose());
    }
    if let Some(path) = &llm.prompt_file {
        config = config.with_prompt(prompt(path)?);
    }
    Ok(Some(Arc::new(LlmValidator::new(config)?)))
}

fn prompt(path: &Path) -> Result<Prompt, Error> {
    let named = |why: String| Error::invalid(format!("LLM_PROMPT_FILE {}: {why}", path.display()));
    let mut text = String::new();
    // One byte more than is allowed is enough to be told so.
    let most = Prompt::BYTES_MAX as u64 + 1;
    fs::File::open(path)
        .and_then(|file| file.take(most).read_to_string(&mut text))
        .map_err(|error| named(format!("it cannot be read as text: {error}")))?;
    Prompt::new(text).map_err(|error| named(error.message().to_owned()))
}
