//! Functions.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    Env, FunctionVerdict,
    field::{Field, not_null},
};

/// A function to create: `POST /v1/namespaces/{ns}/functions`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateFunction {
    /// A DNS label of at most 63 characters, unique among the functions of its namespace.
    pub name: String,
    /// The language and its version: `python3.11` or `nodejs20`.
    pub runtime: String,
    /// `module.function`; `handler.handle` where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<String>,
    /// Environment variables. Their order means nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<Env>,
    /// How many copies run: left out means one, 0 means off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// The most copies, 1 to 1,000: above `replicas`, some are added while more calls are under way
    /// than those take. Left out, none are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_replicas: Option<u32>,
    /// How long one call may take, in seconds; 60 where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u32>,
    /// The memory of one copy, as a quantity such as `256Mi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// The processor share of one copy, as a quantity such as `500m` or `2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// How many calls one copy takes at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// How long without a call until the function goes to sleep, in seconds: left out means the
    /// server's default, 0 means never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_seconds: Option<u32>,
}

/// A change to a function: `PATCH /v1/namespaces/{ns}/functions/{name}`.
///
/// A field that is left out keeps its value; `null` brings the default back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PatchFunction {
    /// Another language or version. Not nullable.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "not_null"
    )]
    pub runtime: Option<String>,
    /// Another entrypoint.
    #[serde(default, skip_serializing_if = "Field::is_absent")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub entrypoint: Field<String>,
    /// Replaces all environment variables.
    #[serde(default, skip_serializing_if = "Field::is_absent")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Env>))]
    pub env: Field<Env>,
    /// How many copies run.
    #[serde(default, skip_serializing_if = "Field::is_absent")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u32>))]
    pub replicas: Field<u32>,
    /// The most copies.
    #[serde(default, skip_serializing_if = "Field::is_absent")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u32>))]
    pub max_replicas: Field<u32>,
    /// How long one call may take, in seconds.
    #[serde(default, skip_serializing_if = "Field::is_absent")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u32>))]
    pub timeout_seconds: Field<u32>,
    /// The memory of one copy.
    #[serde(default, skip_serializing_if = "Field::is_absent")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub memory: Field<String>,
    /// The processor share of one copy.
    #[serde(default, skip_serializing_if = "Field::is_absent")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub cpu: Field<String>,
    /// How many calls one copy takes at once.
    #[serde(default, skip_serializing_if = "Field::is_absent")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u32>))]
    pub concurrency: Field<u32>,
    /// How long without a call until it goes to sleep, in seconds.
    #[serde(default, skip_serializing_if = "Field::is_absent")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u32>))]
    pub idle_seconds: Field<u32>,
}

/// How far a function is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub enum FunctionPhase {
    /// Nothing is uploaded yet, or nobody has looked yet.
    #[default]
    Pending,
    /// Its code is being built or rolled out.
    Building,
    /// It answers calls, or wakes for the next one.
    Ready,
    /// It cannot run; `reason` and `message` say why.
    Failed,
    /// It is off: `replicas` is 0 or its trigger is disabled.
    Stopped,
}

/// A function as the server sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The language and its version.
    pub runtime: String,
    /// `module.function`.
    pub entrypoint: String,
    /// Environment variables.
    pub env: Env,
    /// How many copies were asked for; null means one.
    pub replicas: Option<u32>,
    /// The most copies that calls under way may lead to; null means that none are added.
    #[serde(default)]
    pub max_replicas: Option<u32>,
    /// How long one call may take, in seconds.
    pub timeout_seconds: u32,
    /// The memory of one copy; null where none was given.
    pub memory: Option<String>,
    /// The processor share of one copy; null where none was given.
    pub cpu: Option<String>,
    /// How many calls one copy takes at once.
    pub concurrency: u32,
    /// How long without a call until it goes to sleep, in seconds; null means the server's default,
    /// 0 means never.
    #[serde(default)]
    pub idle_seconds: Option<u32>,
    /// How far it is.
    pub phase: FunctionPhase,
    /// One word for the state, such as `install_failed`; null where the phase says all.
    pub reason: Option<String>,
    /// A sentence, and where a build failed the end of its log.
    pub message: Option<String>,
    /// The digest of the uploaded code; null before the first upload.
    pub code_sha256: Option<String>,
    /// The build context in storage; null before the first upload.
    pub s3_key: Option<String>,
    /// Where it answers.
    pub url: String,
    /// The image or artifact that runs; null before the first build.
    pub image: Option<String>,
    /// When its code was last built.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub last_built_at: Option<Timestamp>,
    /// How many copies answer now.
    pub ready_replicas: u32,
    /// What the validator said of the code; null before the first upload, and where nobody is asked.
    #[serde(default)]
    pub verdict: Option<FunctionVerdict>,
    /// When it was created.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::from_json;

    #[test]
    fn a_patch_tells_absent_from_null() {
        let absent: PatchFunction = from_json(b"{}").expect("empty");
        let null: PatchFunction = from_json(br#"{"replicas": null}"#).expect("null");
        let zero: PatchFunction = from_json(br#"{"replicas": 0}"#).expect("zero");
        assert_eq!(absent.replicas, Field::Absent);
        assert_eq!(null.replicas, Field::Null);
        assert_eq!(zero.replicas, Field::Value(0));
        for (patch, text) in [
            (absent, "{}"),
            (null, r#"{"replicas":null}"#),
            (zero, r#"{"replicas":0}"#),
        ] {
            assert_eq!(serde_json::to_string(&patch).expect("json"), text);
        }
    }

    #[test]
    fn a_patch_refuses_null_where_nothing_could_come_back() {
        let error = from_json::<PatchFunction>(br#"{"runtime": null}"#).expect_err("null");
        assert_eq!(error.field(), "runtime");
    }
}
