//! From what a server answers to a verdict.

use serde::Deserialize;
use sless_core::Verdict;

use super::{Frame, LlmError};
use crate::text::is_hidden;

#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Option<Content>,
    #[serde(default)]
    refusal: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
struct Part {
    #[serde(default)]
    text: String,
}

/// What the model said, out of the body of a response with status 200.
pub(super) fn parse_completion(body: &[u8]) -> Result<String, LlmError> {
    if body.trim_ascii_start().starts_with(b"data:") {
        return Err(LlmError::Shape("with a stream that nobody asked for"));
    }
    let completion: Completion = serde_json::from_slice(body).map_err(LlmError::Form)?;
    let choice = completion.choices.into_iter().next();
    let choice = choice.ok_or(LlmError::Shape("without a choice"))?;
    match choice.finish_reason.as_deref() {
        None | Some("stop" | "eos" | "end_turn") => {}
        Some("length" | "max_tokens") => return Err(LlmError::Cut),
        Some("content_filter") => return Err(LlmError::Withheld),
        Some(_) => return Err(LlmError::Shape("with an unknown finish_reason")),
    }
    if choice.message.refusal.is_some_and(|text| !text.is_empty()) {
        return Err(LlmError::Withheld);
    }
    let content = match choice.message.content {
        Some(Content::Text(text)) => text,
        Some(Content::Parts(parts)) => parts.into_iter().map(|part| part.text).collect(),
        None => String::new(),
    };
    if content.trim().is_empty() {
        return Err(LlmError::Empty);
    }
    Ok(content)
}

/// A verdict as the model writes it. A field that is there twice is an error; further ones are ignored.
#[derive(Debug, PartialEq, Deserialize)]
pub(super) struct Reply {
    pub(super) safe: bool,
    #[serde(default)]
    pub(super) reason: Option<String>,
    #[serde(default)]
    pub(super) canary: Option<String>,
}

/// Reads a bare JSON object, or one in a fence with nothing around it. What a model thought aloud before
/// that, in `<think>`, is left out.
pub(super) fn parse_reply(content: &str) -> Result<Reply, LlmError> {
    let mut text = content.trim();
    if let Some(thought) = text.strip_prefix("<think>") {
        text = thought
            .split_once("</think>")
            .ok_or(LlmError::Cut)?
            .1
            .trim();
    }
    if let Some(fenced) = text.strip_prefix("```") {
        let fenced = fenced.strip_suffix("```").ok_or(LlmError::Prose)?;
        let (language, inner) = fenced.split_once('\n').ok_or(LlmError::Prose)?;
        if !matches!(language.trim(), "" | "json" | "JSON") {
            return Err(LlmError::Prose);
        }
        text = inner.trim();
    }
    if text.is_empty() {
        return Err(LlmError::Empty);
    }
    // A sequence would be taken for the fields in their order.
    if !text.starts_with('{') {
        return Err(LlmError::Prose);
    }
    serde_json::from_str(text).map_err(|_| LlmError::Prose)
}

/// The verdict that a reply stands for. "Unsafe" is believed in any case.
pub(super) fn judge(
    reply: Reply,
    frame: &Frame,
    must_echo: bool,
    reason_chars: usize,
) -> Result<Verdict, LlmError> {
    let reason = reply.reason.unwrap_or_default();
    if !reply.safe {
        let reason = reason
            .replace(&frame.canary, "…")
            .replace(&frame.boundary, "…");
        return Ok(Verdict::Unsafe {
            reason: clean(&reason, reason_chars),
        });
    }
    let canary = reply.canary.as_deref().map_or("", str::trim);
    if canary.is_empty() && must_echo {
        return Err(LlmError::Untrusted("it lacks the canary"));
    }
    if !canary.is_empty() && canary != frame.canary {
        return Err(LlmError::Untrusted("its canary is wrong"));
    }
    if frame.is_told_by(&reason) {
        return Err(LlmError::Untrusted("it tells what only it was told"));
    }
    Ok(Verdict::Safe)
}

/// A reason on one line, without what is not seen, at most so many characters.
fn clean(reason: &str, most: usize) -> String {
    let visible: String = reason
        .chars()
        .map(|c| {
            if is_hidden(c) || c.is_whitespace() {
                ' '
            } else {
                c
            }
        })
        .collect();
    let words: Vec<_> = visible.split_whitespace().collect();
    let line = words.join(" ");
    if line.is_empty() {
        return "the model gave no reason".to_owned();
    }
    if line.chars().count() <= most {
        return line;
    }
    line.chars()
        .take(most.saturating_sub(1))
        .chain(['…'])
        .collect()
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
