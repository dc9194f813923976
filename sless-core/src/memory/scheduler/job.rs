//! Runs of jobs.

use std::{collections::BTreeMap, sync::Arc};

use http::{Method, Request, Response, header::CONTENT_TYPE};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    super::{BACKEND, lock, log::LogRing},
    Shared,
    handler::{self, Handler, HandlerContext, HandlerError},
    workload::handler_missing,
};
use crate::{
    Body, Error, ErrorKind, Failure, JobRun, LogSource, Result, RunPhase, RunStatus,
    clock::timeout, reason,
};

/// One job, with all its runs.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) log: Arc<LogRing>,
    runs: BTreeMap<i64, Run>,
}

#[derive(Debug)]
struct Run {
    status: RunStatus,
    stop: CancellationToken,
    /// Closed when the run's task has ended.
    ended: watch::Receiver<()>,
}

/// What the task of a run holds.
pub(super) struct Work {
    handler: Arc<dyn Handler>,
    log: Arc<LogRing>,
    stop: CancellationToken,
    _alive: watch::Sender<()>,
}

impl Job {
    pub(super) fn run_ids(&self) -> impl Iterator<Item = i64> {
        self.runs.keys().copied()
    }

    /// Ends what runs, and waits until it has ended.
    pub(super) async fn stopped(mut self) {
        for run in self.runs.values() {
            run.stop.cancel();
        }
        for run in self.runs.values_mut() {
            while run.ended.changed().await.is_ok() {}
        }
        self.log.close();
    }

    /// Ends, in the records, what a crash cut off.
    pub(super) fn interrupt(&mut self, at: Timestamp) {
        for run in self
            .runs
            .values_mut()
            .filter(|run| !run.status.phase.is_terminal())
        {
            let failure = Failure::new(reason::INTERRUPTED, "the run was cut off");
            run.status = run.status.clone().finished(at, Err(failure));
        }
    }
}

impl Shared {
    /// Finds a run, or makes it and says what its task has to do.
    pub(super) fn begin_run(&self, run: &JobRun) -> Result<(RunStatus, Option<Work>)> {
        let mut jobs = lock(&self.jobs);
        if let Some(found) = jobs.get(&run.job).and_then(|job| job.runs.get(&run.run_id)) {
            return Ok((found.status.clone(), None));
        }
        let all = jobs.values().flat_map(|job| job.runs.values());
        let waiting = all
            .filter(|run| run.status.phase == RunPhase::Pending)
            .count();
        if waiting >= self.config.jobs_waiting {
            return Err(Error::new(
                ErrorKind::Overloaded,
                format!(
                    "limit jobs_waiting of {} runs reached",
                    self.config.jobs_waiting
                ),
            )
            .with_reason("limit_jobs_waiting")
            .during("scheduler.run_job")
            .on(&run.job)
            .at(BACKEND));
        }
        let now = self.clock.now();
        let job = jobs.entry(run.job.clone()).or_insert_with(|| Job {
            log: self.new_log(),
            runs: BTreeMap::new(),
        });
        let (alive, ended) = watch::channel(());
        let stop = CancellationToken::new();
        let (status, work) = match self.handler(&run.workload) {
            _ if run.began => {
                let failure = Failure::new(reason::INTERRUPTED, "nothing is left of the run");
                (RunStatus::pending().finished(now, Err(failure)), None)
            }
            Some(handler) => {
                let log = Arc::clone(&job.log);
                let work = Work {
                    handler,
                    log,
                    stop: stop.clone(),
                    _alive: alive,
                };
                (RunStatus::pending(), Some(work))
            }
            None => {
                let failure = handler_missing(&run.workload);
                job.log
                    .write(now, LogSource::System, None, &failure.message);
                (RunStatus::pending().finished(now, Err(failure)), None)
            }
        };
        job.runs.insert(
            run.run_id,
            Run {
                status: status.clone(),
                stop,
                ended,
            },
        );
        Ok((status, work))
    }

    /// The task of a run.
    pub(super) async fn run(&self, run: &JobRun, work: Work) {
        let whole = async {
            // The semaphore is never closed.
            let _slot = self.job_slots.acquire().await;
            let begun = RunStatus::running(self.clock.now());
            self.set(run, begun.clone());
            let limit = run.timeout.as_millis();
            let outcome = timeout(&*self.clock, run.timeout, self.handle(run, &work)).await;
            let outcome = outcome.unwrap_or_else(|_| {
                let message = format!("the run took longer than {limit} ms");
                Err(Failure::new(reason::TIMEOUT, message))
            });
            let outcome = outcome.map_err(|failure| failure.with_log(&work.log.text()));
            self.set(run, begun.finished(self.clock.now(), outcome));
        };
        // A run that is stopped was removed: nobody asks for its status any more.
        work.stop.run_until_cancelled(whole).await;
    }

    fn set(&self, run: &JobRun, status: RunStatus) {
        let mut jobs = lock(&self.jobs);
        let found = jobs
            .get_mut(&run.job)
            .and_then(|job| job.runs.get_mut(&run.run_id));
        if let Some(found) = found {
            found.status = status;
        }
        drop(jobs);
        self.changes.notify(run.job.key());
    }

    async fn handle(&self, run: &JobRun, work: &Work) -> Result<String, Failure> {
        let mut request = Request::new(Body::from(run.event.clone()));
        *request.method_mut() = Method::POST;
        let json = http::HeaderValue::from_static("application/json");
        request.headers_mut().insert(CONTENT_TYPE, json);
        let context = HandlerContext {
            function: run.workload.function.clone(),
            artifact: run.workload.artifact.clone(),
            env: Arc::new(run.workload.env.clone()),
            request_id: format!("{}-{}", run.job.name, run.run_id).into(),
            timeout: run.timeout,
            run_id: Some(run.run_id),
            clock: Arc::clone(&self.clock),
            log: Arc::clone(&work.log),
            written: None,
        };
        let answer = handler::run(&*work.handler, request, context).await;
        result_of(answer.map_err(|error| failed(&error))?).await
    }
}

fn failed(error: &HandlerError) -> Failure {
    Failure::new(reason::HANDLER_ERROR, error.to_string())
}

/// The result as JSON text: a body that is JSON as it stands, any other as a JSON string.
async fn result_of(response: Response<Body>) -> Result<String, Failure> {
    let status = response.status();
    if status.as_u16() >= 400 {
        let message = format!("the handler returned status {}", status.as_u16());
        return Err(failed(&HandlerError::new("Status", message)));
    }
    let most = RunStatus::RESULT_BYTES_MAX;
    let body = response.into_body().into_stream();
    let bytes = crate::collect_bytes(body, "result_bytes", most)
        .await
        .map_err(|error| {
            let word = match error.kind() {
                ErrorKind::LimitExceeded => "limit_result_bytes",
                _ => reason::HANDLER_ERROR,
            };
            Failure::new(word, error.message())
        })?;
    if bytes.is_empty() {
        return Ok("null".to_owned());
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok() {
        return Ok(text);
    }
    let quoted = serde_json::Value::String(text).to_string();
    if quoted.len() > most {
        let limit = Error::limit("result_bytes", most, "bytes");
        return Err(Failure::new("limit_result_bytes", limit.message()));
    }
    Ok(quoted)
}
