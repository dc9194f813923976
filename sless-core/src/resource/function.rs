use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Condition, Metadata, meta::in_range};
use crate::{Artifact, Digest, Entrypoint, Error, Quantity, Result, Runtime};

/// A function: code, and how it is to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Function {
    /// Name, namespace, identity.
    pub metadata: Metadata,
    /// What is wanted.
    pub spec: FunctionSpec,
    /// What is seen.
    #[serde(default)]
    pub status: FunctionStatus,
}

impl Function {
    /// A function that is to be created.
    pub fn new(metadata: Metadata, spec: FunctionSpec) -> Self {
        Self {
            metadata,
            spec,
            status: FunctionStatus::default(),
        }
    }
}

/// What is wanted of a function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FunctionSpec {
    /// The language and its version.
    pub runtime: Runtime,
    /// `module.function`.
    #[serde(default)]
    pub entrypoint: Entrypoint,
    /// The environment of the function.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The build context in storage; absent until code is uploaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3_key: Option<String>,
    /// The digest of the uploaded source; absent until code is uploaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code_sha256: Option<Digest>,
    /// How many copies: absent means 1, 0 means off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// The most copies: above `replicas`, some are added while more calls are under way than those
    /// take. Absent, or not above `replicas`, none are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_replicas: Option<u32>,
    /// How long one call may take, in seconds.
    #[serde(default = "default_timeout")]
    pub timeout_seconds: u32,
    /// The most memory of one copy, such as `256Mi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Quantity>,
    /// The processor share of one copy, such as `500m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Quantity>,
    /// Calls at once in one copy.
    #[serde(default = "default_concurrency")]
    pub concurrency: u32,
    /// How long without a call until a copy goes to sleep, in seconds; absent means the
    /// scheduler's default, 0 means never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_seconds: Option<u32>,
}

const fn default_timeout() -> u32 {
    60
}

const fn default_concurrency() -> u32 {
    1
}

impl FunctionSpec {
    /// The most copies of one function.
    pub const REPLICAS_MAX: u32 = 1000;
    /// The longest time of one call, in seconds.
    pub const TIMEOUT_SECONDS_MAX: u32 = 3600;
    /// The most calls at once in one copy.
    pub const CONCURRENCY_MAX: u32 = 1000;
    /// The most variables of `env`.
    pub const ENV_NAMES_MAX: usize = 1000;
    /// The most bytes of all names and values of `env`.
    pub const ENV_BYTES_MAX: usize = 64 * 1024;

    /// A spec with the defaults for all but the runtime.
    pub fn new(runtime: Runtime) -> Self {
        Self {
            runtime,
            entrypoint: Entrypoint::default(),
            env: BTreeMap::new(),
            s3_key: None,
            code_sha256: None,
            replicas: None,
            max_replicas: None,
            timeout_seconds: default_timeout(),
            memory: None,
            cpu: None,
            concurrency: default_concurrency(),
            idle_seconds: None,
        }
    }

    /// How many copies are wanted.
    pub fn replicas(&self) -> u32 {
        self.replicas.unwrap_or(1)
    }

    /// The most copies that calls under way may lead to; none where the function is off.
    pub fn max_replicas(&self) -> u32 {
        match self.replicas() {
            0 => 0,
            least => self.max_replicas.unwrap_or(least).max(least),
        }
    }

    /// Checks every field.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) naming the field.
    pub fn validate(&self) -> Result<()> {
        in_range(
            "replicas",
            self.replicas().into(),
            0..=Self::REPLICAS_MAX.into(),
            "",
        )?;
        if let Some(most) = self.max_replicas {
            let most_of_all = 1..=Self::REPLICAS_MAX.into();
            in_range("max_replicas", most.into(), most_of_all, "")?;
        }
        let timeout = 1..=Self::TIMEOUT_SECONDS_MAX.into();
        in_range(
            "timeout_seconds",
            self.timeout_seconds.into(),
            timeout,
            "seconds",
        )?;
        let concurrency = 1..=Self::CONCURRENCY_MAX.into();
        in_range(
            "concurrency",
            self.concurrency.into(),
            concurrency,
            "calls at once",
        )?;
        validate_env(&self.env)
    }
}

