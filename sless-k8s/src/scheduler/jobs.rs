//! Runs of jobs: one Job each, with one pod, whose end is read out of the pod and written down on the Job.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Event, Pod},
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use sless_core::{
    Error, ErrorKind, Failure, JobId, JobRun, Receipt, Result, Retry, RunStatus, reason,
};

use super::{
    Inner, annotation,
    apply::left,
    cache::{JobEntry, PodView, RunView},
    failure::{self, Ended},
    manifest,
};
use crate::{
    error::{BACKEND, Fault},
    labels, names,
};

/// Runs of a job that are kept, with their logs.
const RUNS_KEPT: usize = 3;

impl Inner {
    pub(super) async fn run_job(&self, run: &JobRun) -> Result<RunStatus> {
        let done = match self.known_run(run).await? {
            Some((entry, view)) => self.look_at(run, &entry, &view).await,
            None if run.began => Ok(gone("nothing is left of the run")),
            None => self.begin_run(run).await,
        };
        done.map_err(|fault| Error::from(fault).on(&run.job))
    }

    /// The run, as it is known here, or as the cluster has it.
    async fn known_run(
        &self,
        run: &JobRun,
    ) -> Result<Option<(std::sync::Arc<JobEntry>, RunView)>, Fault> {
        let name = names::job(&run.job, run.run_id);
        let known = |entry: std::sync::Arc<JobEntry>| {
            let view = entry.runs().get(&name).cloned();
            view.map(|view| (entry, view))
        };
        if let Some(found) = self.cache.job(&run.job.uid).and_then(known) {
            return Ok(Some(found));
        }
        let api: Api<Job> = self.api(&run.job.namespace);
        if let Some(object) = self.cluster.call(api.get_opt(&name)).await? {
            self.cache.put_job(&object, false);
        }
        Ok(self.cache.job(&run.job.uid).and_then(known))
    }

    async fn begin_run(&self, run: &JobRun) -> Result<RunStatus, Fault> {
        let created = self.create_run(run).await;
        let fault = match created {
            Ok(()) => {
                self.drop_old_runs(run).await;
                self.hint_later(run);
                return Ok(RunStatus::pending());
            }
            Err(fault) => fault,
        };
        let Some(status) = fault.status() else {
            return Err(fault);
        };
        match status.code {
            404 if status.message.contains("namespaces") => {
                let place = run.job.namespace.workloads();
                let message = format!("the namespace {place} is not there");
                Err(Error::new(ErrorKind::NotFound, message)
                    .with_reason(reason::NAMESPACE_MISSING)
                    .with_retry(Retry::Never)
                    .into())
            }
            400 | 403 | 422 if !status.message.contains("because it is being terminated") => {
                let failure = failure::of_refusal(&status.message);
                Ok(RunStatus::pending().finished(Timestamp::now(), Err(failure)))
            }
            _ => Err(fault),
        }
    }

    async fn create_run(&self, run: &JobRun) -> Result<(), Fault> {
        self.ensure_policies(&run.job.namespace).await?;
        let params = PostParams {
            field_manager: Some(self.cluster.config().field_manager.clone()),
            ..PostParams::default()
        };
        let unreadable = |source| Fault::Unreadable {
            what: "job",
            source,
        };
        if run.event.len() > manifest::EVENT_INLINE_BYTES {
            let map: ConfigMap =
                serde_json::from_value(manifest::event_config_map(run)).map_err(unreadable)?;
            let api: Api<ConfigMap> = self.api(&run.job.namespace);
            match self.cluster.call(api.create(&params, &map)).await {
                Err(fault) if !fault.is_already_exists() => return Err(fault),
                _ => {}
            }
        }
        let job: Job =
            serde_json::from_value(manifest::job(&self.config, run)).map_err(unreadable)?;
        let api: Api<Job> = self.api(&run.job.namespace);
        match self.cluster.call(api.create(&params, &job)).await {
            Ok(object) => self.cache.put_job(&object, true),
            // Somebody else was asked for the same run.
            Err(fault) if fault.is_already_exists() => {}
            Err(fault) => return Err(fault),
        }
        Ok(())
    }

    /// Removes runs beyond those that are kept. One that is left is removed with the next, or the job.
    async fn drop_old_runs(&self, run: &JobRun) {
        let Some(entry) = self.cache.job(&run.job.uid) else {
            return;
        };
        let mut ended: Vec<_> = entry
            .runs()
            .values()
            .filter(|run| run.outcome.is_some())
            .cloned()
            .collect();
        ended.sort_by_key(|run| run.run_id);
        let surplus = (ended.len() + 1).saturating_sub(RUNS_KEPT);
        let api: Api<Job> = self.api(&run.job.namespace);
        for old in ended.into_iter().take(surplus) {
            match self
                .deleted(api.delete(&old.name, &DeleteParams::background()))
                .await
            {
                Ok(_) => self.cache.forget_run(&run.job, &old.name),
                Err(fault) => {
                    tracing::debug!(job = %run.job, error = %fault, "an old run was left")
                }
            }
        }
    }

