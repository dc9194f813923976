//! The triggers of a function: what calls it, and the switches.

use std::collections::HashMap;

use jiff::Timestamp;
use maud::{Markup, html};
use sless_core::{Name, Trigger, TriggerType};

use crate::{
    data::{Item, Queue},
    extract::Reading,
    format,
};

/// How many of the next fires are shown.
const FIRES: usize = 5;

/// The triggers of a function. Queues that nobody has looked at are shown as they are stored.
pub(crate) fn list(reading: &Reading, item: &Item, queues: &HashMap<Name, Queue>) -> Markup {
    let texts = reading.texts();
    let name = item.name();
    html! {
        section.triggers data-triggers=(name) {
            h2 { (texts.triggers) }
            @if item.http().next().is_none() {
                div.trigger {
                    p { (texts.no_triggers) }
                    @if reading.may_write {
                        form method="post" action=(reading.path(format_args!("/functions/{name}/switch"))) data-send {
                            (switch(reading, name.as_str(), true))
                        }
                    }
                }
            }
            @for trigger in &item.triggers { (one(reading, trigger, queues)) }
        }
    }
}

fn one(reading: &Reading, trigger: &Trigger, queues: &HashMap<Name, Queue>) -> Markup {
    let texts = reading.texts();
    let name = &trigger.metadata.name;
    let (spec, status) = (&trigger.spec, &trigger.status);
    let (class, word) = if !spec.enabled {
        ("stopped", texts.disabled)
    } else if status.active {
        ("ready", texts.active)
    } else {
        ("pending", texts.inactive)
    };
    html! {
        div.trigger {
            p {
                strong { (spec.kind.as_str()) } " " span.name { (name) } " "
                span class=(format_args!("badge {class}")) { (word) }
                @if !status.reason.is_empty() { " " code { (status.reason) } }
                @if !status.message.is_empty() { " " span.hint { (status.message) } }
            }
            @match spec.kind {
                TriggerType::Http => {},
                TriggerType::Cron => (cron(reading, trigger)),
                TriggerType::Event => (event(reading, trigger, queues.get(name))),
            }
            @if reading.may_write {
                form method="post" action=(reading.path(format_args!("/triggers/{name}"))) data-patch {
                    (switch(reading, name.as_str(), spec.enabled))
                }
            }
        }
    }
}

/// The button that turns something on or off.
fn switch(reading: &Reading, name: &str, is_on: bool) -> Markup {
    let texts = reading.texts();
    let (value, sign, word) = if is_on {
        ("false", "■", texts.stop)
    } else {
        ("true", "▶", texts.start)
    };
    html! {
        button.switch type="submit" name="enabled" value=(value)
            aria-label=(format_args!("{word}: {name}")) data-key=(format_args!("switch-{name}")) {
            span aria-hidden="true" { (sign) } " " (word)
        }
    }
}

fn cron(reading: &Reading, trigger: &Trigger) -> Markup {
    let texts = reading.texts();
    let spec = &trigger.spec;
    let ledger = trigger.status.ledger.clone().unwrap_or_default();
    let fires = next_fires(trigger, reading.console.now());
    html! {
        p {
            code { (spec.schedule.as_deref().unwrap_or_default()) }
            " " (spec.time_zone.as_deref().unwrap_or(texts.utc))
        }
        @if !fires.is_empty() {
            p { (texts.next_fires) ":" }
            ol.fires { @for at in fires { li { (format::time(at)) } } }
        }
        p.hint {
            @if let Some(at) = ledger.last_fire_at { (texts.last_fire) ": " (format::time(at)) ". " }
            (texts.fired) ": " (ledger.fired) "; " (texts.fired_failed) ": " (ledger.failed) "; "
            (texts.skipped) ": " (ledger.skipped) "; " (texts.missed) ": " (ledger.missed)
        }
    }
}

fn next_fires(trigger: &Trigger, now: Timestamp) -> Vec<Timestamp> {
    if !trigger.spec.enabled {
        return Vec::new();
    }
    // Checked when it was stored; one that cannot be read any more fires never.
    let schedule = trigger.spec.parse_schedule();
    schedule.map_or_else(
        |_| Vec::new(),
        |schedule| schedule.upcoming(now).take(FIRES).collect(),
    )
}

fn event(reading: &Reading, trigger: &Trigger, queue: Option<&Queue>) -> Markup {
    let texts = reading.texts();
    let name = &trigger.metadata.name;
    let seen = queue.and_then(|queue| queue.seen.as_ref());
    let counts = queue.map_or(trigger.status.counts, |queue| queue.counts);
    let connected = seen.map_or(trigger.status.connected.unwrap_or(false), |seen| {
        seen.connected
    });
    let letters = reading.path(format_args!("/triggers/{name}/dead-letters"));
    html! {
        p {
            (texts.queue) ": " code { (trigger.spec.queue.as_deref().unwrap_or_default()) } ", "
            (if connected { texts.connected } else { texts.disconnected })
        }
        p.hint {
            @if let Some(seen) = seen {
                @if let Some(waiting) = seen.waiting { (texts.waiting) ": " (waiting) "; " }
                (texts.in_flight) ": " (seen.in_flight) "; "
            }
            (texts.delivered) ": " (counts.delivered) "; "
            (texts.attempts_failed) ": " (counts.failed) "; "
            (texts.dead_lettered) ": " (counts.dead_lettered)
        }
        @if let Some(seen) = seen.filter(|seen| !seen.message.is_empty()) {
            p.hint { (seen.message) }
        }
        details.section data-fetch=(letters) {
            summary { (texts.dead_letters) ": " (name) }
            div data-into { p { a href=(letters) { (texts.dead_letters) ": " (name) } } }
        }
    }
}
