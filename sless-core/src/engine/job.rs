//! The reconciler of jobs: run once, tell; or take apart.

use std::time::Duration;

use futures::TryStreamExt as _;

use super::{Engine, function::workload, points};
use crate::{
    CatalogExt as _, Function, FunctionJob, FunctionPhase, Invocation, JobId, JobPhase, JobRun,
    LogOptions, LogSource, LogTail, LogTarget, Origin, Receipt, Result, RunPhase, RunStatus, clock,
    reason,
    resource::{Condition, JobStatus, ObjectKey, Uid},
};

const COMPLETE: &str = "Complete";

/// How soon to look again at a run, should its hint be lost.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

/// How many of a run's last lines are read for its record, of which as much is kept as fits.
const RUN_LOG_LINES: usize = 200;

/// How long the record of a run waits for them.
const RUN_LOG_WAIT: Duration = Duration::from_secs(2);

impl Engine {
    /// One step of a job towards what is wanted of it. Answers when to look again.
    pub(super) async fn reconcile_job(&self, key: &ObjectKey) -> Result<Option<Duration>> {
        let found = self
            .backends
            .catalog
            .find(&key.namespace, &key.name)
            .await?;
        let Some(job) = found else {
            self.index.remove(key);
            return Ok(None);
        };
        let job: FunctionJob = job;
        if job.metadata.is_deleting() {
            self.index.remove(key);
            return self.take_job_apart(job).await;
        }
        self.index.put(&job.clone().into());
        let job = self.with_finalizer(job).await?;
        let mut status = job.status.clone();
        status.observed_generation = job.metadata.generation;
        let next = self.run(&job, &mut status).await?;
        if status != job.status {
            if status.phase.is_terminal() && status.run_id > 0 {
                self.record_run(&job, &status).await;
            }
            let changed = FunctionJob { status, ..job };
            points::JOB_BEFORE.pass();
            self.backends.catalog.update_status(changed.into()).await?;
            points::JOB_AFTER.pass();
        }
        Ok(next)
    }

    async fn run(&self, job: &FunctionJob, status: &mut JobStatus) -> Result<Option<Duration>> {
        let now = self.backends.clock.now();
        let wanted = job.spec.run_id;
        if wanted < status.run_id || (wanted == status.run_id && status.phase.is_terminal()) {
            return Ok(None);
        }
        if wanted == 0 {
            let message = "run_id is 0: nothing is to run";
            *status = JobStatus {
                phase: JobPhase::Skipped,
                message: message.to_owned(),
                ..cleared(status)
            };
            Condition::set(
                &mut status.conditions,
                COMPLETE,
                Some(true),
                "skipped",
                message,
                now,
            );
            return Ok(None);
        }
        if wanted > status.run_id {
            *status = JobStatus {
                run_id: wanted,
                ..cleared(status)
            };
        }
        // A catalog refuses such a spec; one that others write to, too, may not have been able to.
        if status.phase != JobPhase::Running
            && let Err(error) = job.spec.validate()
        {
            let (word, message) = (error.reason(), error.message());
            *status = JobStatus {
                run_id: wanted,
                phase: JobPhase::Failed,
                finished_at: Some(now),
                reason: word.to_owned(),
                message: message.to_owned(),
                ..cleared(status)
            };
            let set = &mut status.conditions;
            Condition::set(set, COMPLETE, Some(true), word, message, now);
            return Ok(None);
        }
        let namespace = &job.metadata.namespace;
        let function: Option<Function> = self
            .backends
            .catalog
            .find(namespace, &job.spec.function_ref)
            .await?;
        let waits = match &function {
            None => Some((reason::FUNCTION_MISSING, "its function is not there")),
            Some(function) => match (&function.status.artifact, function.status.phase) {
                (Some(_), FunctionPhase::Ready | FunctionPhase::Stopped) => None,
                _ => Some((reason::FUNCTION_NOT_READY, "its function is not ready")),
            },
        };
        // A run that began goes on whatever becomes of its function meanwhile.
        let began = status.phase == JobPhase::Running;
        if let (Some((word, message)), false) = (waits, began) {
            word.clone_into(&mut status.reason);
            message.clone_into(&mut status.message);
            return Ok(None);
        }
        let Some(function) = function else {
            // Only its function says what a run is of: without it nobody could ask how it ends.
            let job = JobId::of(&job.metadata);
            self.backends.scheduler.remove_job(&job).await?;
            let (word, message) = (reason::FUNCTION_MISSING, "its function went during the run");
            status.phase = JobPhase::Failed;
            status.finished_at = Some(now);
            word.clone_into(&mut status.reason);
            message.clone_into(&mut status.message);
            let set = &mut status.conditions;
            Condition::set(set, COMPLETE, Some(true), word, message, now);
            return Ok(None);
        };
        let Some(artifact) = function.status.artifact.clone() else {
            return Ok(Some(LOOK_AGAIN));
        };
        let workload = workload(&function, artifact, &function.status)?;
        let run = JobRun {
            job: JobId::of(&job.metadata),
            run_id: wanted,
            timeout: workload.timeout,
            workload,
            event: job.spec.event().to_owned(),
            began,
        };
        let seen = self.backends.scheduler.run_job(&run).await?;
        observe(status, seen, now);
        Ok((!status.phase.is_terminal()).then_some(LOOK_AGAIN))
    }