    /// Has the run looked at again in a while: where no pod is made, nothing else tells.
    fn hint_later(&self, run: &JobRun) {
        let (changes, key) = (self.cache.changes.clone(), run.job.key());
        let wait = Duration::from_millis(self.config.job_patience_ms + 100);
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            let waited = stop.run_until_cancelled(tokio::time::sleep(wait)).await;
            if waited.is_some() {
                changes.notify(key);
            }
        });
    }

    async fn look_at(
        &self,
        run: &JobRun,
        entry: &JobEntry,
        view: &RunView,
    ) -> Result<RunStatus, Fault> {
        if let Some(outcome) = &view.outcome {
            return Ok(outcome.clone());
        }
        if view.deleting {
            return Ok(gone("the run was removed"));
        }
        let pod = {
            let pods = entry.pods();
            let own = pods.values().filter(|pod| pod.run_id == Some(view.run_id));
            own.max_by_key(|pod| pod.created).cloned()
        };
        let Some(pod) = pod else {
            return self.look_without_pod(run, view).await;
        };
        if let Some(ended) = &pod.ended {
            let status = self.outcome(run, &pod, ended).await?;
            return self.settle(run, view, status, false).await;
        }
        if let Some(since) = pod.running_since {
            return Ok(RunStatus::running(since));
        }
        if let Some(trouble) = &pod.trouble {
            let waited = pod.created.is_some_and(|created| {
                let patience = i64::try_from(self.config.image_patience_ms).unwrap_or(i64::MAX);
                Timestamp::now().duration_since(created).as_millis() > i128::from(patience)
            });
            let status = RunStatus::pending();
            if trouble.lasting && (waited || trouble.failure.reason != reason::IMAGE_PULL) {
                let status = status.finished(Timestamp::now(), Err(trouble.failure.clone()));
                return self.settle(run, view, status, true).await;
            }
            return Ok(RunStatus {
                failure: Some(trouble.failure.clone()),
                ..status
            });
        }
        Ok(RunStatus::pending())
    }

    /// A run whose pod is not there: not yet, not at all, or no more.
    async fn look_without_pod(&self, run: &JobRun, view: &RunView) -> Result<RunStatus, Fault> {
        let age = view
            .created
            .map(|created| Timestamp::now().duration_since(created).as_millis());
        let patience = i128::from(self.config.job_patience_ms);
        let over = view.failed.is_some() || view.complete;
        if !over && age.is_none_or(|age| age < patience) {
            return Ok(RunStatus::pending());
        }
        let refused = self.refusal_of(run, view).await?;
        let status = match (&view.failed, refused) {
            (None, None) if view.complete => {
                gone("the run ended, and its pod is gone with its result")
            }
            (None, None) => return Ok(RunStatus::pending()),
            (None, Some(failure)) if failure.reason != reason::ADMISSION_DENIED => {
                return Ok(RunStatus {
                    failure: Some(failure),
                    ..RunStatus::pending()
                });
            }
            (_, Some(failure)) => RunStatus::pending().finished(Timestamp::now(), Err(failure)),
            (Some((word, message)), None) if word == "DeadlineExceeded" => {
                let failure = Failure::new(reason::TIMEOUT, message.clone());
                RunStatus::pending().finished(Timestamp::now(), Err(failure))
            }
            (Some(_), None) => gone("the run's pod was deleted"),
        };
        self.settle(run, view, status, true).await
    }

    /// Why no pod was made for a run: only events tell.
    async fn refusal_of(&self, run: &JobRun, view: &RunView) -> Result<Option<Failure>, Fault> {
        let api: Api<Event> = self.api(&run.job.namespace);
        let of_job = ListParams::default()
            .fields(&format!(
                "involvedObject.uid={},reason=FailedCreate",
                view.uid
            ))
            .limit(10);
        let events = self.cluster.call(api.list(&of_job)).await?;
        let newest = events
            .items
            .into_iter()
            .max_by_key(|event| event.last_timestamp.as_ref().and_then(failure::timestamp));
        Ok(newest.map(|event| failure::of_refusal(&event.message.unwrap_or_default())))
    }

    /// How a run ended, out of how its pod did.
    async fn outcome(
        &self,
        run: &JobRun,
        pod: &PodView,
        ended: &Ended,
    ) -> Result<RunStatus, Fault> {
        let finished = ended.finished_at.unwrap_or_else(Timestamp::now);
        let status = RunStatus::running(ended.started_at.unwrap_or(finished));
        let mut said = ended.said();
        let elsewhere = said.as_ref().is_some_and(|said| said["elsewhere"] == true);
        if elsewhere && !ended.out_of_memory {
            said = self.said_in_log(run, pod).await?;
        }
        let result = match said {
            Some(said) if !ended.out_of_memory => result(&said, ended),
            _ => Err(interrupted(ended)),
        };
        Ok(status.finished(finished, result))
    }

    /// Writes down how a run ended, so that it is known when its pod is gone; and ends it, where it has not
    /// ended by itself.
    async fn settle(
        &self,
        run: &JobRun,
        view: &RunView,
        status: RunStatus,
        end: bool,
    ) -> Result<RunStatus, Fault> {
        let text = serde_json::to_string(&status).unwrap_or_default();
        let api: Api<Job> = self.api(&run.job.namespace);
        let params = PatchParams {
            field_manager: Some(self.cluster.config().field_manager.clone()),
            ..PatchParams::default()
        };
        let mut now = view.clone();
        for _ in 0..self.config.apply_attempts.max(1) {
            let mut patch = json!({
                "metadata": {
                    "resourceVersion": now.resource_version,
                    "annotations": {annotation::OUTCOME: text},
                },
            });
            if end && now.failed.is_none() && !now.complete {
                patch["spec"] = json!({"suspend": true});
            }
            let patch = Patch::Merge(&patch);
            let patched = api.patch(&now.name, &params, &patch);
            match self.cluster.call(patched).await {
                Ok(object) => {
                    self.cache.put_job(&object, true);
                    return Ok(status);
                }
                // The controller did something, or somebody else wrote it down.
                Err(fault) if fault.is_conflict() => {}
                Err(fault) if fault.is_not_found() => {
                    self.cache.forget_run(&run.job, &now.name);
                    return Ok(status);
                }
                Err(fault) => return Err(fault),
            }
            let Some(object) = self.cluster.call(api.get_opt(&now.name)).await? else {
                self.cache.forget_run(&run.job, &now.name);
                return Ok(status);
            };
            self.cache.put_job(&object, false);
            match RunView::of(&object) {
                Some(RunView {
                    outcome: Some(outcome),
                    ..
                }) => return Ok(outcome),
                Some(found) => now = found,
                None => break,
            }
        }
        let message = "the Job changed again and again while its end was written down";
        Err(Error::conflict(message)
            .with_reason("limit_apply_attempts")
            .into())
    }

    pub(super) async fn remove_job(&self, job: &JobId) -> Result<Receipt> {
        let mut receipt = Receipt::default();
        let of_job = ListParams::default().labels(&format!("{}={}", labels::UID, job.uid));
        let gone = DeleteParams::background();
        let jobs: Api<Job> = self.api(&job.namespace);
        for object in self.listed(&jobs, &of_job).await? {
            let name = object.metadata.name.unwrap_or_default();
            if object.metadata.deletion_timestamp.is_none()
                && self.deleted(jobs.delete(&name, &gone)).await?
            {
                receipt.add("job", &name, BACKEND);
            }
            self.cache.forget_run(job, &name);
        }
        let maps: Api<ConfigMap> = self.api(&job.namespace);
        for object in self.listed(&maps, &of_job).await? {
            let name = object.metadata.name.unwrap_or_default();
            if self.deleted(maps.delete(&name, &gone)).await? {
                receipt.add("config_map", &name, BACKEND);
            }
        }
        let pods: Api<Pod> = self.api(&job.namespace);
        for pod in self.listed(&pods, &of_job).await? {
            receipt
                .left
                .push(left("pod", pod.metadata.name.unwrap_or_default()));
        }
        Ok(receipt)
    }
}

