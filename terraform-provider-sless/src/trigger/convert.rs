//! Triggers between Terraform and the server.

use sless_api::{
    CreateTrigger, CronPolicies, Delivery, Field, MissedRuns, Overlap, PatchTrigger, QueueDeclare,
    Trigger, TriggerType, WireDuration,
};
use tfplugin::{Plan, Value};

use super::schema::{default_declare, default_delivery};

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn number<T: TryFrom<i64>>(value: &Value) -> Option<T> {
    value.as_i64().and_then(|number| number.try_into().ok())
}

fn duration(value: &Value) -> Option<WireDuration> {
    value.as_str().and_then(|text| text.parse().ok())
}

/// Reads a word that the API knows.
fn word<T: serde::de::DeserializeOwned>(value: &Value) -> Option<T> {
    let word = value.as_str()?;
    serde_json::from_value(word.into()).ok()
}

/// A word as the API writes it.
fn written<T: serde::Serialize>(word: &T) -> Value {
    let written = serde_json::to_value(word).ok();
    written
        .as_ref()
        .and_then(serde_json::Value::as_str)
        .map_or(Value::Null, Value::from)
}

/// What is asked of the server. The error is a sentence.
pub(super) fn request(wanted: &Value) -> Result<CreateTrigger, String> {
    let kind = word::<TriggerType>(wanted.at("type"));
    Ok(CreateTrigger {
        name: text(wanted.at("name")).unwrap_or_default(),
        kind: kind.ok_or("`type` is not known.")?,
        function_ref: text(wanted.at("function")).unwrap_or_default(),
        enabled: wanted.at("enabled").as_bool(),
        schedule: text(wanted.at("schedule")),
        time_zone: text(wanted.at("time_zone")),
        policies: policies(wanted.at("policies")),
        queue: text(wanted.at("queue")),
        queue_declare: word::<QueueDeclare>(wanted.at("queue_declare")),
        delivery: delivery(wanted.at("delivery")),
    })
}

fn policies(given: &Value) -> Option<CronPolicies> {
    given.as_map()?;
    Some(CronPolicies {
        missed_runs: word::<MissedRuns>(given.at("missed_runs")),
        missed_deadline: duration(given.at("missed_deadline")),
        overlap: word::<Overlap>(given.at("overlap")),
        max_running: number(given.at("max_running")),
    })
}

fn delivery(given: &Value) -> Option<Delivery> {
    given.as_map()?;
    Some(Delivery {
        max_attempts: number(given.at("max_attempts")),
        min_backoff: duration(given.at("min_backoff")),
        max_backoff: duration(given.at("max_backoff")),
        in_flight: number(given.at("in_flight")),
        prefetch: number(given.at("prefetch")),
    })
}

/// What has to change: nothing else is sent. What is not given any more goes back to the server's
/// default.
pub(super) fn patch(prior: &CreateTrigger, wanted: CreateTrigger) -> PatchTrigger {
    fn field<T: PartialEq>(prior: &Option<T>, wanted: Option<T>) -> Field<T> {
        if *prior == wanted {
            return Field::Absent;
        }
        wanted.map_or(Field::Null, Field::Value)
    }
    fn changed<T: PartialEq>(prior: &Option<T>, wanted: Option<T>) -> Option<T> {
        wanted.filter(|wanted| prior.as_ref() != Some(wanted))
    }
    PatchTrigger {
        function_ref: Some(wanted.function_ref).filter(|name| *name != prior.function_ref),
        enabled: field(&prior.enabled, wanted.enabled),
        schedule: changed(&prior.schedule, wanted.schedule),
        time_zone: field(&prior.time_zone, wanted.time_zone),
        policies: field(&prior.policies, wanted.policies),
        queue: changed(&prior.queue, wanted.queue),
        queue_declare: field(&prior.queue_declare, wanted.queue_declare),
        delivery: field(&prior.delivery, wanted.delivery),
    }
}

/// Whether a trigger that is there is what a lost answer was about.
pub(super) fn is_ours(request: &CreateTrigger, found: &Trigger) -> bool {
    found.kind == request.kind
        && found.function_ref == request.function_ref
        && found.enabled == request.enabled.unwrap_or(true)
        && found.schedule == request.schedule
        && found.queue == request.queue
}

