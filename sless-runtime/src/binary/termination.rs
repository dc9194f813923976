//! Where whoever runs this process looks for how it ended: Kubernetes reads a container's termination
//! message from a file, and shows it in the pod's status.

use serde_json::{Value, json};
use sless_runtime::{HostState, StartError};

use super::settings::Settings;

/// The most bytes of a termination message that Kubernetes keeps (`terminationMessagePath`).
const MESSAGE_BYTES_MAX: usize = 4096;

/// Writes how this process ends into `--termination-file`, where one is set: JSON that fits.
pub(crate) fn write(settings: &Settings, outcome: &Value) -> std::io::Result<()> {
    match settings.text("TERMINATION_FILE") {
        Some(path) => std::fs::write(path, fitting(outcome.clone())),
        None => Ok(()),
    }
}

/// A handler that was not imported.
pub(crate) fn not_started(error: &StartError) -> Value {
    json!({
        "outcome": "not_started",
        "reason": error.reason,
        "message": error.message,
        "log_tail": error.log_tail,
    })
}

/// A host whose worker ended again and again.
pub(crate) fn failing(state: &HostState) -> Option<Value> {
    match state {
        HostState::Failing {
            reason,
            message,
            log_tail,
            ..
        } => Some(json!({
            "outcome": "failing",
            "reason": reason.word(),
            "message": message,
            "log_tail": log_tail,
        })),
        _ => None,
    }
}

/// Shortens what may be shortened: the log loses its beginning, the message its end, and a result that
/// is too long is left to standard output.
fn fitting(mut outcome: Value) -> String {
    let mut text = outcome.to_string();
    if text.len() > MESSAGE_BYTES_MAX && outcome.get("result").is_some() {
        return json!({"outcome": outcome["outcome"], "elsewhere": true}).to_string();
    }
    while text.len() > MESSAGE_BYTES_MAX {
        let shortened = shorten(&mut outcome["log_tail"], true)
            || shorten(&mut outcome["message"], false)
            || shorten(&mut outcome["error"]["message"], false);
        if !shortened {
            return json!({"outcome": outcome["outcome"], "elsewhere": true}).to_string();
        }
        text = outcome.to_string();
    }
    text
}

/// Takes a quarter of a text away; `false` where little is left.
fn shorten(text: &mut Value, from_its_beginning: bool) -> bool {
    let Some(whole) = text.as_str().filter(|text| text.len() > 64) else {
        return false;
    };
    let mut at = if from_its_beginning {
        whole.len() / 4
    } else {
        whole.len() * 3 / 4
    };
    while !whole.is_char_boundary(at) {
        at += 1;
    }
    let (first, last) = whole.split_at(at);
    *text = Value::from(if from_its_beginning { last } else { first });
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_does_not_fit_is_shortened_or_left_out() {
        let long = "é\"".repeat(5_000);
        let started =
            json!({"outcome": "not_started", "reason": "crash", "message": long, "log_tail": long});
        let text = fitting(started);
        assert!(text.len() <= MESSAGE_BYTES_MAX);
        let read: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(read["reason"], "crash");
        assert!(long.ends_with(read["log_tail"].as_str().expect("text")));

        let error = json!({"type": "E", "message": long});
        let failed = json!({"outcome": "failed", "error": error, "log_tail": ""});
        let read: Value = serde_json::from_str(&fitting(failed)).expect("JSON");
        assert_eq!(read["error"]["type"], "E");

        let result = fitting(json!({"outcome": "succeeded", "result": long}));
        let read: Value = serde_json::from_str(&result).expect("JSON");
        assert_eq!(read, json!({"outcome": "succeeded", "elsewhere": true}));
        let short = json!({"outcome": "succeeded", "result": 1});
        assert_eq!(fitting(short.clone()), short.to_string());
    }
}
