//! Triggers.

use std::time::Duration;

use jiff::Timestamp;
use sless_api::{
    CreateTrigger, CronPolicies, Delivery, Field, MissedRuns, Overlap, PatchTrigger, WireDuration,
};
use sless_core::{
    DeliveryOptions, SubscriptionStatus, Trigger, TriggerSpec, TriggerType,
    cron::{MissedRunPolicy, OverlapPolicy, Policies},
};

use super::{field, filled, invalid};
use crate::error::ApiError;

/// How many of the next fires are shown.
const FIRES_SHOWN: usize = 5;

/// What is wanted of a new trigger.
pub(crate) fn trigger_spec(request: CreateTrigger) -> Result<TriggerSpec, ApiError> {
    let function = field("function_ref", &request.function_ref)?;
    let mut spec = match request.kind {
        sless_api::TriggerType::Cron => TriggerSpec::cron(function, ""),
        sless_api::TriggerType::Event => TriggerSpec::event(function, ""),
        _ => TriggerSpec::http(function),
    };
    spec.enabled = request.enabled.unwrap_or(true);
    spec.schedule = request.schedule;
    spec.time_zone = request.time_zone;
    spec.policies = request.policies.map(|given| policies(&given)).transpose()?;
    spec.queue = request.queue;
    spec.delivery = request.delivery.map(|given| delivery(&given)).transpose()?;
    Ok(spec)
}

/// Applies a patch to what is wanted.
pub(crate) fn patch_trigger(patch: &PatchTrigger, spec: &mut TriggerSpec) -> Result<(), ApiError> {
    if let Some(function) = &patch.function_ref {
        spec.function_ref = field("function_ref", function)?;
    }
    match patch.enabled {
        Field::Absent => {}
        Field::Null => spec.enabled = true,
        Field::Value(enabled) => spec.enabled = enabled,
    }
    if let Some(schedule) = &patch.schedule {
        spec.schedule = Some(schedule.clone());
    }
    patch.time_zone.clone().apply(&mut spec.time_zone);
    match &patch.policies {
        Field::Absent => {}
        Field::Null => spec.policies = None,
        Field::Value(given) => spec.policies = Some(policies(given)?),
    }
    if let Some(queue) = &patch.queue {
        spec.queue = Some(queue.clone());
    }
    match &patch.delivery {
        Field::Absent => {}
        Field::Null => spec.delivery = None,
        Field::Value(given) => spec.delivery = Some(delivery(given)?),
    }
    Ok(())
}

fn policies(given: &CronPolicies) -> Result<Policies, ApiError> {
    let mut policies = Policies::default();
    match given.missed_runs {
        Some(MissedRuns::Skip) => policies.missed_runs = MissedRunPolicy::Skip,
        Some(MissedRuns::RunOnce) => policies.missed_runs = MissedRunPolicy::RunOnce,
        _ => {}
    }
    if let Some(WireDuration(deadline)) = given.missed_deadline {
        if deadline.subsec_nanos() != 0 {
            let problem = "expected whole seconds";
            return Err(invalid("policies.missed_deadline", problem));
        }
        policies.missed_deadline = deadline;
    }
    match given.overlap {
        Some(Overlap::Skip) => policies.overlap = OverlapPolicy::Skip,
        Some(Overlap::Allow) => policies.overlap = OverlapPolicy::Allow,
        _ => {}
    }
    if let Some(runs) = given.max_running {
        policies.max_running = runs;
    }
    Ok(policies)
}

