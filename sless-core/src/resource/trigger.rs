use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Condition, Metadata, meta::in_range};
use crate::{
    Error, Name, Result, SubscriptionStatus,
    cron::{Ledger, Policies, Schedule},
};

/// What calls a function: a URL, a schedule or a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trigger {
    /// Name, namespace, identity.
    pub metadata: Metadata,
    /// What is wanted.
    pub spec: TriggerSpec,
    /// What is seen.
    #[serde(default)]
    pub status: TriggerStatus,
}

impl Trigger {
    /// A trigger that is to be created.
    pub fn new(metadata: Metadata, spec: TriggerSpec) -> Self {
        Self {
            metadata,
            spec,
            status: TriggerStatus::default(),
        }
    }
}

/// What a trigger waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TriggerType {
    /// A request to the function's URL.
    Http,
    /// A time of a schedule.
    Cron,
    /// A message of a queue.
    Event,
}

impl TriggerType {
    /// The type as it stands in a spec.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Cron => "cron",
            Self::Event => "event",
        }
    }
}

/// What is wanted of a trigger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TriggerSpec {
    /// What it waits for.
    #[serde(rename = "type")]
    pub kind: TriggerType,
    /// The function to call, in the same namespace.
    pub function_ref: Name,
    /// Whether it works.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Five fields of cron (type cron).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// A zone of the IANA database, UTC where absent (type cron).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// What happens to runs that were missed or would overlap (type cron).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies: Option<Policies>,
    /// The name of the queue (type event).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// What happens where the queue is not there (type event).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_declare: Option<QueueDeclare>,
    /// How messages are delivered (type event).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<DeliveryOptions>,
}

const fn yes() -> bool {
    true
}

impl TriggerSpec {
    /// The longest name of a queue, in bytes (AMQP 0-9-1, section 3.1.5.2: a short string).
    pub const QUEUE_BYTES_MAX: usize = 255;

    fn new(kind: TriggerType, function_ref: Name) -> Self {
        Self {
            kind,
            function_ref,
            enabled: true,
            schedule: None,
            time_zone: None,
            policies: None,
            queue: None,
            queue_declare: None,
            delivery: None,
        }
    }

    /// A trigger for the function's URL.
    pub fn http(function_ref: Name) -> Self {
        Self::new(TriggerType::Http, function_ref)
    }

    /// A trigger by the clock.
    pub fn cron(function_ref: Name, schedule: impl Into<String>) -> Self {
        Self {
            schedule: Some(schedule.into()),
            ..Self::new(TriggerType::Cron, function_ref)
        }
    }

    /// A trigger by the messages of a queue.
    pub fn event(function_ref: Name, queue: impl Into<String>) -> Self {
        Self {
            queue: Some(queue.into()),
            ..Self::new(TriggerType::Event, function_ref)
        }
    }

    /// The parsed schedule.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) naming the field.
    pub fn parse_schedule(&self) -> Result<Schedule> {
        let schedule = self
            .schedule
            .as_deref()
            .ok_or_else(|| missing("schedule", self.kind))?;
        Schedule::parse(schedule, self.time_zone.as_deref())
    }

    /// Checks every field: what the type needs is there, and nothing that belongs to another type.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) naming the field.
    pub fn validate(&self) -> Result<()> {
        let fields = [
            ("schedule", self.schedule.is_some(), TriggerType::Cron),
            ("time_zone", self.time_zone.is_some(), TriggerType::Cron),
            ("policies", self.policies.is_some(), TriggerType::Cron),
            ("queue", self.queue.is_some(), TriggerType::Event),
            (
                "queue_declare",
                self.queue_declare.is_some(),
                TriggerType::Event,
            ),
            ("delivery", self.delivery.is_some(), TriggerType::Event),
        ];
        if let Some((field, ..)) = fields.iter().find(|(_, set, of)| *set && *of != self.kind) {
            return Err(Error::invalid(format!(
                "{field} does not belong to a trigger of type {}",
                self.kind.as_str()
            ))
            .with_reason("field_unexpected"));
        }
        match self.kind {
            TriggerType::Http => Ok(()),
            TriggerType::Cron => self.parse_schedule().map(drop),
            TriggerType::Event => {
                let queue = self
                    .queue
                    .as_deref()
                    .ok_or_else(|| missing("queue", self.kind))?;
                let bytes = 1..=Self::QUEUE_BYTES_MAX as u64;
                in_range("length of queue", queue.len() as u64, bytes, "bytes")?;
                if queue.chars().any(char::is_control) {
                    return Err(Error::invalid("queue holds a control character")
                        .with_reason("field_invalid"));
                }
                self.delivery.unwrap_or_default().validate()
            }
        }
    }
}

fn missing(field: &str, kind: TriggerType) -> Error {
    Error::invalid(format!(
        "{field} is missing: a trigger of type {} needs it",
        kind.as_str()
    ))
    .with_reason("field_missing")
}

/// What happens where the queue of a trigger is not there. One that is there is used as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum QueueDeclare {
    /// It is made, durable, and replicated where the broker replicates queues.
    #[default]
    Quorum,
    /// It is made, durable, on one node of the broker.
    Classic,
    /// It is waited for: the trigger is not connected until somebody else makes it.
    Never,
}

impl QueueDeclare {
    /// The choice as it stands in a spec.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Quorum => "quorum",
            Self::Classic => "classic",
            Self::Never => "never",
        }
    }
}

