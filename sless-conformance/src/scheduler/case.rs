//! One run of one clause: functions and jobs of its own, removed at its end.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, header::CONTENT_TYPE};
use serde_json::Value;
use sless_core::{
    Body, CallContext, FunctionId, Invoke, JobId, JobRun, LogLine, LogOptions, LogTarget,
    Namespace, Receipt, Result, RunStatus, Scheduler, Uid, Workload, WorkloadPhase, WorkloadStatus,
};

use super::{Prepared, SchedulerHarness};
use crate::{
    Fixture, Outcome, Violation,
    clause::While as _,
    harness::{eventually, passing},
    unique,
};

/// How long a call may take where a clause says nothing else.
pub(crate) const CALL_TIME: Duration = Duration::from_secs(20);

/// A request body's longest answer that a clause reads.
const BODY_BYTES_MAX: usize = 64 << 20;

pub(crate) struct Case<'a> {
    pub(super) harness: &'a dyn SchedulerHarness,
    namespace: Namespace,
    functions: Mutex<Vec<FunctionId>>,
    jobs: Mutex<Vec<JobId>>,
}

/// The whole answer to a call.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Answer {
    /// The value of a header, empty where there is none.
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    /// The value that the handler answered: text is a string, anything else JSON.
    pub(super) fn json(&self) -> Result<Value, Violation> {
        if self.header("content-type").starts_with("text/plain") {
            return Ok(Value::String(
                String::from_utf8_lossy(&self.body).into_owned(),
            ));
        }
        serde_json::from_slice(&self.body).map_err(|error| {
            Violation::new(format!("the answer is not JSON: {error}: {:?}", self.body))
        })
    }
}

impl<'a> Case<'a> {
    pub(crate) async fn open(harness: &'a dyn SchedulerHarness) -> Result<Self, Violation> {
        let namespace = unique::namespace()?;
        harness
            .scheduler()
            .await?
            .ensure_namespace(&namespace)
            .await?;
        Ok(Self {
            harness,
            namespace,
            functions: Mutex::default(),
            jobs: Mutex::default(),
        })
    }

    pub(crate) async fn close(&self) -> Outcome {
        let jobs = self
            .jobs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for job in jobs {
            self.removed_job(&job).await.while_("cleaning up")?;
        }
        let functions = self
            .functions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for function in functions {
            self.removed(&function).await.while_("cleaning up")?;
        }
        Ok(self.harness.clean_up().await?)
    }

    pub(super) async fn scheduler(&self) -> Result<Arc<dyn Scheduler>> {
        self.harness.scheduler().await
    }

    /// Awaits, while the backend's time passes.
    pub(super) async fn passing<T>(&self, future: impl Future<Output = T>) -> T {
        passing(self.harness, future).await
    }

    /// A new function, or another uid of the same name.
    pub(super) fn function(&self, name: &str) -> Result<FunctionId> {
        self.function_in(&self.namespace, name)
    }

    /// A new function of another namespace.
    pub(super) fn function_in(&self, namespace: &Namespace, name: &str) -> Result<FunctionId> {
        let function = FunctionId {
            namespace: namespace.clone(),
            name: unique::name(name)?,
            uid: Uid::random(),
        };
        self.functions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(function.clone());
        Ok(function)
    }

    /// A workload that runs this fixture. `None` where the backend cannot have such a function.
    pub(super) async fn optional_workload(
        &self,
        function: &FunctionId,
        fixture: Fixture,
    ) -> Result<Option<Workload>, Violation> {
        let prepared = self
            .passing(self.harness.prepare(fixture))
            .await
            .while_("preparing")?;
        let Some(Prepared {
            artifact,
            runtime,
            entrypoint,
        }) = prepared
        else {
            crate::clause::ensure!(
                fixture.may_be_missing(),
                "the harness prepares no {fixture:?}, which every scheduler can run"
            );
            return Ok(None);
        };
        Ok(Some(Workload {
            generation: 1,
            function: function.clone(),
            artifact,
            runtime,
            entrypoint,
            env: BTreeMap::new(),
            replicas: 1,
            max_replicas: 1,
            timeout: Duration::from_secs(60),
            memory: None,
            cpu: None,
            concurrency: 1,
            idle: Some(Duration::ZERO),
            built_at: self.harness.clock().now(),
        }))
    }

