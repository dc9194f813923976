use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use super::*;
use crate::{
    Body, CallContext, ErrorKind, Failure, JobId, JobRun, RunPhase, Scheduler, WorkloadPhase,
    reason,
};

async fn call(scheduler: &MemoryScheduler, workload: &Workload) -> crate::Result<String> {
    let invoker = scheduler.invoker(&workload.function).await?;
    let context = CallContext::new("r", 60 * SECOND);
    let response = invoker
        .invoke(http::Request::new(Body::empty()), &context)
        .await?;
    let bytes = response.into_body().bytes(1024).await?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A scheduler whose handler answers the artifact's reference after a second.
fn slow_scheduler(clock: Arc<dyn Clock>, config: MemorySchedulerConfig) -> Arc<MemoryScheduler> {
    let scheduler = MemoryScheduler::with_config(clock, config);
    Arc::new(
        scheduler.with_handler("handler.handle", |_, context| async move {
            context.clock().sleep(SECOND).await;
            Ok(http::Response::new(
                context.artifact.reference.clone().into(),
            ))
        }),
    )
}

fn spawn_call(
    scheduler: &Arc<MemoryScheduler>,
    workload: &Workload,
) -> tokio::task::JoinHandle<crate::Result<String>> {
    let (scheduler, workload) = (Arc::clone(scheduler), workload.clone());
    tokio::spawn(async move { call(&scheduler, &workload).await })
}

#[tokio::test]
async fn calls_queue_up_to_a_limit() {
    let (time, clock) = clocks();
    let config = MemorySchedulerConfig {
        queued_calls: 2,
        ..MemorySchedulerConfig::default()
    };
    let scheduler = slow_scheduler(clock, config);
    let workload = workload(1, 1);
    scheduler.apply(&workload).await.expect("applied");
    let calls: Vec<_> = (0..4).map(|_| spawn_call(&scheduler, &workload)).collect();
    time.advance(3 * SECOND).await;
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.expect("no panic"));
    }
    let refused = answers.remove(3).expect_err("the fourth");
    assert_eq!(
        (refused.kind(), refused.reason()),
        (ErrorKind::Overloaded, "limit_queued_calls")
    );
    assert_eq!(refused.retry(), crate::Retry::After(SECOND));
    assert!(answers.iter().all(Result::is_ok));
}

#[tokio::test]
async fn a_new_revision_takes_over_without_a_failed_call() {
    let (time, clock) = clocks();
    let config = MemorySchedulerConfig {
        start_delay: 10 * SECOND,
        ..MemorySchedulerConfig::default()
    };
    let scheduler = slow_scheduler(clock, config);
    let mut workload = workload(1, 1);
    let status = scheduler.apply(&workload).await.expect("applied");
    assert_eq!(
        (status.phase, status.serving),
        (WorkloadPhase::Starting, None)
    );
    assert_eq!(
        call(&scheduler, &workload)
            .await
            .expect_err("not up")
            .kind(),
        ErrorKind::Unavailable
    );
    time.advance(10 * SECOND).await;
    let old = workload.revision();

    let calls = [
        spawn_call(&scheduler, &workload),
        spawn_call(&scheduler, &workload),
    ];
    time.settle().await;
    workload.artifact.reference = "b".to_owned();
    workload.artifact.digest = Digest::of("b");
    let status = scheduler.apply(&workload).await.expect("applied");
    assert_eq!(
        (status.phase, status.serving),
        (WorkloadPhase::Starting, Some(old))
    );
    time.advance(10 * SECOND).await;
    for call in calls {
        assert_eq!(
            call.await
                .expect("no panic")
                .expect("served by the old one"),
            "a"
        );
    }
    let status = scheduler.status(&workload.function).await.expect("there");
    assert_eq!(
        (status.phase, status.serving),
        (WorkloadPhase::Ready, Some(workload.revision()))
    );
    let new = spawn_call(&scheduler, &workload);
    time.advance(SECOND).await;
    assert_eq!(new.await.expect("no panic").expect("served"), "b");

    // One that cannot run leaves the one before it serving.
    let serving = workload.revision();
    workload.entrypoint = "other.handle".parse().expect("an entrypoint");
    let status = scheduler.apply(&workload).await.expect("applied");
    assert_eq!(
        (status.phase, status.serving),
        (WorkloadPhase::Failed, Some(serving))
    );
    assert_eq!(
        status.failure.expect("a reason").reason,
        reason::HANDLER_MISSING
    );
}

