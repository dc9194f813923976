//! [`LlmValidator`]: asks a model.

mod answer;
mod client;
mod config;
mod error;
mod frame;
mod request;

use async_trait::async_trait;
use sless_core::{Digest, Result, Runtime, Validator, Verdict, source::SourceTree};

pub use config::{BUILT_IN_PROMPT, CanaryRule, LlmConfig, Prompt, Secret};

use crate::rules::skipped;
use client::ModelClient;
use error::LlmError;
use frame::Frame;

/// Asks a model behind any OpenAI-compatible `/v1/chat/completions` whether code is safe.
///
/// What is done so that the code cannot answer in the model's place, and what cannot be promised, stands
/// in the [crate's documentation](crate).
///
/// # What it asks for
/// An answer in JSON by a schema with bounded strings. Where the server refuses that with status 400 or
/// 422, any JSON; where it refuses this too, text. What the server took is remembered for later calls.
/// `max_tokens` and `temperature` give way in the same manner, to `max_completion_tokens` and to nothing.
///
/// # What it waits for
/// Status 429, 408 and 5xx, refused connections and those that break off are tried again, with growing
/// delay or as long as `Retry-After` says, while [`LlmConfig::attempts`] and [`LlmConfig::timeout`] last.
/// That time holds for the whole call, waiting for [`LlmConfig::requests_at_once`] included.
///
/// # Errors
/// All of them mean that it could not be found out:
///
/// | kind | reason | when |
/// |---|---|---|
/// | `Timeout` | `llm_timeout` | no answer within [`LlmConfig::timeout`] |
/// | `Overloaded` | `llm_rate_limited` | 429; it carries what `Retry-After` says |
/// | `Overloaded` | `limit_requests_at_once` | no turn within [`LlmConfig::timeout`] |
/// | `Unavailable` | `llm_unreachable`, `llm_interrupted`, `llm_failed` | no connection, a broken one, 408 or 5xx |
/// | `Unavailable` | `llm_unauthorized`, `llm_not_found`, `llm_redirected`, `llm_request_refused` | 401 or 403, 404, 3xx, any other status |
/// | `Unavailable` | `llm_context_exceeded` | the code is longer than the model reads |
/// | `Corrupt` | `limit_answer_bytes` | an answer longer than [`LlmConfig::answer_bytes`] |
/// | `Corrupt` | `llm_answer_invalid` | no answer in the form of the API |
/// | `Corrupt` | `llm_answer_empty`, `llm_answer_cut`, `llm_answer_withheld` | nothing said, cut off, refused to say |
/// | `Corrupt` | `llm_answer_prose` | no JSON object, or more than one, or one of another form |
/// | `Corrupt` | `llm_answer_untrusted` | "safe", but the canary says otherwise; see [`CanaryRule`] |
///
/// Dropping the future of [`validate`](Validator::validate) ends the request.
#[derive(Debug)]
pub struct LlmValidator {
    client: ModelClient,
    prompt: Prompt,
    canary: CanaryRule,
    reason_chars: usize,
    identity: String,
}

impl LlmValidator {
    /// A validator for the endpoint that the configuration names. Connects with the first call.
    ///
    /// # Errors
    /// `Invalid` names the field of the configuration that cannot be used.
    pub fn new(config: LlmConfig) -> Result<Self> {
        let client = ModelClient::new(&config)?;
        let identity = identity(&config, &client.host());
        Ok(Self {
            client,
            prompt: config.prompt,
            canary: config.canary,
            reason_chars: config.reason_chars,
            identity,
        })
    }

    async fn ask(&self, files: &[(String, String)]) -> Result<Verdict, LlmError> {
        let frame = Frame::random(files)?;
        // A schema that demands the canary makes a model that leaves it out say something else instead.
        let always = self.canary == CanaryRule::Always;
        let must_echo = always || frame::spells_an_answer(files);
        let system = frame.system(self.prompt.text());
        let user = frame.user(files);
        let content = self.client.complete(&system, &user, always).await?;
        let reply = answer::parse_reply(&content)?;
        answer::judge(reply, &frame, must_echo, self.reason_chars)
    }
}

#[async_trait]
impl Validator for LlmValidator {
    fn identity(&self) -> String {
        self.identity.clone()
    }

    async fn validate(&self, source: &SourceTree, _: Runtime) -> Result<Verdict> {
        let set = source.reviewable()?;
        if let Some(verdict) = skipped(&set) {
            return Ok(verdict);
        }
        self.ask(&set.files)
            .await
            .map_err(|error| sless_core::Error::from(error).on(source.digest()))
    }
}

/// Names the model, where it is, and a digest of everything else that a verdict depends on: a stored
/// verdict does not stand for another model, prompt or rule.
fn identity(config: &LlmConfig, host: &str) -> String {
    let rule = config.canary.as_str();
    let parts = [config.prompt.text(), frame::TEXT, rule];
    let digest = Digest::of(parts.join("\0").as_bytes()).hex();
    format!("llm/{}@{host}#{}", config.model, &digest[..12])
}