    /// Puts an ended run into the log of calls.
    async fn record_run(&self, job: &FunctionJob, status: &JobStatus) {
        let (Some(started), Some(finished)) = (status.started_at, status.finished_at) else {
            return;
        };
        let failed = status.phase == JobPhase::Failed;
        let log_tail = self.run_log(&JobId::of(&job.metadata), started).await;
        self.recorder.put(Invocation {
            // The same run is the same record, however often it is seen to have ended.
            id: Uid::new(format!("{}-{}", job.metadata.uid, status.run_id)),
            request_id: format!("{}-{}", job.metadata.uid, status.run_id),
            namespace: job.metadata.namespace.clone(),
            function: job.spec.function_ref.clone(),
            origin: Origin::Job,
            cause: Some(job.metadata.name.clone()),
            caller: None,
            attempt: 1,
            started_at: started,
            duration: Duration::try_from(finished.duration_since(started)).unwrap_or_default(),
            status: if failed { 500 } else { 200 },
            error: failed.then(|| status.reason.clone()),
            request_bytes: job.spec.event().len() as u64,
            response_bytes: status
                .result
                .as_ref()
                .map_or(0, |result| result.len() as u64),
            log_tail: log_tail.text().map(str::to_owned),
        });
    }

    /// The end of what a run wrote, as far as it can be had at once.
    async fn run_log(&self, job: &JobId, started: jiff::Timestamp) -> LogTail {
        let tail = self.recorder.log_tail();
        if !tail.is_wanted() {
            return tail;
        }
        let options = LogOptions::default()
            .with_tail(RUN_LOG_LINES)
            .with_since(started);
        let target = LogTarget::Job(job.clone());
        let read = async {
            let mut text = String::new();
            let mut lines = self.backends.scheduler.logs(&target, &options).await?;
            while let Some(line) = lines.try_next().await? {
                if matches!(line.source, LogSource::Stdout | LogSource::Stderr) {
                    text.push_str(&line.text);
                    text.push('\n');
                }
            }
            Ok::<_, crate::Error>(text)
        };
        match clock::timeout(&*self.backends.clock, RUN_LOG_WAIT, read).await {
            Ok(Ok(text)) => tail.fill(&text),
            Ok(Err(error)) | Err(error) => {
                tracing::debug!(%job, error = %error.chain(), "the log of a run was not read");
            }
        }
        tail
    }

    async fn take_job_apart(&self, job: FunctionJob) -> Result<Option<Duration>> {
        let id = JobId::of(&job.metadata);
        let mut receipt = Receipt::default();
        let mut failed = None;
        receipt.merge_or_keep(self.backends.scheduler.remove_job(&id).await, &mut failed);
        let unfinished = receipt.is_unfinished();
        self.receipts.add(&id.uid, receipt);
        if let Some(error) = failed {
            return Err(error);
        }
        if unfinished {
            return Ok(Some(super::function::ENDING));
        }
        self.without_finalizer(job.into()).await?;
        self.receipts.close(&id.uid);
        Ok(None)
    }
}

/// A status that speaks of no run, with the conditions kept.
fn cleared(status: &JobStatus) -> JobStatus {
    JobStatus {
        observed_generation: status.observed_generation,
        conditions: status.conditions.clone(),
        ..JobStatus::default()
    }
}

/// Writes down what the scheduler says.
fn observe(status: &mut JobStatus, seen: RunStatus, now: jiff::Timestamp) {
    status.phase = match seen.phase {
        RunPhase::Pending => JobPhase::Pending,
        RunPhase::Running => JobPhase::Running,
        RunPhase::Succeeded => JobPhase::Succeeded,
        RunPhase::Failed => JobPhase::Failed,
    };
    status.started_at = seen.started_at;
    status.finished_at = seen.finished_at;
    status.result = seen.result;
    let failure = seen.failure.as_ref();
    status.reason = failure.map_or(String::new(), |failure| failure.reason.clone().into_owned());
    status.message = failure.map_or(String::new(), crate::Failure::text);
    let (holds, word) = match status.phase {
        JobPhase::Succeeded => (Some(true), "succeeded"),
        JobPhase::Failed => (Some(true), "failed"),
        _ => (Some(false), "under_way"),
    };
    Condition::set(&mut status.conditions, COMPLETE, holds, word, "", now);
}