fn delivery(given: &Delivery) -> Result<DeliveryOptions, ApiError> {
    let mut options = DeliveryOptions::default();
    let milliseconds = |name, WireDuration(duration): WireDuration| {
        let whole = duration.subsec_nanos() % 1_000_000 == 0;
        u64::try_from(duration.as_millis())
            .ok()
            .filter(|_| whole)
            .ok_or_else(|| invalid(name, "expected whole milliseconds"))
    };
    if let Some(backoff) = given.min_backoff {
        options.min_backoff_ms = milliseconds("delivery.min_backoff", backoff)?;
    }
    if let Some(backoff) = given.max_backoff {
        options.max_backoff_ms = milliseconds("delivery.max_backoff", backoff)?;
    }
    options.max_attempts = given.max_attempts.unwrap_or(options.max_attempts);
    options.in_flight = given.in_flight.unwrap_or(options.in_flight);
    options.prefetch = given.prefetch.unwrap_or(options.prefetch);
    Ok(options)
}

/// A trigger as it is answered, with what its dispatcher sees of it.
pub(crate) fn trigger_view(
    trigger: Trigger,
    subscription: Option<&SubscriptionStatus>,
    now: Timestamp,
) -> sless_api::Trigger {
    let Trigger {
        metadata,
        spec,
        status,
    } = trigger;
    let next_fires = match spec.kind {
        TriggerType::Cron if spec.enabled => next_fires(&spec, now),
        _ => Vec::new(),
    };
    let ledger = status.ledger.unwrap_or_default();
    let seen = subscription.cloned().unwrap_or_default();
    let is_event = spec.kind == TriggerType::Event;
    let message = filled(&status.message).or_else(|| filled(&seen.message));
    sless_api::Trigger {
        name: metadata.name.to_string(),
        namespace: metadata.namespace.to_string(),
        kind: match spec.kind {
            TriggerType::Http => sless_api::TriggerType::Http,
            TriggerType::Cron => sless_api::TriggerType::Cron,
            TriggerType::Event => sless_api::TriggerType::Event,
        },
        function_ref: spec.function_ref.to_string(),
        enabled: spec.enabled,
        schedule: spec.schedule,
        time_zone: spec.time_zone,
        policies: spec.policies.as_ref().map(policies_view),
        queue: spec.queue,
        delivery: is_event.then(|| delivery_view(&spec.delivery.unwrap_or_default())),
        active: status.active,
        url: status.url,
        next_fire_at: status.next_fire_at,
        next_fires,
        last_fire_at: ledger.last_fire_at,
        skipped: ledger.skipped,
        missed: ledger.missed,
        connected: if is_event {
            Some(subscription.map_or(status.connected.unwrap_or(false), |seen| seen.connected))
        } else {
            None
        },
        delivered: if is_event {
            seen.delivered
        } else {
            ledger.fired.saturating_sub(ledger.failed)
        },
        failed: if is_event { seen.failed } else { ledger.failed },
        dead_lettered: seen.dead_lettered,
        reason: filled(&status.reason),
        message,
        created_at: metadata.created_at,
    }
}

fn next_fires(spec: &TriggerSpec, now: Timestamp) -> Vec<Timestamp> {
    // Checked when it was stored; a schedule that cannot be read any more fires never.
    spec.parse_schedule()
        .map(|schedule| schedule.upcoming(now).take(FIRES_SHOWN).collect())
        .unwrap_or_default()
}

fn policies_view(policies: &Policies) -> CronPolicies {
    CronPolicies {
        missed_runs: Some(match policies.missed_runs {
            MissedRunPolicy::Skip => MissedRuns::Skip,
            _ => MissedRuns::RunOnce,
        }),
        missed_deadline: Some(WireDuration(policies.missed_deadline)),
        overlap: Some(match policies.overlap {
            OverlapPolicy::Allow => Overlap::Allow,
            _ => Overlap::Skip,
        }),
        max_running: Some(policies.max_running),
    }
}

fn delivery_view(options: &DeliveryOptions) -> Delivery {
    let milliseconds = |count| Some(WireDuration(Duration::from_millis(count)));
    Delivery {
        max_attempts: Some(options.max_attempts),
        min_backoff: milliseconds(options.min_backoff_ms),
        max_backoff: milliseconds(options.max_backoff_ms),
        in_flight: Some(options.in_flight),
        prefetch: Some(options.prefetch),
    }
}
