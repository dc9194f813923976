//! Jobs: each run of them once.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};
use sless_core::{
    Clock, Error, Failure, JobId, JobRun, LogSource, Receipt, Result, RunPhase, RunStatus, Uid,
    reason,
};
use sless_runtime::{CallContext, JobOutcome};
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Inner, crew, sink};
use crate::{
    error::BACKEND,
    points,
    records::{RecordKind, Records},
};

/// What is known of runs.
#[derive(Debug)]
pub(super) struct Jobs {
    runs: Mutex<HashMap<Uid, HashMap<i64, Run>>>,
    places: Semaphore,
    pub(super) tasks: TaskTracker,
}

#[derive(Clone, Debug)]
struct Run {
    status: RunStatus,
    cancel: CancellationToken,
}

#[derive(Serialize, Deserialize)]
struct Record {
    job: JobId,
    run_id: i64,
    status: RunStatus,
}

impl Jobs {
    /// Takes up the runs of a data folder. Those that were under way have been cut off, and nobody
    /// knows how far they came: they have failed.
    pub(super) async fn recall(
        records: &Records,
        clock: &dyn Clock,
        jobs_at_once: usize,
    ) -> Result<Self> {
        let mut runs: HashMap<Uid, HashMap<i64, Run>> = HashMap::new();
        for (key, record) in records.all::<Record>(RecordKind::Run).await? {
            let Record {
                job,
                run_id,
                mut status,
            } = record;
            if !status.phase.is_terminal() {
                let message = "the run was cut off when its machine or server went down";
                let failure = Failure::new(reason::INTERRUPTED, message);
                status = status.finished(clock.now(), Err(failure));
                let record = Record {
                    job: job.clone(),
                    run_id,
                    status: status.clone(),
                };
                points::INTERRUPT_BEFORE.pass();
                records.put(RecordKind::Run, &key, &record).await?;
                points::INTERRUPT_AFTER.pass();
            }
            let run = Run {
                status,
                cancel: CancellationToken::new(),
            };
            runs.entry(job.uid).or_default().insert(run_id, run);
        }
        let places = Semaphore::new(jobs_at_once.max(1));
        Ok(Self {
            runs: Mutex::new(runs),
            places,
            tasks: TaskTracker::new(),
        })
    }

    pub(super) fn knows(&self, job: &JobId) -> bool {
        self.knows_uid(&job.uid)
    }

    pub(super) fn knows_uid(&self, job: &Uid) -> bool {
        self.runs().contains_key(job)
    }

    /// All runs that are known.
    pub(super) fn all(&self) -> Vec<(Uid, i64)> {
        let runs = self.runs();
        let each = runs
            .iter()
            .flat_map(|(job, runs)| runs.keys().map(|run| (job.clone(), *run)));
        each.collect()
    }