/// How the messages of a queue are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeliveryOptions {
    /// How often a message is tried before it is dead-lettered.
    pub max_attempts: u32,
    /// The delay before the second attempt, in milliseconds; it doubles from there.
    pub min_backoff_ms: u64,
    /// The longest delay, in milliseconds.
    pub max_backoff_ms: u64,
    /// Calls of the function at once.
    pub in_flight: u32,
    /// Messages taken from the queue beyond those in flight.
    pub prefetch: u32,
}

impl Default for DeliveryOptions {
    fn default() -> Self {
        Self {
            max_attempts: 5,
            min_backoff_ms: 1_000,
            max_backoff_ms: 300_000,
            in_flight: 1,
            prefetch: 0,
        }
    }
}

impl DeliveryOptions {
    /// The most attempts.
    pub const ATTEMPTS_MAX: u32 = 100;
    /// The longest delay, in milliseconds: a day.
    pub const BACKOFF_MS_MAX: u64 = 24 * 3600 * 1000;
    /// The most calls at once.
    pub const IN_FLIGHT_MAX: u32 = 1000;
    /// The most messages taken ahead.
    pub const PREFETCH_MAX: u32 = 10_000;

    fn validate(self) -> Result<()> {
        let backoff = 1..=Self::BACKOFF_MS_MAX;
        in_range(
            "max_attempts",
            self.max_attempts.into(),
            1..=Self::ATTEMPTS_MAX.into(),
            "",
        )?;
        in_range("min_backoff", self.min_backoff_ms, backoff.clone(), "ms")?;
        in_range("max_backoff", self.max_backoff_ms, backoff, "ms")?;
        in_range(
            "in_flight",
            self.in_flight.into(),
            1..=Self::IN_FLIGHT_MAX.into(),
            "",
        )?;
        in_range(
            "prefetch",
            self.prefetch.into(),
            0..=Self::PREFETCH_MAX.into(),
            "",
        )?;
        if self.min_backoff_ms > self.max_backoff_ms {
            return Err(Error::invalid(format!(
                "min_backoff is {} ms: expected at most max_backoff, {} ms",
                self.min_backoff_ms, self.max_backoff_ms
            ))
            .with_reason("field_out_of_range"));
        }
        Ok(())
    }
}

/// What came of the messages of a trigger. What a process counted last is lost when it is killed, so
/// each is a lower bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EventCounts {
    /// Messages that were handled.
    pub delivered: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Messages that became dead letters.
    pub dead_lettered: u64,
}

impl EventCounts {
    /// What a subscription has counted.
    pub const fn of(seen: &SubscriptionStatus) -> Self {
        Self {
            delivered: seen.delivered,
            failed: seen.failed,
            dead_lettered: seen.dead_lettered,
        }
    }

    /// Whether nothing came yet.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// What has come since an earlier count; all of it, if the counting has begun anew in between.
    pub(crate) const fn since(self, before: Self) -> Self {
        let anew = self.delivered < before.delivered
            || self.failed < before.failed
            || self.dead_lettered < before.dead_lettered;
        if anew {
            return self;
        }
        Self {
            delivered: self.delivered - before.delivered,
            failed: self.failed - before.failed,
            dead_lettered: self.dead_lettered - before.dead_lettered,
        }
    }
}

impl std::ops::Add for EventCounts {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        Self {
            delivered: self.delivered.saturating_add(more.delivered),
            failed: self.failed.saturating_add(more.failed),
            dead_lettered: self.dead_lettered.saturating_add(more.dead_lettered),
        }
    }
}

/// What is seen of a trigger.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TriggerStatus {
    /// Whether it works now: enabled, and its function is there.
    pub active: bool,
    /// The generation of the spec that this status speaks of.
    pub observed_generation: i64,
    /// The function's URL (type http).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// What has fired and what has not (type cron).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ledger: Option<Ledger>,
    /// When it fires next (type cron).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_fire_at: Option<Timestamp>,
    /// Whether its consumer is connected (type event).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connected: Option<bool>,
    /// What came of its messages, over all processes (type event).
    #[serde(skip_serializing_if = "EventCounts::is_zero")]
    pub counts: EventCounts,
    /// A machine word where it does not work, such as `function_missing`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// A sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Conditions: `Active`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function() -> Name {
        Name::new("hello").expect("a label")
    }

    #[test]
    fn a_field_of_another_type_is_refused() {
        let mut spec = TriggerSpec::http(function());
        assert!(spec.validate().is_ok());
        spec.queue = Some("q".to_owned());
        let error = spec.validate().expect_err("queue");
        assert_eq!(
            error.message(),
            "queue does not belong to a trigger of type http"
        );
    }

    #[test]
    fn what_a_type_needs_is_asked_for() {
        let mut spec = TriggerSpec::event(function(), "q");
        assert!(spec.validate().is_ok());
        spec.queue = None;
        assert_eq!(
            spec.validate().expect_err("no queue").reason(),
            "field_missing"
        );
        assert!(
            TriggerSpec::cron(function(), "* * * * *")
                .validate()
                .is_ok()
        );
        assert!(
            TriggerSpec::cron(function(), "60 * * * *")
                .validate()
                .is_err()
        );
    }

    #[test]
    fn enabled_is_the_default() {
        let spec: TriggerSpec =
            serde_json::from_str(r#"{"type":"http","functionRef":"hello"}"#).expect("minimal");
        assert!(spec.enabled);
    }

    #[test]
    fn a_least_delay_above_the_longest_is_refused() {
        let mut spec = TriggerSpec::event(function(), "q");
        spec.delivery = Some(DeliveryOptions {
            min_backoff_ms: 20,
            max_backoff_ms: 10,
            ..DeliveryOptions::default()
        });
        assert!(
            spec.validate()
                .expect_err("20 > 10")
                .message()
                .contains("min_backoff")
        );
    }
}
