//! Jobs.

use sless_api::{CreateJob, Field, PatchJob};
use sless_core::{FunctionJob, JobPhase, JobSpec};
use sless_source::wire::field;

use super::filled;
use crate::error::ApiError;

/// What is wanted of a new job.
pub(crate) fn job_spec(request: CreateJob) -> Result<JobSpec, ApiError> {
    let mut spec = JobSpec::new(field("function_ref", &request.function_ref)?);
    spec.event_json = request.event_json;
    spec.run_id = request.run_id.unwrap_or(0);
    Ok(spec)
}

/// Applies a patch to what is wanted.
pub(crate) fn patch_job(patch: &PatchJob, spec: &mut JobSpec) {
    match &patch.event_json {
        Field::Absent => {}
        Field::Null => spec.event_json = None,
        Field::Value(event) => spec.event_json = Some(event.clone()),
    }
    spec.run_id = patch.run_id.unwrap_or(spec.run_id);
}

/// A job as it is answered.
pub(crate) fn job_view(job: FunctionJob) -> sless_api::Job {
    let FunctionJob {
        metadata,
        spec,
        status,
    } = job;
    // A status that speaks of an earlier run says nothing of the one that is wanted now.
    let current = status.run_id == spec.run_id || status.observed_generation == metadata.generation;
    let phase = if spec.run_id == 0 {
        JobPhase::Skipped
    } else if current {
        status.phase
    } else {
        JobPhase::Pending
    };
    let current = current && spec.run_id != 0;
    sless_api::Job {
        name: metadata.name.to_string(),
        namespace: metadata.namespace.to_string(),
        function_ref: spec.function_ref.to_string(),
        event_json: spec.event().to_owned(),
        run_id: spec.run_id,
        phase: match phase {
            JobPhase::Pending => sless_api::JobPhase::Pending,
            JobPhase::Running => sless_api::JobPhase::Running,
            JobPhase::Succeeded => sless_api::JobPhase::Succeeded,
            JobPhase::Failed => sless_api::JobPhase::Failed,
            JobPhase::Skipped => sless_api::JobPhase::Skipped,
        },
        reason: filled(&status.reason).filter(|_| current),
        result: status.result.filter(|_| current),
        message: filled(&status.message).filter(|_| current),
        started_at: status.started_at.filter(|_| current),
        finished_at: status.finished_at.filter(|_| current),
        created_at: metadata.created_at,
    }
}