    /// Takes note of where a run is, unless its job was removed.
    fn set(&self, job: &JobId, run_id: i64, status: RunStatus) -> bool {
        let mut runs = self.runs();
        let run = runs
            .get_mut(&job.uid)
            .and_then(|of_job| of_job.get_mut(&run_id));
        let found = run.map(|run| run.status = status);
        found.is_some()
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<Uid, HashMap<i64, Run>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    pub(super) async fn run_job(self: &Arc<Self>, run: &JobRun) -> Result<RunStatus> {
        let cancel = self.stop.child_token();
        let pin = {
            let mut runs = self.jobs.runs();
            let of_job = runs.entry(run.job.uid.clone()).or_default();
            if let Some(found) = of_job.get(&run.run_id) {
                return Ok(found.status.clone());
            }
            if run.began {
                let failure = Failure::new(reason::INTERRUPTED, "nothing is left of the run");
                return Ok(RunStatus::pending().finished(self.clock.now(), Err(failure)));
            }
            // From here on, also while it waits for its turn: what it runs from must not go meanwhile. If it
            // has gone already, another version serves, and the caller knows by now.
            let digest = run.workload.artifact.digest;
            let pin = self.artifacts.pin(digest);
            if !self.artifacts.is_there(&digest) {
                let message = "another version has taken the place of the one that was to run";
                return Err(Error::unavailable(message).at(BACKEND));
            }
            let status = RunStatus::pending();
            of_job.insert(
                run.run_id,
                Run {
                    status,
                    cancel: cancel.clone(),
                },
            );
            pin
        };
        let (inner, run) = (self.clone(), run.clone());
        let status = RunStatus::pending();
        self.jobs.tasks.spawn(async move {
            inner.run_once(&run, &cancel).await;
            drop(pin);
            inner.sweep_artifacts().await;
        });
        Ok(status)
    }

    async fn run_once(&self, run: &JobRun, cancel: &CancellationToken) {
        let ran = cancel.run_until_cancelled(async {
            // The semaphore is never closed, so there is always a permit in the end.
            let _place = self.jobs.places.acquire().await;
            let began = RunStatus::running(self.clock.now());
            // Before anything runs: after a crash it counts as begun, and is not run again.
            points::RUN_BEFORE.pass();
            if let Err(error) = self.write_run(run, &began).await {
                let failure = Failure::new(reason::BACKEND_UNAVAILABLE, error.message().to_owned());
                return began.finished(self.clock.now(), Err(failure));
            }
            points::RUN_AFTER.pass();
            let outcome = self.execute(run).await;
            began.finished(self.clock.now(), outcome)
        });
        // Cut off: its job was removed, or the scheduler shuts down, and then the next start finds
        // what was begun and says so.
        let Some(status) = ran.await else { return };
        points::END_BEFORE.pass();
        if let Err(error) = self.write_run(run, &status).await {
            let job = &run.job;
            tracing::error!(%job, error = %error.chain(), "the end of a run was not remembered");
        }
        points::END_AFTER.pass();
    }

    async fn write_run(&self, run: &JobRun, status: &RunStatus) -> Result<()> {
        if !self.jobs.set(&run.job, run.run_id, status.clone()) {
            return Ok(());
        }
        let key = key(&run.job, run.run_id);
        let record = Record {
            job: run.job.clone(),
            run_id: run.run_id,
            status: status.clone(),
        };
        self.records.put(RecordKind::Run, &key, &record).await?;
        self.changes.notify(run.job.key());
        Ok(())
    }

    async fn execute(&self, run: &JobRun) -> Result<String, Failure> {
        let mut config = self.host_config(&run.workload).await?;
        config.timeout = run.timeout;
        let log = self.logs.writer(&sink::job_log(&run.job));
        log.text(LogSource::System, format!("run {} begins", run.run_id));
        let context = CallContext::new(format!("{}-{}", run.job.uid, run.run_id));
        let event = bytes::Bytes::from(run.event.clone());
        let sink = Arc::new(sink::WorkerLog(log));
        let function = &run.workload.function.uid;
        let ended = tokio::select! {
            ended = sless_runtime::run_once(config, event, context, sink) => Ok(ended),
            failure = self.home_overflow(function) => Err(failure),
        };
        match ended {
            Ok(ended) => outcome(ended),
            Err(failure) => {
                self.clear_home(function).await;
                Err(failure)
            }
        }
    }

    pub(super) async fn remove_job(&self, job: &JobId) -> Result<Receipt> {
        let mut receipt = Receipt::default();
        let runs = self.jobs.runs().remove(&job.uid).unwrap_or_default();
        for (run_id, run) in runs {
            if run.status.phase == RunPhase::Running {
                receipt.add("process", format!("run {run_id}"), BACKEND);
            }
            run.cancel.cancel();
            self.records
                .remove(RecordKind::Run, &key(job, run_id))
                .await?;
            receipt.add("run", run_id.to_string(), BACKEND);
        }
        points::RUN_FORGOTTEN.pass();
        if self.logs.remove(&sink::job_log(job)).await? {
            receipt.add("log", job.to_string(), BACKEND);
        }
        Ok(receipt)
    }
}

fn key(job: &JobId, run_id: i64) -> String {
    format!("{}/{run_id}", job.uid)
}

/// What becomes of a run's outcome: JSON text, or why it failed.
fn outcome(outcome: JobOutcome) -> Result<String, Failure> {
    match outcome {
        JobOutcome::Succeeded {
            result,
            content_type,
        } => {
            let json = content_type
                .as_deref()
                .is_some_and(|kind| kind.starts_with("application/json"));
            let text = String::from_utf8(result.to_vec()).map_err(|_| {
                let message = "the handler returned bytes, which are no JSON text";
                Failure::new(reason::HANDLER_ERROR, message)
            })?;
            // Anything but JSON becomes a JSON string, so that a result is always JSON.
            let text = if json {
                text
            } else {
                serde_json::Value::String(text).to_string()
            };
            if text.len() > RunStatus::RESULT_BYTES_MAX {
                let limit = RunStatus::RESULT_BYTES_MAX;
                let message = format!("limit result_bytes of {limit} bytes exceeded");
                return Err(Failure::new("limit_result_bytes", message));
            }
            Ok(text)
        }
        JobOutcome::Failed { error, log_tail } => {
            let message = format!("{}: {}", error.kind, error.message);
            Err(Failure::new(reason::HANDLER_ERROR, message).with_log(&log_tail))
        }
        JobOutcome::TimedOut { after, log_tail } => {
            let message = format!("the run took longer than {} s", after.as_secs_f64());
            Err(Failure::new(reason::TIMEOUT, message).with_log(&log_tail))
        }
        JobOutcome::Died { message, log_tail } => {
            Err(Failure::new(reason::INTERRUPTED, message).with_log(&log_tail))
        }
        JobOutcome::NotStarted(error) => Err(crew::failure(&error)),
        _ => Err(Failure::new(
            reason::INTERRUPTED,
            "the run ended in an unknown way",
        )),
    }
}
