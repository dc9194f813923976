use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sless_core::{Entrypoint, FunctionSpec as Core};

use super::schema::{self, Column, Condition, rules};

/// What `kubectl get` shows: the name, its type and where it is; `wide` where it is long.
pub(super) const COLUMNS: &[Column] = &[
    ("Runtime", "string", ".spec.runtime", false),
    ("Phase", "string", ".status.phase", false),
    ("Ready", "integer", ".status.readyReplicas", false),
    ("Reason", "string", ".status.reason", false),
    ("Built", "date", ".status.lastBuiltAt", false),
    ("Age", "date", ".metadata.creationTimestamp", false),
    ("Message", "string", ".status.message", true),
];

/// What is wanted of a function.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "sless.io",
    version = "v1alpha1",
    kind = "Function",
    namespaced,
    status = "FunctionStatus",
    doc = "A function: code, and how it is to run.",
    shortname = "fn",
    category = "sless"
)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FunctionSpec {
    /// The language and its version.
    runtime: Runtime,
    /// `module.function`.
    #[serde(default = "entrypoint")]
    #[schemars(
        length(max = Entrypoint::BYTES),
        regex(pattern = r"^([A-Za-z_][A-Za-z0-9_-]*\.)+[A-Za-z_][A-Za-z0-9_]*$")
    )]
    entrypoint: String,
    /// The environment of the function. Names are letters, digits and `_`, do not begin with a digit, and
    /// not with `SLESS_`.
    #[serde(default)]
    #[schemars(
        extend("maxProperties" = Core::ENV_NAMES_MAX),
        extend("x-kubernetes-validations" = rules(&[
            ("self.all(name, name.matches('^[A-Za-z_][A-Za-z0-9_]*$'))",
                "env names are letters, digits and \"_\", not beginning with a digit"),
            ("self.all(name, !name.startsWith('SLESS_'))",
                "env names that begin with SLESS_ are reserved"),
        ]))
    )]
    env: BTreeMap<String, EnvValue>,
    /// The build context in storage; absent until code is uploaded.
    s3_key: Option<String>,
    /// The digest of the uploaded source; absent until code is uploaded.
    #[schemars(schema_with = "schema::optional_digest")]
    code_sha256: Option<String>,
    /// How many copies: absent means 1, 0 means off.
    #[schemars(range(min = 0, max = Core::REPLICAS_MAX))]
    replicas: Option<i32>,
    /// The most copies: above `replicas`, some are added while more calls are under way than those take.
    /// Absent, or not above `replicas`, none are.
    #[schemars(range(min = 1, max = Core::REPLICAS_MAX))]
    max_replicas: Option<i32>,
    /// How long one call may take, in seconds.
    #[serde(default = "timeout_seconds")]
    #[schemars(range(min = 1, max = Core::TIMEOUT_SECONDS_MAX))]
    timeout_seconds: i32,
    /// The most memory of one copy, such as `256Mi`.
    #[schemars(schema_with = "schema::optional_quantity")]
    memory: Option<String>,
    /// The processor share of one copy, such as `500m`.
    #[schemars(schema_with = "schema::optional_quantity")]
    cpu: Option<String>,
    /// Calls at once in one copy.
    #[serde(default = "concurrency")]
    #[schemars(range(min = 1, max = Core::CONCURRENCY_MAX))]
    concurrency: i32,
    /// How long without a call until a copy goes to sleep, in seconds; absent means the scheduler's
    /// default, 0 means never.
    #[schemars(range(min = 0, max = u32::MAX))]
    idle_seconds: Option<i64>,
}

fn entrypoint() -> String {
    Entrypoint::default().to_string()
}

fn timeout_seconds() -> i32 {
    60
}

fn concurrency() -> i32 {
    1
}

/// The value of a variable of the environment: any text without a NUL character.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
struct EnvValue(
    #[schemars(length(max = Core::ENV_BYTES_MAX), regex(pattern = r"^[^\x00]*$"))] String,
);

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
enum Runtime {
    #[serde(rename = "python3.11")]
    Python311,
    #[serde(rename = "nodejs20")]
    NodeJs20,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
enum FunctionPhase {
    #[default]
    Pending,
    Building,
    Ready,
    Failed,
    Stopped,
}

/// What is seen of a function; written by sless.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FunctionStatus {
    /// Where it is on its way.
    #[serde(default)]
    phase: FunctionPhase,
    /// A machine word for the phase, such as `install_failed`; absent when all is well.
    reason: Option<String>,
    /// A sentence, with the end of a log where there is one.
    message: Option<String>,
    /// The artifact that was built last.
    artifact: Option<Artifact>,
    /// When the artifact was built.
    #[schemars(schema_with = "schema::optional_time")]
    last_built_at: Option<String>,
    /// The generation of the spec that this status speaks of.
    #[serde(default)]
    observed_generation: i64,
    /// How many copies answer, or would on the next call where they sleep.
    #[serde(default)]
    ready_replicas: i64,
    /// The revision that answers now; absent where none does.
    serving: Option<String>,
    /// What the validator said of the code of `codeSha256`.
    verification: Option<Verification>,
    /// Conditions: `Built`, `Ready`.
    #[schemars(schema_with = "schema::conditions")]
    conditions: Option<Vec<Condition>>,
}

/// What a build made: an image by digest, or a folder.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
struct Artifact {
    /// The kind: `image`, `folder` or `memory`.
    kind: String,
    /// Where it is: an image by digest, a path.
    reference: String,
    /// The digest of its content.
    digest: String,
}

/// A stored verdict of the validator.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
struct Verification {
    /// The digest of the code that was looked at.
    digest: String,
    /// `safe`, `unsafe` or `skipped`.
    verdict: String,
    /// Why, where there is something to say.
    reason: Option<String>,
    /// Who looked: the backend, and the model where there is one.
    by: String,
    /// When.
    #[schemars(schema_with = "schema::time")]
    at: String,
}