fn validate_env(env: &BTreeMap<String, String>) -> Result<()> {
    if env.len() > FunctionSpec::ENV_NAMES_MAX {
        return Err(Error::limit(
            "env_names",
            FunctionSpec::ENV_NAMES_MAX,
            "variables",
        ));
    }
    let mut bytes = 0;
    for (name, value) in env {
        let mut characters = name.chars();
        let right = characters
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
            && characters.all(|next| next.is_ascii_alphanumeric() || next == '_');
        if !right {
            return Err(Error::invalid(format!(
                "env name {name:?}: expected letters, digits and \"_\", not beginning with a digit"
            ))
            .with_reason("env_invalid"));
        }
        if name.starts_with("SLESS_") {
            return Err(
                Error::invalid(format!("env name {name:?}: SLESS_ is reserved"))
                    .with_reason("env_reserved"),
            );
        }
        if value.contains('\0') {
            return Err(
                Error::invalid(format!("env value of {name:?} holds a NUL character"))
                    .with_reason("env_invalid"),
            );
        }
        bytes += name.len() + value.len();
    }
    if bytes > FunctionSpec::ENV_BYTES_MAX {
        return Err(Error::limit(
            "env_bytes",
            FunctionSpec::ENV_BYTES_MAX,
            "bytes",
        ));
    }
    Ok(())
}

/// Where a function is on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FunctionPhase {
    /// Nothing has been done yet, or code is missing.
    #[default]
    Pending,
    /// The code is being built.
    Building,
    /// The wanted version answers.
    Ready,
    /// The wanted version cannot run; an earlier one may still answer.
    Failed,
    /// It is off, by `replicas: 0` or by a disabled http trigger.
    Stopped,
}

impl FunctionPhase {
    /// The phase as it stands in answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Building => "Building",
            Self::Ready => "Ready",
            Self::Failed => "Failed",
            Self::Stopped => "Stopped",
        }
    }
}

/// What is seen of a function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FunctionStatus {
    /// Where it is on its way.
    pub phase: FunctionPhase,
    /// A machine word for the phase, such as `install_failed`; empty when all is well.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// A sentence, with the end of a log where there is one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The artifact that was built last: an image by digest, or a folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact: Option<Artifact>,
    /// When the artifact was built.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_built_at: Option<Timestamp>,
    /// The generation of the spec that this status speaks of.
    pub observed_generation: i64,
    /// How many copies answer, or would on the next call where they sleep.
    pub ready_replicas: u32,
    /// The revision that answers now; absent where none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<Digest>,
    /// What the validator said of the code that was uploaded last. It speaks of the wanted code where
    /// its digest is that of the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
    /// Conditions: `Built`, `Ready`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A stored verdict of the validator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// The digest of the code that was looked at.
    pub digest: Digest,
    /// `safe`, `unsafe` or `skipped`.
    pub verdict: String,
    /// Why, where there is something to say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Who looked: the backend, and the model where there is one.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_out_of_range_are_named() {
        let mut spec = FunctionSpec::new(Runtime::Python311);
        assert!(spec.validate().is_ok());
        spec.timeout_seconds = 0;
        let error = spec.validate().expect_err("0 seconds");
        assert_eq!(
            error.message(),
            "timeout_seconds is 0: expected 1 to 3600 seconds"
        );
    }

    #[test]
    fn the_most_copies_are_never_fewer_than_those_wanted() {
        let mut spec = FunctionSpec::new(Runtime::Python311);
        assert_eq!(spec.max_replicas(), 1);
        spec.max_replicas = Some(5);
        assert_eq!(spec.max_replicas(), 5);
        spec.replicas = Some(7);
        assert_eq!(spec.max_replicas(), 7);
        spec.replicas = Some(0);
        assert_eq!(spec.max_replicas(), 0);
        spec.max_replicas = Some(0);
        let error = spec.validate().expect_err("no copies at most");
        assert!(error.message().starts_with("max_replicas is 0"), "{error}");
    }

    #[test]
    fn env_names_are_checked() {
        for (name, reason) in [
            ("", "env_invalid"),
            ("1A", "env_invalid"),
            ("A-B", "env_invalid"),
            ("SLESS_X", "env_reserved"),
        ] {
            let mut spec = FunctionSpec::new(Runtime::Python311);
            spec.env.insert(name.to_owned(), String::new());
            assert_eq!(spec.validate().expect_err(name).reason(), reason);
        }
    }

    #[test]
    fn a_minimal_spec_has_the_contracts_defaults() {
        let spec: FunctionSpec =
            serde_json::from_str(r#"{"runtime":"python3.11"}"#).expect("minimal");
        assert_eq!(spec, FunctionSpec::new(Runtime::Python311));
        assert_eq!(spec.timeout_seconds, 60);
        assert_eq!(spec.entrypoint.to_string(), "handler.handle");
    }
}
