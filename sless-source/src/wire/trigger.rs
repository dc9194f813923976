//! Triggers.

use sless_api::{
    CreateTrigger, CronPolicies, Delivery, Field, MissedRuns, Overlap, PatchTrigger, QueueDeclare,
    WireDuration,
};
use sless_core::{
    DeliveryOptions, TriggerSpec,
    cron::{MissedRunPolicy, OverlapPolicy, Policies},
};

use super::{FieldError, field};

/// What is wanted of a new trigger.
///
/// # Errors
/// [`FieldError`] naming the first field that cannot be used.
pub fn trigger_spec(request: CreateTrigger) -> Result<TriggerSpec, FieldError> {
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
    spec.queue_declare = request.queue_declare.map(queue_declare);
    spec.delivery = request.delivery.map(|given| delivery(&given)).transpose()?;
    Ok(spec)
}

/// Applies a patch to what is wanted: a field that is left out stays, null brings the default back.
///
/// # Errors
/// [`FieldError`] naming the first field that cannot be used; part of the patch is applied then.
pub fn patch_trigger(patch: &PatchTrigger, spec: &mut TriggerSpec) -> Result<(), FieldError> {
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
    patch
        .queue_declare
        .map(queue_declare)
        .apply(&mut spec.queue_declare);
    match &patch.delivery {
        Field::Absent => {}
        Field::Null => spec.delivery = None,
        Field::Value(given) => spec.delivery = Some(delivery(given)?),
    }
    Ok(())
}

const fn queue_declare(given: QueueDeclare) -> sless_core::QueueDeclare {
    match given {
        QueueDeclare::Classic => sless_core::QueueDeclare::Classic,
        QueueDeclare::Never => sless_core::QueueDeclare::Never,
        _ => sless_core::QueueDeclare::Quorum,
    }
}

fn policies(given: &CronPolicies) -> Result<Policies, FieldError> {
    let mut policies = Policies::default();
    match given.missed_runs {
        Some(MissedRuns::Skip) => policies.missed_runs = MissedRunPolicy::Skip,
        Some(MissedRuns::RunOnce) => policies.missed_runs = MissedRunPolicy::RunOnce,
        _ => {}
    }
    if let Some(WireDuration(deadline)) = given.missed_deadline {
        if deadline.subsec_nanos() != 0 {
            let problem = "expected whole seconds";
            return Err(FieldError::new("policies.missed_deadline", problem));
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

fn delivery(given: &Delivery) -> Result<DeliveryOptions, FieldError> {
    let mut options = DeliveryOptions::default();
    let milliseconds = |name, WireDuration(duration): WireDuration| {
        let whole = duration.subsec_nanos() % 1_000_000 == 0;
        u64::try_from(duration.as_millis())
            .ok()
            .filter(|_| whole)
            .ok_or_else(|| FieldError::new(name, "expected whole milliseconds"))
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
