use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Condition, Metadata};
use crate::{Error, Name, Result};

/// One run of a function with a given event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionJob {
    /// Name, namespace, identity.
    pub metadata: Metadata,
    /// What is wanted.
    pub spec: JobSpec,
    /// What is seen.
    #[serde(default)]
    pub status: JobStatus,
}

impl FunctionJob {
    /// A job that is to be created.
    pub fn new(metadata: Metadata, spec: JobSpec) -> Self {
        Self {
            metadata,
            spec,
            status: JobStatus::default(),
        }
    }
}

/// What is wanted of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobSpec {
    /// The function to run, in the same namespace.
    pub function_ref: Name,
    /// The event, as JSON text; absent means `{}`.
    #[serde(default, rename = "eventJSON", skip_serializing_if = "Option::is_none")]
    pub event_json: Option<String>,
    /// 0 runs nothing; above 0 runs once; a higher value later runs it again.
    #[serde(default)]
    pub run_id: i64,
}

impl JobSpec {
    /// The longest event, in bytes: escaped and with all else it fits into one object of etcd.
    pub const EVENT_BYTES_MAX: usize = 256 * 1024;

    /// A job that runs this function once.
    pub const fn new(function_ref: Name) -> Self {
        Self {
            function_ref,
            event_json: None,
            run_id: 1,
        }
    }

    /// The event's JSON text.
    pub fn event(&self) -> &str {
        self.event_json.as_deref().unwrap_or("{}")
    }

    /// Checks every field.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) naming the field.
    pub fn validate(&self) -> Result<()> {
        if self.run_id < 0 {
            return Err(
                Error::invalid(format!("run_id is {}: expected 0 or more", self.run_id))
                    .with_reason("field_out_of_range"),
            );
        }
        if self.event().len() > Self::EVENT_BYTES_MAX {
            return Err(Error::limit("event_bytes", Self::EVENT_BYTES_MAX, "bytes"));
        }
        serde_json::from_str::<serde::de::IgnoredAny>(self.event()).map_err(|error| {
            Error::invalid(format!("event_json is not JSON: {error}")).with_reason("field_invalid")
        })?;
        Ok(())
    }
}

/// Where a job is on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum JobPhase {
    /// It waits: for its function, or for a place.
    #[default]
    Pending,
    /// It runs.
    Running,
    /// The handler returned.
    Succeeded,
    /// The handler raised, was stopped, or could not be started.
    Failed,
    /// `runId` is 0: nothing is to run.
    Skipped,
}

impl JobPhase {
    /// The phase as it stands in answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Skipped => "Skipped",
        }
    }

    /// Whether this is the end of a run.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Skipped)
    }
}

/// What is seen of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    /// Where it is on its way.
    pub phase: JobPhase,
    /// The run that the phase speaks of.
    pub run_id: i64,
    /// The generation of the spec that this status speaks of.
    pub observed_generation: i64,
    /// When the run began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When the run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
    /// A machine word where the run failed or waits.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// A sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What the handler returned, as JSON text of bounded length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Conditions: `Complete`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_is_not_json_is_refused() {
        let mut spec = JobSpec::new(Name::new("f").expect("a label"));
        assert!(spec.validate().is_ok());
        spec.event_json = Some("{".to_owned());
        assert!(
            spec.validate()
                .expect_err("cut")
                .message()
                .starts_with("event_json is not JSON")
        );
    }

    #[test]
    fn the_run_defaults_to_none() {
        let spec: JobSpec = serde_json::from_str(r#"{"functionRef":"f"}"#).expect("minimal");
        assert_eq!(spec.run_id, 0);
    }
}