#[tokio::test]
async fn a_removed_function_drains() {
    let (time, clock) = clocks();
    let scheduler = slow_scheduler(clock, MemorySchedulerConfig::default());
    let workload = workload(1, 1);
    scheduler.apply(&workload).await.expect("applied");
    let running = spawn_call(&scheduler, &workload);
    let queued = spawn_call(&scheduler, &workload);
    time.settle().await;
    let removal = tokio::spawn({
        let (scheduler, function) = (Arc::clone(&scheduler), workload.function.clone());
        async move { scheduler.remove(&function).await }
    });
    time.settle().await;
    assert!(!removal.is_finished());
    time.advance(SECOND).await;
    assert_eq!(
        removal
            .await
            .expect("no panic")
            .expect("removed")
            .removed
            .len(),
        1
    );
    running.await.expect("no panic").expect("it was in flight");
    let gone = queued.await.expect("no panic").expect_err("it was not");
    assert_eq!(gone.kind(), ErrorKind::NotFound);
    assert_eq!(
        scheduler
            .remove(&workload.function)
            .await
            .expect("gone")
            .removed,
        []
    );
}

#[tokio::test]
async fn a_drain_has_an_end() {
    let (time, clock) = clocks();
    let config = MemorySchedulerConfig {
        drain: SECOND / 2,
        ..MemorySchedulerConfig::default()
    };
    let scheduler = slow_scheduler(clock, config);
    let workload = workload(1, 1);
    scheduler.apply(&workload).await.expect("applied");
    let running = spawn_call(&scheduler, &workload);
    time.settle().await;
    // The caller leaves; the drain ends in time all the same.
    let removal = tokio::spawn({
        let (scheduler, function) = (Arc::clone(&scheduler), workload.function.clone());
        async move { scheduler.remove(&function).await }
    });
    time.settle().await;
    removal.abort();
    time.advance(SECOND / 2).await;
    let cut = running
        .await
        .expect("no panic")
        .expect_err("it was cut off");
    assert_eq!(cut.kind(), ErrorKind::Interrupted);
}

#[tokio::test]
async fn a_body_holds_its_place_until_it_ends_and_ends_in_time() {
    let (time, clock) = clocks();
    let config = MemorySchedulerConfig {
        queued_calls: 0,
        ..MemorySchedulerConfig::default()
    };
    let scheduler =
        MemoryScheduler::with_config(clock, config).with_handler("handler.handle", |_, _| async {
            Ok(http::Response::new(Body::from_stream(
                futures::stream::pending(),
            )))
        });
    let workload = workload(1, 1);
    scheduler.apply(&workload).await.expect("applied");
    let invoker = scheduler.invoker(&workload.function).await.expect("there");
    let context = CallContext::new("r", SECOND);
    let call = || invoker.invoke(http::Request::new(Body::empty()), &context);
    let first = call().await.expect("a head");
    assert_eq!(
        call().await.expect_err("no place").kind(),
        ErrorKind::Overloaded
    );
    drop(first);
    let second = call().await.expect("the place of the first");
    let body = tokio::spawn(second.into_body().bytes(10));
    time.advance(SECOND).await;
    assert_eq!(
        body.await.expect("no panic").expect_err("too long").kind(),
        ErrorKind::Timeout
    );
    call().await.expect("the place of the second");
}

