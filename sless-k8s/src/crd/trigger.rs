use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sless_core::{DeliveryOptions, TriggerSpec as Core, cron};

use super::schema::{self, Column, Condition, rules};

/// What `kubectl get` shows: the name, its type and where it is; `wide` where it is long.
pub(super) const COLUMNS: &[Column] = &[
    ("Type", "string", ".spec.type", false),
    ("Function", "string", ".spec.functionRef", false),
    ("Enabled", "boolean", ".spec.enabled", false),
    ("Active", "boolean", ".status.active", false),
    ("Reason", "string", ".status.reason", false),
    ("Next", "string", ".status.nextFireAt", false),
    ("Age", "date", ".metadata.creationTimestamp", false),
    ("URL", "string", ".status.url", true),
    ("Message", "string", ".status.message", true),
];

/// What is wanted of a trigger.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "sless.io",
    version = "v1alpha1",
    kind = "Trigger",
    namespaced,
    status = "TriggerStatus",
    doc = "What calls a function: a URL, a schedule or a queue.",
    shortname = "trg",
    category = "sless"
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    ("self.type == 'cron' || !(has(self.schedule) || has(self.timeZone) || has(self.policies))",
        "schedule, timeZone and policies belong to a trigger of type cron only"),
    ("self.type == 'event' || !(has(self.queue) || has(self.queueDeclare) || has(self.delivery))",
        "queue, queueDeclare and delivery belong to a trigger of type event only"),
    ("self.type != 'cron' || has(self.schedule)", "schedule is missing: a trigger of type cron needs it"),
    ("self.type != 'event' || has(self.queue)", "queue is missing: a trigger of type event needs it"),
])))]
pub(crate) struct TriggerSpec {
    /// What it waits for.
    r#type: TriggerType,
    /// The function to call, in the same namespace.
    #[schemars(schema_with = "schema::label")]
    function_ref: String,
    /// Whether it works.
    #[serde(default = "yes")]
    enabled: bool,
    /// Five fields of cron, or one of `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly` (type cron).
    #[schemars(schema_with = "schedule")]
    schedule: Option<String>,
    /// A zone of the IANA database, UTC where absent (type cron).
    time_zone: Option<String>,
    /// What happens to runs that were missed or would overlap (type cron).
    policies: Option<Policies>,
    /// The name of the queue (type event).
    #[schemars(schema_with = "queue")]
    queue: Option<String>,
    /// What happens where the queue is not there: `quorum` and `classic` make it, `never` waits for it
    /// (type event).
    #[schemars(schema_with = "queue_declare")]
    queue_declare: Option<String>,
    /// How messages are delivered (type event).
    delivery: Option<Delivery>,
}

fn yes() -> bool {
    true
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "lowercase")]
enum TriggerType {
    Http,
    Cron,
    Event,
}

/// The shape of a schedule: the number of fields, and the numbers and names in each. Ranges that end before
/// they begin, and days that no month has, are told by the trigger's status.
fn schedule(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let field = |value: &str, step: &str| {
        let item = format!(r"(\*|{value}(-{value})?)(/0*{step})?");
        format!("{item}(,{item})*")
    };
    let minute = field("0*[1-5]?[0-9]", "([1-9]|[1-5][0-9])");
    let hour = field("0*(1?[0-9]|2[0-3])", "([1-9]|1[0-9]|2[0-3])");
    let day = field("0*([1-9]|[12][0-9]|3[01])", "([1-9]|[12][0-9]|3[01])");
    let month = field(
        "(0*([1-9]|1[0-2])|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)",
        "([1-9]|1[0-2])",
    );
    let weekday = field("(0*[0-7]|sun|mon|tue|wed|thu|fri|sat)", "[1-7]");
    // What Rust calls ASCII white space.
    let blank = r"[ \t\n\x0C\r]";
    let fields = [minute, hour, day, month, weekday].join(&format!("{blank}+"));
    let alias = "@(hourly|daily|midnight|weekly|monthly|yearly|annually)";
    schemars::json_schema!({
        "type": "string",
        "nullable": true,
        "maxLength": cron::MAX_EXPRESSION_BYTES,
        "pattern": format!("^{blank}*(?i:{fields}|{alias}){blank}*$"),
    })
}

/// A pattern, since an enumeration would not let null pass.
fn queue_declare(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "string", "nullable": true, "pattern": "^(quorum|classic|never)$"})
}

fn queue(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "string",
        "nullable": true,
        "minLength": 1,
        "maxLength": Core::QUEUE_BYTES_MAX,
        "pattern": r"^[^\x00-\x1f\x7f-\x{9f}]*$",
        "x-kubernetes-validations": rules(&[(
            &format!("size(bytes(self)) <= {}", Core::QUEUE_BYTES_MAX),
            "queue is longer than 255 bytes",
        )]),
    })
}