    /// A workload that runs this fixture.
    pub(super) async fn workload(
        &self,
        function: &FunctionId,
        fixture: Fixture,
    ) -> Result<Workload, Violation> {
        let workload = self.optional_workload(function, fixture).await?;
        workload.ok_or_else(|| Violation::new(format!("the harness prepares no {fixture:?}")))
    }

    /// A function that runs this fixture and answers, and what calls it.
    pub(super) async fn running(
        &self,
        fixture: Fixture,
    ) -> Result<(Workload, Arc<dyn Invoke>), Violation> {
        let workload = self.workload(&self.function("f")?, fixture).await?;
        self.ready(&workload).await?;
        let invoker = self.scheduler().await?.invoker(&workload.function).await;
        Ok((workload, invoker.while_("asking for an invoker")?))
    }

    /// Applies until the status is as wanted.
    pub(super) async fn applied(
        &self,
        workload: &Workload,
        what: &str,
        wanted: impl Fn(&WorkloadStatus) -> Result<bool, Violation>,
    ) -> Result<WorkloadStatus, Violation> {
        let scheduler = self.scheduler().await?;
        let mut status = self
            .passing(scheduler.apply(workload))
            .await
            .while_("applying")?;
        Ok(eventually!(
            self.harness,
            format!("the workload is {what}"),
            {
                let seen = status.clone();
                if wanted(&seen)? {
                    Ok(seen)
                } else {
                    status = scheduler
                        .status(&workload.function)
                        .await
                        .while_("reading the status")?;
                    Err(seen)
                }
            }
        ))
    }

    /// Applies until the workload answers.
    pub(super) async fn ready(&self, workload: &Workload) -> Result<WorkloadStatus, Violation> {
        let revision = workload.revision();
        self.applied(workload, "ready", |status| {
            let current = status.applied == Some(revision);
            if current && status.phase == WorkloadPhase::Failed {
                return Err(Violation::new(format!("the workload failed: {status:?}")));
            }
            Ok(current && status.phase == WorkloadPhase::Ready)
        })
        .await
    }

    /// Sends a request and reads the whole answer.
    pub(super) async fn send(
        &self,
        invoker: &Arc<dyn Invoke>,
        request: Request<Body>,
        context: &CallContext,
    ) -> Result<Answer> {
        let call = async {
            let (parts, body) = invoker.invoke(request, context).await?.into_parts();
            let body = body.bytes(BODY_BYTES_MAX).await?;
            Ok(Answer {
                status: parts.status,
                headers: parts.headers,
                body,
            })
        };
        self.passing(call).await
    }

    /// Posts an event and reads the whole answer.
    pub(super) async fn post(&self, invoker: &Arc<dyn Invoke>, event: &Value) -> Result<Answer> {
        self.send(invoker, event_request(event), &context()).await
    }

    /// Posts an event and expects a JSON value with status 200.
    pub(super) async fn ask(
        &self,
        invoker: &Arc<dyn Invoke>,
        event: &Value,
    ) -> Result<Value, Violation> {
        let answer = self
            .post(invoker, event)
            .await
            .while_(format_args!("calling with {event}"))?;
        crate::clause::ensure_eq!(answer.status, StatusCode::OK, "the status of {answer:?}");
        answer.json()
    }

    /// A run of a new job.
    pub(super) async fn run(&self, event: &Value) -> Result<JobRun, Violation> {
        let workload = self
            .workload(&self.function("of-a-job")?, Fixture::Job)
            .await?;
        self.run_of(workload, event)
    }