#[tokio::test]
async fn what_sleeps_is_woken_by_the_next_call() {
    let (time, clock) = clocks();
    let config = MemorySchedulerConfig {
        start_delay: 2 * SECOND,
        ..MemorySchedulerConfig::default()
    };
    let scheduler = slow_scheduler(clock, config);
    let mut workload = workload(1, 1);
    workload.idle = Some(30 * SECOND);
    scheduler.apply(&workload).await.expect("applied");
    time.advance(32 * SECOND).await;
    let status = scheduler.status(&workload.function).await.expect("there");
    assert!(status.asleep && status.phase == WorkloadPhase::Ready);
    let began = time.elapsed();
    let woken = spawn_call(&scheduler, &workload);
    while !woken.is_finished() {
        assert!(time.advance_to_next().await, "it waits for nothing");
    }
    assert_eq!(time.elapsed() - began, 3 * SECOND);
    assert!(
        !scheduler
            .status(&workload.function)
            .await
            .expect("there")
            .asleep
    );
}

fn job_run(timeout: Duration) -> JobRun {
    let job = JobId {
        namespace: namespace(),
        name: name("j"),
        uid: Uid::new("j"),
    };
    JobRun {
        began: false,
        job,
        run_id: 1,
        workload: workload(1, 1),
        event: "{}".to_owned(),
        timeout,
    }
}

#[tokio::test]
async fn a_run_happens_once_and_a_crash_ends_it_as_interrupted() {
    let (time, clock) = clocks();
    let runs = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&runs);
    let scheduler =
        MemoryScheduler::new(clock).with_handler("handler.handle", move |_, context| {
            count.fetch_add(1, Ordering::Relaxed);
            async move {
                context.clock().sleep(SECOND).await;
                Ok(http::Response::new("[1]".into()))
            }
        });
    let first = job_run(60 * SECOND);
    assert_eq!(
        scheduler.run_job(&first).await.expect("begun").phase,
        RunPhase::Pending
    );
    time.settle().await;
    assert_eq!(
        scheduler.run_job(&first).await.expect("begun").phase,
        RunPhase::Running
    );
    time.advance(SECOND).await;
    let status = scheduler.run_job(&first).await.expect("ended");
    assert_eq!(
        (status.phase, status.result.as_deref()),
        (RunPhase::Succeeded, Some("[1]"))
    );

    let second = JobRun {
        run_id: 2,
        ..first.clone()
    };
    scheduler.run_job(&second).await.expect("begun");
    time.settle().await;
    let scheduler = scheduler.restarted().await;
    let status = scheduler.run_job(&second).await.expect("ended");
    assert_eq!(
        status.failure.expect("a reason").reason,
        reason::INTERRUPTED
    );
    assert_eq!(
        scheduler.run_job(&first).await.expect("ended").phase,
        RunPhase::Succeeded
    );
    assert_eq!(runs.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_run_that_takes_too_long_or_panics_fails() {
    let (time, clock) = clocks();
    let scheduler = slow_scheduler(clock, MemorySchedulerConfig::default());
    let run = job_run(Duration::from_millis(500));
    scheduler.run_job(&run).await.expect("begun");
    time.advance(SECOND).await;
    let status = scheduler.run_job(&run).await.expect("ended");
    assert_eq!(status.failure.expect("a reason").reason, reason::TIMEOUT);

    scheduler.register_function("f", |_, _| async { panic!("on purpose") });
    let run = JobRun { run_id: 2, ..run };
    scheduler.run_job(&run).await.expect("begun");
    time.settle().await;
    let status = scheduler.run_job(&run).await.expect("ended");
    let failure: Failure = status.failure.expect("a reason");
    assert_eq!(failure.reason, reason::HANDLER_ERROR);
    assert_eq!(
        (&*failure.message, &*failure.log_tail),
        ("Panic: on purpose", "Panic: on purpose")
    );
}