/// What happens to runs that were missed or would overlap.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "camelCase")]
struct Policies {
    /// `runOnce` runs the latest of those that were missed, `skip` none.
    #[serde(default)]
    missed_runs: MissedRuns,
    /// A missed run whose time is longer ago than this is not run any more.
    #[serde(default = "missed_deadline")]
    #[schemars(range(min = 0))]
    missed_deadline_seconds: i64,
    /// `skip` runs never two at once, `allow` does.
    #[serde(default)]
    overlap: Overlap,
    /// How many may run at once where overlapping is allowed.
    #[serde(default = "max_running")]
    #[schemars(range(min = 0))]
    max_running: i64,
    /// Up to this long after its time a run counts as on time.
    #[serde(default = "on_time_within")]
    #[schemars(range(min = 0))]
    on_time_within_seconds: i64,
}

fn missed_deadline() -> i64 {
    86_400
}

fn max_running() -> i64 {
    10
}

fn on_time_within() -> i64 {
    60
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "camelCase")]
enum MissedRuns {
    #[default]
    RunOnce,
    Skip,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "camelCase")]
enum Overlap {
    #[default]
    Skip,
    Allow,
}

/// How the messages of a queue are delivered.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline, extend("x-kubernetes-validations" = rules(&[
    ("self.minBackoffMs <= self.maxBackoffMs", "minBackoffMs is above maxBackoffMs"),
])))]
#[serde(rename_all = "camelCase")]
struct Delivery {
    /// How often a message is tried before it is dead-lettered.
    #[serde(default = "max_attempts")]
    #[schemars(range(min = 1, max = DeliveryOptions::ATTEMPTS_MAX))]
    max_attempts: i32,
    /// The delay before the second attempt, in milliseconds; it doubles from there.
    #[serde(default = "min_backoff")]
    #[schemars(range(min = 1, max = DeliveryOptions::BACKOFF_MS_MAX))]
    min_backoff_ms: i64,
    /// The longest delay, in milliseconds.
    #[serde(default = "max_backoff")]
    #[schemars(range(min = 1, max = DeliveryOptions::BACKOFF_MS_MAX))]
    max_backoff_ms: i64,
    /// Calls of the function at once.
    #[serde(default = "in_flight")]
    #[schemars(range(min = 1, max = DeliveryOptions::IN_FLIGHT_MAX))]
    in_flight: i32,
    /// Messages taken from the queue beyond those in flight.
    #[serde(default)]
    #[schemars(range(min = 0, max = DeliveryOptions::PREFETCH_MAX))]
    prefetch: i32,
}

fn max_attempts() -> i32 {
    5
}

fn min_backoff() -> i64 {
    1_000
}

fn max_backoff() -> i64 {
    300_000
}

fn in_flight() -> i32 {
    1
}

/// What is seen of a trigger; written by sless.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TriggerStatus {
    /// Whether it works now: enabled, and its function is there.
    #[serde(default)]
    active: bool,
    /// The generation of the spec that this status speaks of.
    #[serde(default)]
    observed_generation: i64,
    /// The function's URL (type http).
    url: Option<String>,
    /// What has fired and what has not (type cron).
    ledger: Option<Ledger>,
    /// When it fires next (type cron).
    #[schemars(schema_with = "schema::optional_time")]
    next_fire_at: Option<String>,
    /// Whether its consumer is connected (type event).
    connected: Option<bool>,
    /// What came of its messages, over all processes (type event).
    counts: Option<EventCounts>,
    /// A machine word where it does not work, such as `function_missing`.
    reason: Option<String>,
    /// A sentence.
    message: Option<String>,
    /// Conditions: `Active`.
    #[schemars(schema_with = "schema::conditions")]
    conditions: Option<Vec<Condition>>,
}

/// What has fired and what has not.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "camelCase")]
struct Ledger {
    /// The newest due time that was fired.
    #[schemars(schema_with = "schema::optional_time")]
    last_fire_at: Option<String>,
    /// Due times up to this one are dealt with and never come again.
    #[schemars(schema_with = "schema::optional_time")]
    accounted_until: Option<String>,
    /// Due times that were claimed and whose runs have not ended.
    #[schemars(schema_with = "schema::times")]
    running: Option<Vec<String>>,
    /// Due times that were claimed by a process that is gone, and that may have run in part.
    #[schemars(schema_with = "schema::times")]
    interrupted: Option<Vec<String>>,
    /// How many due times were run to an end.
    #[serde(default)]
    fired: i64,
    /// How many of these failed.
    #[serde(default)]
    failed: i64,
    /// How many due times were passed over because an earlier run went on.
    #[serde(default)]
    skipped: i64,
    /// How many due times nothing fired in time.
    #[serde(default)]
    missed: i64,
}

/// What came of the messages of a trigger.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "camelCase")]
struct EventCounts {
    /// Messages that were handled.
    #[serde(default)]
    delivered: i64,
    /// Attempts that failed.
    #[serde(default)]
    failed: i64,
    /// Messages that became dead letters.
    #[serde(default)]
    dead_lettered: i64,
}
