//! The attributes of a trigger.

use std::time::Duration;

use sless_api::WireDuration;
use sless_core::{DeliveryOptions, cron::Policies};
use tfplugin::{Action, Attribute, Schema, Value};

use super::TIMEOUT;
use crate::name;

pub(super) const ACTIONS: [Action; 3] = [Action::Create, Action::Update, Action::Delete];

const DOCS: &str = "\
A trigger: what drives a function.

A function answers at its URL without one; a trigger of type `http` is for those that are to be switched off \
and on without being removed. With `enabled = false` a trigger stops what it drives, in place: the URL answers \
503, a schedule does not fire, a queue is not consumed. Removing a trigger leaves its queue and what is in it.";

/// The attributes of a trigger.
pub(crate) fn schema() -> Schema {
    let mut attributes = name::computed("trigger");
    attributes.extend([
        name::attribute("trigger"),
        Attribute::string("type", "What drives the function: `http`, `cron` or `event`.")
            .required()
            .requires_replace()
            .checked(|value| one_of(value, &["http", "cron", "event"])),
        Attribute::string("function", "The name of the function.").required().checked(name::check),
        Attribute::bool("enabled", "Whether it acts. Changed in place.").with_default(true),
        Attribute::string(
            "schedule",
            "For `cron`: five fields in POSIX order, or a name such as `@weekly`.",
        )
        .optional(),
        Attribute::string("time_zone", "For `cron`: the IANA time zone of the schedule; UTC where it is not given.")
            .optional(),
        Attribute::single("policies", policies(), "For `cron`: what becomes of runs that are missed or overlap.")
            .optional(),
        Attribute::string("queue", "For `event`: the queue to consume.").optional(),
        Attribute::string(
            "queue_declare",
            "For `event`: what happens where the queue is not there. `quorum`, where it is not given, or \
             `classic` makes it, `never` waits for it.",
        )
        .optional()
        .computed()
        .checked(|value| one_of(value, &["quorum", "classic", "never"])),
        Attribute::single("delivery", delivery(), "For `event`: how messages are delivered.")
            .optional()
            .computed(),
        Attribute::string("url", "For `http`: where requests go.").computed().changes_with(&["function"]),
        Attribute::bool("active", "Whether it acts now.").computed(),
        Attribute::string("next_fire", "For `cron`: when it fires next, as RFC 3339.").computed(),
        tfplugin::timeouts::attribute(&ACTIONS, TIMEOUT),
    ]);
    Schema::new(DOCS, attributes)
}

fn one_of(value: &Value, known: &[&str]) -> Result<(), String> {
    match value.as_str() {
        Some(text) if known.contains(&text) => Ok(()),
        other => {
            let given: String = other.unwrap_or_default().chars().take(40).collect();
            let known: Vec<_> = known.iter().map(|known| format!("`{known}`")).collect();
            Err(format!("`{given}` is none of {}.", known.join(", ")))
        }
    }
}

/// A duration with a unit, in which `60s` and `1m` are the same.
fn duration(name: &str, docs: &str, default: Duration) -> Attribute {
    let parse = |value: &Value| {
        value
            .as_str()
            .and_then(|text| text.parse::<WireDuration>().ok())
    };
    Attribute::string(name, docs)
        .with_default(WireDuration(default).to_string())
        .checked(move |value| {
            let parsed = value.as_str().unwrap_or_default().parse::<WireDuration>();
            parsed.map(drop).map_err(|error| format!("{error}."))
        })
        .same_when(move |one, other| parse(one).is_some() && parse(one) == parse(other))
}

fn count(name: &str, docs: &str, default: u64) -> Attribute {
    Attribute::number(name, docs)
        .with_default(default)
        .checked(|value| match value.as_i64().map(u32::try_from) {
            Some(Ok(_)) => Ok(()),
            _ => Err("Expected a whole number, 0 or more.".to_owned()),
        })
}

// Defaults are those of the server, and written down in every plan, so that they stay.
fn policies() -> Vec<Attribute> {
    let defaults = Policies::default();
    vec![
        Attribute::string(
            "missed_runs",
            "What becomes of a time that passed while nothing could fire: `run_once` or `skip`.",
        )
        .with_default("run_once")
        .checked(|value| one_of(value, &["run_once", "skip"])),
        duration(
            "missed_deadline",
            "A missed run whose time is longer ago than this is not run any more.",
            defaults.missed_deadline,
        ),
        Attribute::string(
            "overlap",
            "What becomes of a time that comes while an earlier run goes on: `skip` or `allow`.",
        )
        .with_default("skip")
        .checked(|value| one_of(value, &["skip", "allow"])),
        count(
            "max_running",
            "How many runs may go on at once where they may overlap.",
            defaults.max_running as u64,
        ),
    ]
}

fn delivery() -> Vec<Attribute> {
    let defaults = DeliveryOptions::default();
    let milliseconds = Duration::from_millis;
    vec![
        count(
            "max_attempts",
            "After how many deliveries a message becomes a dead letter.",
            defaults.max_attempts.into(),
        ),
        duration(
            "min_backoff",
            "The delay before the second delivery; it doubles with each one after.",
            milliseconds(defaults.min_backoff_ms),
        ),
        duration(
            "max_backoff",
            "The longest delay between two deliveries.",
            milliseconds(defaults.max_backoff_ms),
        ),
        count(
            "in_flight",
            "How many calls may be under way at once.",
            defaults.in_flight.into(),
        ),
        count(
            "prefetch",
            "How many messages are taken from the queue ahead of their calls.",
            defaults.prefetch.into(),
        ),
    ]
}

/// The delivery of a queue where nothing is said about it.
pub(super) fn default_delivery() -> Value {
    let delivery = delivery();
    let defaults = delivery
        .iter()
        .map(|attribute| (attribute.name(), attribute.default_value()));
    defaults.collect()
}

/// What happens where a queue is not there and nothing is said about it.
pub(super) fn default_declare() -> Value {
    sless_core::QueueDeclare::default().as_str().into()
}
