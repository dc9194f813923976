//! Dead letters.

use base64::{Engine, engine::general_purpose::STANDARD};
use sless_core::DeadLetter;

/// A dead letter as it is answered.
pub(crate) fn dead_letter_view(letter: DeadLetter, queue: &str) -> sless_api::DeadLetter {
    let DeadLetter {
        id,
        message,
        reason,
        attempts,
        died_at,
    } = letter;
    let (body, body_base64) = match String::from_utf8(message.body.into()) {
        Ok(text) => (Some(text), None),
        Err(error) => (None, Some(STANDARD.encode(error.as_bytes()))),
    };
    sless_api::DeadLetter {
        id,
        queue: queue.to_owned(),
        reason,
        attempts,
        dead_at: died_at,
        message_id: message.id,
        content_type: message.content_type,
        headers: message.headers,
        body,
        body_base64,
    }
}
