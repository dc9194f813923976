use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use futures::StreamExt as _;
use sless_conformance::{
    Fixture,
    scheduler::{Prepared, SchedulerHarness, clauses},
};
use sless_core::{
    Body, CallContext, ChangeStream, Digest, Ensured, Error, ErrorKind, FunctionId, HeldStream,
    Invoke, JobId, JobRun, LogOptions, LogStream, LogTail, LogTarget, Namespace, Receipt, Result,
    Retry, RunPhase, RunStatus, Scheduler, SchedulerCapabilities, Uid, VirtualClock, Workload,
    WorkloadPhase, WorkloadStatus,
    memory::{MemoryScheduler, MemorySchedulerConfig},
};

use super::{Broken, Expected, expect};
use crate::memory::register;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Defect {
    /// A new revision is started once the old one has stopped.
    StopsFirst,
    /// A new revision is called serving while the old one still is.
    ClaimsServing,
    /// A failed revision is called ready.
    ClaimsReady,
    /// Functions are told apart by their names alone.
    ByName,
    /// Nothing is ever off.
    AlwaysOn,
    /// The time that a call may take is not looked at.
    NoTimeout,
    /// A call that finds the queue full is told nothing of when to come again.
    NoRetryAfter,
    /// A response is sent when it is whole.
    Buffers,
    /// The query is lost.
    LosesQuery,
    /// A raised error is an error of the call.
    RaisesThrough,
    /// Jobs run once more, for luck.
    RunsTwice,
    /// A job that failed has succeeded without a result.
    GildsJobs,
    /// `remove_job` forgets nothing.
    RemembersJobs,
    /// Log lines lose their request.
    AnonymousLog,
    /// A log that is followed ends with what is there.
    NoFollow,
    /// A tail is the whole log.
    NoTail,
    /// What a call wrote is not told at its end.
    TellsNothing,
    /// Nothing is hinted.
    Silent,
    /// `remove` cuts off what is in flight; see `find`.
    CutsOff,
    /// Concurrency is not looked at.
    AllAtOnce,
    /// Environments are empty.
    NoEnvironment,
    /// It says that it holds nothing.
    Hides,
}

/// The scheduler with the defect.
#[derive(Debug)]
struct Faulty {
    inner: Arc<MemoryScheduler>,
    defect: Defect,
    /// What was asked for, by the revision that was made of it.
    asked: Mutex<HashMap<Digest, Digest>>,
}

impl Faulty {
    fn id(&self, function: &FunctionId) -> FunctionId {
        let mut function = function.clone();
        if self.defect == Defect::ByName {
            function.uid = Uid::new("any");
        }
        function
    }

    fn workload(&self, workload: &Workload) -> Workload {
        let mut workload = workload.clone();
        workload.function = self.id(&workload.function);
        match self.defect {
            Defect::AlwaysOn => workload.replicas = workload.replicas.max(1),
            Defect::AllAtOnce => workload.concurrency = 1_000,
            Defect::NoEnvironment => workload.env.clear(),
            _ => {}
        }
        workload
    }

    fn status(&self, mut status: WorkloadStatus) -> WorkloadStatus {
        let asked = self.asked.lock().expect("no panic");
        for revision in [&mut status.applied, &mut status.serving]
            .into_iter()
            .flatten()
        {
            *revision = asked.get(revision).copied().unwrap_or(*revision);
        }
        match self.defect {
            Defect::ClaimsServing
                if status.phase == WorkloadPhase::Starting && status.serving.is_some() =>
            {
                status.phase = WorkloadPhase::Ready;
                status.serving = status.applied;
                status.ready_replicas = 1;
            }
            Defect::ClaimsReady if status.phase == WorkloadPhase::Failed => {
                status.phase = WorkloadPhase::Ready;
            }
            _ => {}
        }
        status
    }
}

#[async_trait]
impl Scheduler for Faulty {
    fn capabilities(&self) -> SchedulerCapabilities {
        self.inner.capabilities()
    }

    async fn apply(&self, workload: &Workload) -> Result<WorkloadStatus> {
        let asked = workload.revision();
        let workload = self.workload(workload);
        self.asked
            .lock()
            .expect("no panic")
            .insert(workload.revision(), asked);
        let before = self.inner.status(&workload.function).await?;
        let other = before
            .applied
            .is_some_and(|applied| applied != workload.revision());
        if self.defect == Defect::StopsFirst && other {
            let off = Workload {
                replicas: 0,
                ..workload.clone()
            };
            self.inner.apply(&off).await?;
        }
        let status = self.inner.apply(&workload).await?;
        Ok(self.status(status))
    }

