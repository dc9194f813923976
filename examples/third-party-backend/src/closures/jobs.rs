//! Jobs.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use http::{Method, Request, header::CONTENT_TYPE};
use jiff::Timestamp;
use sless_core::{
    Body, ErrorKind, Failure, JobId, JobRun, Receipt, Result, RunStatus, collect_bytes, reason,
};
use tokio::task::JoinSet;

use super::{BACKEND, Call, Function, Shared, lock, log::Log};

/// A job, with all its runs. Dropping it ends them.
pub(crate) struct Job {
    pub(crate) log: Arc<Log>,
    runs: BTreeMap<i64, Arc<Mutex<RunStatus>>>,
    tasks: JoinSet<()>,
}

/// Finds a run, or begins it: under the lock, so that it begins once.
pub(crate) fn run(shared: &Arc<Shared>, run: &JobRun) -> Result<RunStatus> {
    let found = shared.function(&run.workload)?;
    let mut jobs = lock(&shared.jobs);
    let job = jobs.entry(run.job.clone()).or_insert_with(|| Job {
        log: Log::new(shared.limits.log_lines),
        runs: BTreeMap::new(),
        tasks: JoinSet::new(),
    });
    if let Some(known) = job.runs.get(&run.run_id) {
        return Ok(lock(known).clone());
    }
    let begun = RunStatus::running(Timestamp::now());
    let interrupted = Failure::new(reason::INTERRUPTED, "the run was cut off");
    // Somebody saw it begin, and nothing of it is here: it went with an earlier process.
    let found = if run.began { Err(interrupted) } else { found };
    let status = match found {
        Err(failure) => begun.finished(Timestamp::now(), Err(failure)),
        Ok(function) => {
            let (run, log) = (run.clone(), job.log.clone());
            let (kept, changes) = (Arc::new(Mutex::new(begun.clone())), shared.changes.clone());
            job.runs.insert(run.run_id, kept.clone());
            job.tasks.spawn(async move {
                let outcome = outcome(function, &run, log).await;
                let ended = lock(&kept).clone().finished(Timestamp::now(), outcome);
                *lock(&kept) = ended;
                changes.notify(run.job.key());
            });
            return Ok(begun);
        }
    };
    job.runs
        .insert(run.run_id, Arc::new(Mutex::new(status.clone())));
    Ok(status)
}

async fn outcome(function: Function, run: &JobRun, log: Arc<Log>) -> Result<String, Failure> {
    let mut request = Request::new(Body::from(run.event.clone()));
    *request.method_mut() = Method::POST;
    let json = http::HeaderValue::from_static("application/json");
    request.headers_mut().insert(CONTENT_TYPE, json);
    let id: Arc<str> = format!("{}-{}", run.job.name, run.run_id).into();
    let call = Call {
        request,
        request_id: id.clone(),
        env: Arc::new(run.workload.env.clone()),
        log: Arc::new(move |source, text| log.write(source, Some(&id), text)),
    };
    let work = async {
        let answer = function(call).await.map_err(|(kind, message)| {
            Failure::new(reason::HANDLER_ERROR, format!("{kind}: {message}"))
        })?;
        let body = answer.into_body().into_stream();
        let bytes = collect_bytes(body, "result_bytes", RunStatus::RESULT_BYTES_MAX).await;
        let bytes = bytes.map_err(|error| {
            let limit = error.kind() == ErrorKind::LimitExceeded;
            let word = if limit {
                "limit_result_bytes"
            } else {
                reason::HANDLER_ERROR
            };
            Failure::new(word, error.message().to_owned())
        })?;
        String::from_utf8(bytes.to_vec())
            .map_err(|_| Failure::new(reason::HANDLER_ERROR, "the result is not a text in UTF-8"))
    };
    tokio::time::timeout(run.timeout, work)
        .await
        .unwrap_or_else(|_| {
            let seconds = run.timeout.as_secs_f32();
            Err(Failure::new(
                reason::TIMEOUT,
                format!("the run took longer than {seconds} s"),
            ))
        })
}

pub(crate) async fn remove(shared: &Shared, job: &JobId) -> Result<Receipt> {
    let mut receipt = Receipt::default();
    let Some(mut removed) = lock(&shared.jobs).remove(job) else {
        return Ok(receipt);
    };
    for run in removed.runs.keys() {
        receipt.add("run", format!("{job} {run}"), BACKEND);
    }
    removed.tasks.shutdown().await;
    removed.log.close();
    Ok(receipt)
}
