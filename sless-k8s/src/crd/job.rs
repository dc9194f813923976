use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sless_core::JobSpec as Core;

use super::schema::{self, Column, Condition, rules};

/// What `kubectl get` shows: the name, its type and where it is; `wide` where it is long.
pub(super) const COLUMNS: &[Column] = &[
    ("Function", "string", ".spec.functionRef", false),
    ("Run", "integer", ".spec.runId", false),
    ("Phase", "string", ".status.phase", false),
    ("Reason", "string", ".status.reason", false),
    ("Finished", "date", ".status.finishedAt", false),
    ("Age", "date", ".metadata.creationTimestamp", false),
    ("Message", "string", ".status.message", true),
];

/// What is wanted of a job.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "sless.io",
    version = "v1alpha1",
    kind = "FunctionJob",
    namespaced,
    status = "FunctionJobStatus",
    doc = "One run of a function with a given event.",
    shortname = "fnjob",
    category = "sless"
)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FunctionJobSpec {
    /// The function to run, in the same namespace.
    #[schemars(schema_with = "schema::label")]
    function_ref: String,
    /// The event, as JSON text; absent means `{}`.
    #[serde(rename = "eventJSON")]
    #[schemars(schema_with = "event")]
    event_json: Option<String>,
    /// 0 runs nothing; above 0 runs once; a higher value later runs it again.
    #[serde(default)]
    #[schemars(range(min = 0))]
    run_id: i64,
}

fn event(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "string",
        "nullable": true,
        "maxLength": Core::EVENT_BYTES_MAX,
        "x-kubernetes-validations": rules(&[(
            &format!("size(bytes(self)) <= {}", Core::EVENT_BYTES_MAX),
            "eventJSON is longer than the limit event_bytes",
        )]),
    })
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
enum JobPhase {
    #[default]
    Pending,
    Running,
    Succeeded,
    Failed,
    Skipped,
}

/// What is seen of a job; written by sless.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FunctionJobStatus {
    /// Where it is on its way.
    #[serde(default)]
    phase: JobPhase,
    /// The run that the phase speaks of.
    #[serde(default)]
    run_id: i64,
    /// The generation of the spec that this status speaks of.
    #[serde(default)]
    observed_generation: i64,
    /// When the run began.
    #[schemars(schema_with = "schema::optional_time")]
    started_at: Option<String>,
    /// When the run ended.
    #[schemars(schema_with = "schema::optional_time")]
    finished_at: Option<String>,
    /// A machine word where the run failed or waits.
    reason: Option<String>,
    /// A sentence.
    message: Option<String>,
    /// What the handler returned, as JSON text of bounded length.
    result: Option<String>,
    /// Conditions: `Complete`.
    #[schemars(schema_with = "schema::conditions")]
    conditions: Option<Vec<Condition>>,
}