/// What the server answers with its default where nothing was said.
fn spoken_defaults() -> [(&'static str, Value); 2] {
    [
        ("delivery", default_delivery()),
        ("queue_declare", default_declare()),
    ]
}

/// Puts what the server says into a state. Where nothing was said, the server's default stays unsaid.
pub(super) fn put(state: &mut Value, trigger: &Trigger) {
    let was_silent = spoken_defaults().map(|(name, _)| {
        let said = state.at(name);
        said.is_null() || said.is_unknown()
    });
    let url = state.at("url").clone();
    put_all(state, trigger);
    for ((name, default), was_silent) in spoken_defaults().into_iter().zip(was_silent) {
        if was_silent && *state.at(name) == default {
            state.put(name, Value::Null);
        }
    }
    // What a plan promised stays; another address is seen by the next look.
    if url.as_str().is_some() {
        state.put("url", url);
    }
}

/// Puts everything that the server says into a state.
pub(super) fn put_all(state: &mut Value, trigger: &Trigger) {
    state.put("id", trigger.name.as_str());
    state.put("name", trigger.name.as_str());
    state.put("namespace", trigger.namespace.as_str());
    state.put("type", written(&trigger.kind));
    state.put("function", trigger.function_ref.as_str());
    state.put("enabled", trigger.enabled);
    state.put("schedule", trigger.schedule.clone());
    state.put("time_zone", trigger.time_zone.clone());
    let policies = trigger.policies.as_ref().map(|policies| {
        Value::from_iter([
            (
                "missed_runs",
                policies.missed_runs.as_ref().map_or(Value::Null, written),
            ),
            (
                "missed_deadline",
                policies
                    .missed_deadline
                    .map(|value| value.to_string())
                    .into(),
            ),
            (
                "overlap",
                policies.overlap.as_ref().map_or(Value::Null, written),
            ),
            (
                "max_running",
                policies.max_running.map(|count| count as u64).into(),
            ),
        ])
    });
    // The inner words of the state stay where they mean the same: see `Attribute::same_when`.
    state.put("policies", policies);
    state.put("queue", trigger.queue.clone());
    state.put(
        "queue_declare",
        trigger.queue_declare.as_ref().map_or(Value::Null, written),
    );
    let delivery = trigger.delivery.as_ref().map(|delivery| {
        Value::from_iter([
            ("max_attempts", delivery.max_attempts.into()),
            (
                "min_backoff",
                Value::from(delivery.min_backoff.map(|value| value.to_string())),
            ),
            (
                "max_backoff",
                delivery.max_backoff.map(|value| value.to_string()).into(),
            ),
            ("in_flight", delivery.in_flight.into()),
            ("prefetch", delivery.prefetch.into()),
        ])
    });
    state.put("delivery", delivery);
    state.put("url", trigger.url.clone());
    state.put("active", trigger.active);
    state.put(
        "next_fire",
        trigger.next_fire_at.map(|time| time.to_string()),
    );
}

/// Decides what follows from the type.
pub(super) fn plan(plan: &mut Plan) {
    for (name, default) in spoken_defaults() {
        if plan.config().at(name).is_null() {
            // Not given is the same as the server's default.
            let before = plan.prior().at(name).clone();
            plan.decide(
                name,
                if before == default {
                    before
                } else {
                    Value::Null
                },
            );
        }
    }
    let Some(kind) = plan.planned().at("type").as_str().map(str::to_owned) else {
        return;
    };
    if kind != "http" {
        plan.decide("url", Value::Null);
    }
    if kind != "cron" {
        plan.decide("next_fire", Value::Null);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_sends_what_changes_and_nothing_else() {
        let trigger = |more: &[(&str, Value)]| {
            let mut wanted = Value::from_iter([("name", "t"), ("type", "cron"), ("function", "f")]);
            wanted.put("schedule", "@daily");
            wanted.put("enabled", true);
            for (name, value) in more {
                wanted.put(name, value.clone());
            }
            request(&wanted).expect("a trigger")
        };
        let prior = trigger(&[("time_zone", "UTC".into())]);
        let sent = |wanted| serde_json::to_value(patch(&prior, wanted)).expect("JSON");
        let same = trigger(&[("time_zone", "UTC".into())]);
        assert_eq!(sent(same), serde_json::json!({}));
        let off = trigger(&[("enabled", false.into()), ("schedule", "@weekly".into())]);
        let expected =
            serde_json::json!({"enabled": false, "schedule": "@weekly", "time_zone": null});
        assert_eq!(sent(off), expected);
    }

    #[test]
    fn what_the_server_says_of_itself_is_no_difference() {
        let answer = serde_json::json!({
            "name": "t", "namespace": "n", "type": "event", "function_ref": "f", "enabled": true,
            "schedule": null, "time_zone": null, "queue": "q", "queue_declare": "quorum",
            "delivery": {"max_attempts": 5, "min_backoff": "1s", "max_backoff": "5m", "in_flight": 1, "prefetch": 0},
            "active": true, "url": null, "next_fire_at": null, "last_fire_at": null, "connected": true,
            "delivered": 0, "failed": 0, "dead_lettered": 0, "message": null,
            "created_at": "2026-01-01T00:00:00Z",
        });
        let trigger: Trigger = serde_json::from_value(answer).expect("a trigger");
        let mut silent = Value::from_iter([("delivery", Value::UNKNOWN)]);
        put(&mut silent, &trigger);
        assert!(silent.at("delivery").is_null() && silent.at("queue_declare").is_null());
        let mut said = Value::from_iter([("queue_declare", "quorum")]);
        put(&mut said, &trigger);
        assert_eq!(said.at("queue_declare").as_str(), Some("quorum"));
        let mut imported = Value::Null;
        put_all(&mut imported, &trigger);
        assert_eq!(imported.at("delivery"), &default_delivery());
        assert_eq!(imported.at("queue_declare"), &default_declare());
    }

    #[test]
    fn what_nothing_is_said_about_is_what_the_server_does() {
        let defaults = delivery(&default_delivery()).expect("options");
        assert_eq!(
            defaults.max_attempts,
            Some(sless_core::DeliveryOptions::default().max_attempts)
        );
        assert!(defaults.min_backoff.is_some() && defaults.prefetch.is_some());
        assert!(request(&Value::from_iter([("type", "sometimes")])).is_err());
    }
}
