//! What an [`LlmValidator`](super::LlmValidator) has to know.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};
use sless_core::{Error, Result};

/// The prompt that this crate brings; its source is `prompts/review.md`.
pub const BUILT_IN_PROMPT: &str = include_str!("../../prompts/review.md");

/// How to reach a model, and how far to go. `Debug` hides the key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct LlmConfig {
    /// Where the model is: `http://host:port`, or with a path such as `https://host/openai/v1`, behind
    /// which `/chat/completions` goes, or the whole address of `…/chat/completions`. Without a path it
    /// is `/v1/chat/completions`.
    pub endpoint: String,
    /// The model's name, as the server knows it. Servers with one model take any.
    pub model: String,
    /// Sent as a bearer token.
    pub api_key: Option<Secret>,
    /// A proxy for all requests, `http://` or `https://`. None is taken from the environment.
    pub proxy: Option<String>,
    /// What the model is asked.
    pub prompt: Prompt,
    /// Which answers have to carry the canary.
    pub canary: CanaryRule,
    /// How long one review may take in all, with waiting and further attempts.
    pub timeout: Duration,
    /// How long a connection may take to be there.
    pub connect_timeout: Duration,
    /// Attempts in all, the first included.
    pub attempts: u32,
    /// The delay before the second attempt; it doubles from there, with jitter up to as much again.
    pub retry_delay: Duration,
    /// Requests under way at once; more wait within `timeout`.
    pub requests_at_once: usize,
    /// How many tokens the model may answer with. Models that reason first need more.
    pub max_tokens: u32,
    /// The longest answer that is read.
    pub answer_bytes: usize,
    /// The longest reason that is kept, in characters; the rest is cut and marked.
    pub reason_chars: usize,
}

impl Default for LlmConfig {
    fn default() -> Self {
        Self {
            endpoint: String::new(),
            model: "default".to_owned(),
            api_key: None,
            proxy: None,
            prompt: Prompt::default(),
            canary: CanaryRule::default(),
            timeout: Duration::from_secs(15),
            connect_timeout: Duration::from_secs(5),
            attempts: 3,
            retry_delay: Duration::from_millis(250),
            requests_at_once: 4,
            max_tokens: 512,
            answer_bytes: 256 * 1024,
            reason_chars: 500,
        }
    }
}

impl LlmConfig {
    /// The defaults, for this endpoint.
    pub fn new(endpoint: impl Into<String>) -> Self {
        Self {
            endpoint: endpoint.into(),
            ..Self::default()
        }
    }

    /// Names the model.
    #[must_use]
    pub fn with_model(mut self, model: impl Into<String>) -> Self {
        self.model = model.into();
        self
    }

    /// Sets the bearer token.
    #[must_use]
    pub fn with_api_key(mut self, key: impl Into<String>) -> Self {
        self.api_key = Some(Secret::new(key));
        self
    }

    /// Sets what the model is asked.
    #[must_use]
    pub fn with_prompt(mut self, prompt: Prompt) -> Self {
        self.prompt = prompt;
        self
    }

    /// Sets which answers have to carry the canary.
    #[must_use]
    pub const fn with_canary(mut self, canary: CanaryRule) -> Self {
        self.canary = canary;
        self
    }

    /// Sets how long one review may take.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// Which answers "safe" have to carry the canary, the random word that only the `system` message holds.
///
/// One with a wrong canary is never believed, and "unsafe" always is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CanaryRule {
    /// Those about code that itself spells out an answer "safe", so that a model may have repeated it.
    /// Other answers may leave the canary out, since small models and other prompts do.
    #[default]
    WhereAddressed,
    /// All. For models that follow the prompt's form.
    Always,
}

impl CanaryRule {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::WhereAddressed => "where_addressed",
            Self::Always => "always",
        }
    }
}

/// What the model is asked: the first part of the `system` message. How the code is shown and how to
/// answer is added to any prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Prompt(String);

impl Prompt {
    /// The longest prompt, in bytes.
    pub const BYTES_MAX: usize = 64 * 1024;

    /// A prompt with this text.
    ///
    /// # Errors
    /// `Invalid` for one without text, `LimitExceeded` for one above [`Prompt::BYTES_MAX`].
    pub fn new(text: impl Into<String>) -> Result<Self> {
        let text = text.into();
        if text.trim().is_empty() {
            return Err(Error::invalid("the prompt has no text"));
        }
        if text.len() > Self::BYTES_MAX {
            return Err(Error::limit("prompt_bytes", Self::BYTES_MAX, "bytes"));
        }
        Ok(Self(text))
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl Default for Prompt {
    /// [`BUILT_IN_PROMPT`].
    fn default() -> Self {
        Self(BUILT_IN_PROMPT.to_owned())
    }
}

impl TryFrom<String> for Prompt {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        Self::new(text)
    }
}

impl From<Prompt> for String {
    fn from(prompt: Prompt) -> Self {
        prompt.0
    }
}

/// A text that `Debug` does not show.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Keeps this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(super) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}
