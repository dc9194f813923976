//! The attributes of a job.

use sless_core::JobSpec;
use tfplugin::{Action, Attribute, Schema, Value};

use super::TIMEOUT;
use crate::name;

/// How long a run may take, in seconds, where `wait_timeout_sec` does not say otherwise.
pub(super) const WAIT_TIMEOUT_SEC: i64 = 600;

const DOCS: &str = "\
A job: one run of a function with a given event.

With `run_id = 0` nothing runs and nothing is waited for. Another `run_id` replaces the job, and one above \
0 runs the function once: the apply waits until it has ended, and fails where the run fails. Another \
`event_json` alone runs nothing; it counts from the next `run_id` on.

Removing a job removes its record and its result, and ends its run where one goes on. What the run did \
elsewhere stays.";

/// The attributes of a job.
pub(crate) fn schema() -> Schema {
    let mut attributes = name::computed("job");
    attributes.extend([
        name::attribute("job"),
        Attribute::string("function", "The name of the function.")
            .required()
            .requires_replace()
            .checked(name::check),
        Attribute::string("event_json", "The event, as JSON text; `jsonencode` writes it.")
            .with_default("{}")
            .checked(is_event)
            .same_when(|one, other| {
                let parsed = |value: &Value| {
                    serde_json::from_str::<serde_json::Value>(value.as_str().unwrap_or_default()).ok()
                };
                parsed(one).is_some() && parsed(one) == parsed(other)
            }),
        Attribute::number("run_id", "0 runs nothing; another number above it runs the function, once.")
            .with_default(0)
            .requires_replace()
            .checked(|value| match value.as_i64() {
                Some(0..) => Ok(()),
                _ => Err("Expected a whole number, 0 or more.".to_owned()),
            }),
        Attribute::number(
            "wait_timeout_sec",
            &format!(
                "How long the run may take, in seconds; `{WAIT_TIMEOUT_SEC}` where it is not given. \
                 `timeouts` bounds the whole operation."
            ),
        )
        .with_stand_in(0)
        .checked(|value| match value.as_i64() {
            Some(1..) => Ok(()),
            _ => Err("Expected a whole number of seconds above zero.".to_owned()),
        }),
        Attribute::string("phase", "`Pending`, `Running`, `Succeeded`, `Failed` or `Skipped`.").computed(),
        Attribute::string(
            "result",
            "What the function returned, as JSON text, cut at a limit of the server.",
        )
        .computed(),
        Attribute::string("message", "A sentence about the run, where there is something to say.").computed(),
        Attribute::string("started_at", "When the run started, as RFC 3339.").computed(),
        Attribute::string("finished_at", "When the run ended, as RFC 3339.").computed(),
        tfplugin::timeouts::attribute(&[Action::Create, Action::Update, Action::Delete], TIMEOUT),
    ]);
    Schema::new(DOCS, attributes)
}

fn is_event(value: &Value) -> Result<(), String> {
    let text = value.as_str().unwrap_or_default();
    if text.len() > JobSpec::EVENT_BYTES_MAX {
        return Err(format!(
            "It is longer than event_bytes, {} bytes.",
            JobSpec::EVENT_BYTES_MAX
        ));
    }
    let parsed = serde_json::from_str::<serde::de::IgnoredAny>(text);
    // Where, and nothing of the text, which may hold secrets.
    parsed.map(drop).map_err(|error| {
        format!(
            "It is not JSON: see line {}, column {}.",
            error.line(),
            error.column()
        )
    })
}