    async fn status(&self, function: &FunctionId) -> Result<WorkloadStatus> {
        Ok(self.status(self.inner.status(&self.id(function)).await?))
    }

    async fn remove(&self, function: &FunctionId) -> Result<Receipt> {
        self.inner.remove(&self.id(function)).await
    }

    async fn invoker(&self, function: &FunctionId) -> Result<Arc<dyn Invoke>> {
        let inner = self.inner.invoker(&self.id(function)).await?;
        Ok(Arc::new(FaultyInvoke {
            inner,
            defect: self.defect,
        }))
    }

    async fn run_job(&self, run: &JobRun) -> Result<RunStatus> {
        if self.defect == Defect::RunsTwice {
            let again = JobRun {
                run_id: run.run_id + 1_000,
                ..run.clone()
            };
            self.inner.run_job(&again).await?;
        }
        let mut status = self.inner.run_job(run).await?;
        if self.defect == Defect::GildsJobs && status.phase == RunPhase::Failed {
            status.phase = RunPhase::Succeeded;
            status.failure = None;
        }
        Ok(status)
    }

    async fn remove_job(&self, job: &JobId) -> Result<Receipt> {
        if self.defect == Defect::RemembersJobs {
            return Ok(Receipt::default());
        }
        self.inner.remove_job(job).await
    }

    async fn logs(&self, of: &LogTarget, options: &LogOptions) -> Result<LogStream> {
        let of = match of {
            LogTarget::Function(function) => LogTarget::Function(self.id(function)),
            job => job.clone(),
        };
        let mut options = *options;
        match self.defect {
            Defect::NoFollow => options.follow = false,
            Defect::NoTail => options.tail = None,
            _ => {}
        }
        let anonymous = self.defect == Defect::AnonymousLog;
        let lines = self.inner.logs(&of, &options).await?.map(move |line| {
            line.map(|mut line| {
                if anonymous {
                    line.request_id = None;
                }
                line
            })
        });
        Ok(lines.boxed())
    }

    fn held(&self) -> HeldStream {
        if self.defect == Defect::Hides {
            return futures::stream::empty().boxed();
        }
        self.inner.held()
    }

    fn changes(&self) -> ChangeStream {
        if self.defect == Defect::Silent {
            return futures::stream::pending().boxed();
        }
        self.inner.changes()
    }

    async fn ensure_namespace(&self, namespace: &Namespace) -> Result<Ensured> {
        self.inner.ensure_namespace(namespace).await
    }
}

#[derive(Debug)]
struct FaultyInvoke {
    inner: Arc<dyn Invoke>,
    defect: Defect,
}

#[async_trait]
impl Invoke for FaultyInvoke {
    async fn invoke(
        &self,
        mut request: http::Request<Body>,
        context: &CallContext,
    ) -> Result<http::Response<Body>> {
        let mut context = context.clone();
        match self.defect {
            Defect::NoTimeout => context.timeout = Duration::from_secs(100),
            Defect::TellsNothing => context.log_tail = LogTail::default(),
            Defect::LosesQuery => {
                let path = request.uri().path().to_owned();
                *request.uri_mut() = path.parse().expect("a path");
            }
            _ => {}
        }
        let response = self.inner.invoke(request, &context).await;
        match self.defect {
            Defect::NoRetryAfter => response.map_err(|error| error.with_retry(Retry::Transient)),
            Defect::Buffers => {
                let (parts, body) = response?.into_parts();
                let body = body.bytes(64 << 20).await?;
                Ok(http::Response::from_parts(parts, body.into()))
            }
            Defect::RaisesThrough => {
                let response = response?;
                if response.status().is_server_error() {
                    return Err(Error::new(ErrorKind::Internal, "the function raised"));
                }
                Ok(response)
            }
            _ => response,
        }
    }
}

#[async_trait]
impl SchedulerHarness for Broken<Mutex<Arc<Faulty>>, Defect> {
    async fn scheduler(&self) -> Result<Arc<dyn Scheduler>> {
        Ok(self.backend.lock().expect("no panic").clone())
    }

    async fn reopen(&self) -> Result<bool> {
        let before = self.backend.lock().expect("no panic").clone();
        let inner = Arc::new(before.inner.restarted().await);
        let after = Faulty {
            inner,
            defect: self.defect,
            asked: Mutex::default(),
        };
        *self.backend.lock().expect("no panic") = Arc::new(after);
        Ok(true)
    }

    async fn prepare(&self, fixture: Fixture) -> Result<Option<Prepared>> {
        Ok(register(
            &self.backend.lock().expect("no panic").inner,
            fixture,
        ))
    }

    fn overflow(&self) -> usize {
        10
    }
}