    /// A run of a new job of this workload.
    pub(super) fn run_of(&self, workload: Workload, event: &Value) -> Result<JobRun, Violation> {
        let job = JobId {
            namespace: self.namespace.clone(),
            name: unique::name("job")?,
            uid: Uid::random(),
        };
        self.jobs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(job.clone());
        let event = event.to_string();
        Ok(JobRun {
            job,
            run_id: 1,
            workload,
            event,
            timeout: CALL_TIME,
            began: false,
        })
    }

    /// Asks for a run until it has ended.
    pub(super) async fn ended(&self, run: &JobRun) -> Result<RunStatus, Violation> {
        let scheduler = self.scheduler().await?;
        Ok(eventually!(
            self.harness,
            format!("run {} of the job ends", run.run_id),
            {
                let status = self
                    .passing(scheduler.run_job(run))
                    .await
                    .while_("running a job")?;
                crate::harness::when(status.phase.is_terminal(), status)
            }
        ))
    }

    /// Removes a function until nothing of it is left. Answers all that was removed.
    pub(super) async fn removed(&self, function: &FunctionId) -> Result<Receipt, Violation> {
        let scheduler = self.scheduler().await?;
        let mut whole = Receipt::default();
        Ok(eventually!(
            self.harness,
            "nothing of a removed function is left",
            {
                let receipt = self
                    .passing(scheduler.remove(function))
                    .await
                    .while_("removing")?;
                whole.removed.extend(receipt.removed.clone());
                if receipt.is_unfinished() {
                    Err(receipt)
                } else {
                    Ok(whole.clone())
                }
            }
        ))
    }

    /// Removes a job until nothing of it is left. Answers all that was removed.
    pub(super) async fn removed_job(&self, job: &JobId) -> Result<Receipt, Violation> {
        let scheduler = self.scheduler().await?;
        let mut whole = Receipt::default();
        Ok(eventually!(
            self.harness,
            "nothing of a removed job is left",
            {
                let receipt = self
                    .passing(scheduler.remove_job(job))
                    .await
                    .while_("removing")?;
                whole.removed.extend(receipt.removed.clone());
                if receipt.is_unfinished() {
                    Err(receipt)
                } else {
                    Ok(whole.clone())
                }
            }
        ))
    }

    /// The log so far.
    pub(super) async fn log(
        &self,
        of: &LogTarget,
        options: &LogOptions,
    ) -> Result<Vec<LogLine>, Violation> {
        use futures::TryStreamExt as _;
        let stream = self
            .scheduler()
            .await?
            .logs(of, options)
            .await
            .while_("reading a log")?;
        self.passing(stream.try_collect())
            .await
            .while_("reading a log")
    }

    /// How many lines of the log so far say this.
    pub(super) async fn count(&self, of: &LogTarget, text: &str) -> Result<usize, Violation> {
        let lines = self.log(of, &LogOptions::default()).await?;
        Ok(lines.iter().filter(|line| line.text == text).count())
    }
}

/// A context with a request id that no other call has.
pub(super) fn context() -> CallContext {
    context_of(CALL_TIME)
}

pub(super) fn context_of(timeout: Duration) -> CallContext {
    CallContext::new(format!("request-{}", unique::tag()), timeout)
}

/// A POST of this event.
pub(super) fn event_request(event: &Value) -> Request<Body> {
    let mut request = Request::new(Body::from(event.to_string()));
    *request.method_mut() = Method::POST;
    let json = http::HeaderValue::from_static("application/json");
    request.headers_mut().insert(CONTENT_TYPE, json);
    request
}

/// A POST of these bytes.
pub(super) fn bytes_request(body: impl Into<Body>) -> Request<Body> {
    let mut request = Request::new(body.into());
    *request.method_mut() = Method::POST;
    let octets = http::HeaderValue::from_static("application/octet-stream");
    request.headers_mut().insert(CONTENT_TYPE, octets);
    request
}
