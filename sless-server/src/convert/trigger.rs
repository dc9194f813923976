//! Triggers.

use std::time::Duration;

use jiff::Timestamp;
use sless_api::{CronPolicies, Delivery, MissedRuns, Overlap, QueueDeclare, WireDuration};
use sless_core::{
    DeliveryOptions, SubscriptionStatus, Trigger, TriggerSpec, TriggerType,
    cron::{MissedRunPolicy, OverlapPolicy, Policies},
};

use super::filled;

/// How many of the next fires are shown.
const FIRES_SHOWN: usize = 5;

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
        queue_declare: is_event.then(|| queue_declare_view(spec.queue_declare.unwrap_or_default())),
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
            status.counts.delivered
        } else {
            ledger.fired.saturating_sub(ledger.failed)
        },
        failed: if is_event {
            status.counts.failed
        } else {
            ledger.failed
        },
        dead_lettered: status.counts.dead_lettered,
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

const fn queue_declare_view(declare: sless_core::QueueDeclare) -> QueueDeclare {
    match declare {
        sless_core::QueueDeclare::Classic => QueueDeclare::Classic,
        sless_core::QueueDeclare::Never => QueueDeclare::Never,
        _ => QueueDeclare::Quorum,
    }
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