fn find(defects: Expected<'_, Defect>) {
    let make = |defect| -> Box<dyn SchedulerHarness> {
        let clock = VirtualClock::default();
        let mut config = MemorySchedulerConfig::default();
        config.queued_calls = 8;
        config.start_delay = Duration::from_millis(20);
        if defect == Defect::CutsOff {
            config.drain = Duration::from_millis(1);
        }
        let inner = Arc::new(MemoryScheduler::with_config(
            Arc::new(clock.clone()),
            config,
        ));
        let faulty = Faulty {
            inner,
            defect,
            asked: Mutex::default(),
        };
        let backend = Mutex::new(Arc::new(faulty));
        Box::new(Broken {
            clock,
            backend,
            defect,
        })
    };
    expect(defects, clauses(), make);
}

#[test]
fn a_scheduler_that_rolls_out_badly_is_found() {
    find(&[
        (
            Defect::StopsFirst,
            &[
                "a_new_revision_takes_over_without_a_failed_call",
                "a_revision_that_cannot_start_leaves_the_old_one_serving",
                "serving_names_what_answers",
            ],
        ),
        (
            Defect::ClaimsServing,
            &[
                "a_new_revision_takes_over_without_a_failed_call",
                "a_revision_that_cannot_start_leaves_the_old_one_serving",
                "another_environment_is_another_revision",
                "serving_names_what_answers",
            ],
        ),
        (
            Defect::ClaimsReady,
            &[
                "a_revision_that_cannot_start_leaves_the_old_one_serving",
                "a_workload_that_cannot_start_is_failed_and_says_why",
            ],
        ),
        (
            Defect::ByName,
            &[
                "another_uid_is_another_function",
                "what_is_made_is_held_until_it_is_removed",
            ],
        ),
        (Defect::AlwaysOn, &["no_replicas_is_off"]),
        (
            Defect::NoEnvironment,
            &[
                "another_environment_is_another_revision",
                "the_function_sees_its_environment",
            ],
        ),
    ]);
}

#[test]
fn a_scheduler_that_calls_badly_is_found() {
    find(&[
        (
            Defect::NoTimeout,
            &[
                "a_call_ends_at_its_timeout",
                "waiting_counts_against_the_timeout",
            ],
        ),
        (
            Defect::NoRetryAfter,
            &["too_many_calls_are_told_to_come_again"],
        ),
        (
            Defect::Buffers,
            &[
                "a_response_streams_out",
                "waiting_counts_against_the_timeout",
                "what_is_in_flight_is_finished",
            ],
        ),
        (Defect::LosesQuery, &["the_request_arrives_as_it_is"]),
        (Defect::RaisesThrough, &["a_raised_error_is_a_response"]),
        (
            Defect::AllAtOnce,
            &[
                "one_copy_takes_as_many_calls_as_it_may",
                "too_many_calls_are_told_to_come_again",
                "waiting_counts_against_the_timeout",
            ],
        ),
        (Defect::CutsOff, &["what_is_in_flight_is_finished"]),
    ]);
}

#[test]
fn a_scheduler_that_runs_jobs_badly_is_found() {
    find(&[
        (
            Defect::RunsTwice,
            &["a_run_happens_once", "another_run_id_is_another_run"],
        ),
        (
            Defect::GildsJobs,
            &[
                "a_job_that_cannot_start_has_failed",
                "a_job_that_raises_has_failed",
                "a_job_that_takes_too_long_has_failed",
                "a_result_that_is_too_long_has_failed",
                "a_run_that_began_does_not_begin_again",
                "a_run_that_was_cut_off_is_interrupted",
            ],
        ),
        (
            Defect::RemembersJobs,
            &[
                "a_removed_job_is_forgotten",
                "a_run_is_remembered_over_a_reopen",
                "removing_a_job_ends_its_run",
                "what_is_made_is_held_until_it_is_removed",
            ],
        ),
    ]);
}

#[test]
fn a_scheduler_that_tells_too_little_is_found() {
    find(&[
        (Defect::TellsNothing, &["the_end_of_a_calls_log_is_told"]),
        (
            Defect::AnonymousLog,
            &["lines_carry_their_request_and_source"],
        ),
        (
            Defect::NoFollow,
            &[
                "a_followed_log_ends_with_the_function",
                "a_line_is_seen_while_its_call_runs",
            ],
        ),
        (Defect::NoTail, &["a_part_of_the_log_is_given"]),
        (Defect::Hides, &["what_is_made_is_held_until_it_is_removed"]),
        (
            Defect::Silent,
            &[
                "a_change_is_hinted_when_a_job_moves_on",
                "a_change_is_hinted_when_a_workload_moves_on",
            ],
        ),
    ]);
}