/// A run of which nobody knows how far it came.
fn gone(message: &'static str) -> RunStatus {
    let failure = Failure::new(reason::INTERRUPTED, message);
    RunStatus::pending().finished(Timestamp::now(), Err(failure))
}

fn interrupted(ended: &Ended) -> Failure {
    if ended.out_of_memory {
        return ended.failure();
    }
    let message = format!("its process ended with code {}", ended.exit_code);
    Failure::new(reason::INTERRUPTED, message).with_log(&ended.log())
}

/// What the runtime says of a run's end: JSON text, or why it failed.
fn result(said: &Value, ended: &Ended) -> Result<String, Failure> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let log = text(&said["log_tail"]);
    let failure = |word: &'static str, message: String| Failure::new(word, message).with_log(&log);
    let too_long = || {
        let limit = RunStatus::RESULT_BYTES_MAX;
        let message = format!("limit result_bytes of {limit} bytes exceeded");
        Failure::new("limit_result_bytes", message)
    };
    match said["outcome"].as_str().unwrap_or_default() {
        "succeeded" => {
            let text = said["result"].to_string();
            if text.len() > RunStatus::RESULT_BYTES_MAX {
                return Err(too_long());
            }
            Ok(text)
        }
        "failed" if said["error"]["type"] == "ResultTooLarge" => Err(too_long()),
        "failed" => {
            let error = &said["error"];
            let message = format!("{}: {}", text(&error["type"]), text(&error["message"]));
            Err(failure(reason::HANDLER_ERROR, message))
        }
        "timed_out" => {
            let message = format!("the run took longer than {} s", said["after"]);
            Err(failure(reason::TIMEOUT, message))
        }
        "died" => Err(failure(reason::INTERRUPTED, text(&said["message"]))),
        "not_started" => Err(ended.failure()),
        _ => Err(interrupted(ended)),
    }
}
