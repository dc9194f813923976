//! What the conformance suites do not ask: restarts, simulations, limits.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures::StreamExt as _;

use super::*;
use crate::{
    Artifact, ArtifactKind, Body, BuildId, BuildRequest, BuildStatus, Builder, CallContext,
    Catalog, CatalogExt as _, Clock, ContextRef, DeadLetterQuery, DeadLetterSelection, Delivery,
    DeliveryOptions, Digest, Dispatcher, Disposition, Entrypoint, ErrorKind, EventSink, Failure,
    Function, FunctionId, FunctionSpec, JobId, JobRun, Kind, ListQuery, Message, Metadata, Name,
    Namespace, Publish, PutOptions, RunPhase, Runtime, RuntimeVersions, Scheduler, Storage,
    StorageKey, Subscription, TriggerId, Uid, VirtualClock, WatchEvent, WatchOptions, Workload,
    WorkloadPhase, bytes_stream, reason,
    source::{SourceTree, context},
};

const SECOND: Duration = Duration::from_secs(1);

fn namespace() -> Namespace {
    Namespace::new("n").expect("a label")
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a label")
}

fn clocks() -> (VirtualClock, Arc<dyn Clock>) {
    let clock = VirtualClock::default();
    (clock.clone(), Arc::new(clock))
}

/// A workload for a handler of `handler.handle`.
pub(crate) fn workload(replicas: u32, concurrency: u32) -> Workload {
    let uid = Uid::new("u");
    Workload {
        function: FunctionId {
            namespace: namespace(),
            name: name("f"),
            uid,
        },
        artifact: Artifact {
            kind: ArtifactKind::Memory,
            reference: "a".to_owned(),
            digest: Digest::of("a"),
        },
        runtime: Runtime::Python311,
        entrypoint: Entrypoint::default(),
        env: BTreeMap::new(),
        replicas,
        timeout: 60 * SECOND,
        memory: None,
        cpu: None,
        concurrency,
        idle: None,
        built_at: jiff::Timestamp::UNIX_EPOCH,
    }
}

#[tokio::test]
async fn watchers_behind_the_kept_history_are_expired() {
    let (_, clock) = clocks();
    let mut config = MemoryCatalogConfig::default();
    config.history = 2;
    let catalog = MemoryCatalog::with_config(clock, config);
    catalog.ensure_namespace(&namespace()).await.expect("made");
    let from = catalog
        .list(&ListQuery::all(Kind::Function))
        .await
        .expect("a page")
        .position;
    let options = WatchOptions::default().from_position(from);
    let mut early = catalog.watch(&options).await.expect("a watch");
    for text in ["a", "b", "c"] {
        let metadata = Metadata::new(namespace(), name(text));
        let function = Function::new(metadata, FunctionSpec::new(Runtime::Python311));
        catalog.add(function).await.expect("created");
    }
    let late = catalog
        .watch(&options)
        .await
        .map(drop)
        .expect_err("too old");
    assert_eq!(late.kind(), ErrorKind::Expired);
    let last = early
        .next()
        .await
        .expect("an item")
        .expect_err("it lost hints");
    assert_eq!(last.kind(), ErrorKind::Expired);
    assert!(early.next().await.is_none());
}

#[tokio::test]
async fn a_catalog_with_a_seed_repeats_itself_and_a_watch_ends_with_it() {
    let (_, clock) = clocks();
    let mut uids = Vec::new();
    for _ in 0..2 {
        let mut config = MemoryCatalogConfig::default();
        config.uid_seed = Some(7);
        let catalog = MemoryCatalog::with_config(Arc::clone(&clock), config);
        catalog.ensure_namespace(&namespace()).await.expect("made");
        let watch = catalog
            .watch(&WatchOptions::default())
            .await
            .expect("a watch");
        let metadata = Metadata::new(namespace(), name("f"));
        let function = Function::new(metadata, FunctionSpec::new(Runtime::Python311));
        uids.push(catalog.add(function).await.expect("created").metadata.uid);
        drop(catalog);
        let events: Vec<_> = watch.map(|event| event.expect("no error")).collect().await;
        assert!(matches!(
            events[..],
            [WatchEvent::Changed { .. }, WatchEvent::Bookmark(_)]
        ));
    }
    assert_eq!(uids[0], uids[1]);
}

/// Stores the context of a small source, and answers the request to build it.
async fn request(storage: &Arc<MemoryStorage>) -> BuildRequest {
    let tree = SourceTree::from_files([("handler.py", "def handle(e): return e")]).expect("a tree");
    let info = RuntimeVersions::default()
        .info(Runtime::Python311, Entrypoint::default())
        .expect("the defaults");
    let mut packed = Vec::new();
    context::write(&tree, &info, &mut packed).expect("a context");
    let key = StorageKey::new("contexts/n/f/1.tar.gz").expect("a key");
    storage
        .put(&key, bytes_stream(packed), &PutOptions::default())
        .await
        .expect("stored");
    let id = BuildId {
        function: workload(1, 1).function,
        code: tree.digest(),
        runtime_version: info.version,
        attempt: 0,
    };
    let storage: Arc<dyn Storage> = storage.clone();
    BuildRequest::new(id, Runtime::Python311, false, ContextRef { storage, key })
}

#[tokio::test]
async fn a_build_reads_its_context_and_takes_its_time() {
    let (time, clock) = clocks();
    let storage = Arc::new(MemoryStorage::new(Arc::clone(&clock)));
    let request = request(&storage).await;
    let plan = |_: &BuildRequest| BuildPlan::default().taking(10 * SECOND);
    let builder = MemoryBuilder::with_config(clock, MemoryBuilderConfig::default(), plan);
    builder.ensure(&request).await.expect("begun");
    time.advance(9 * SECOND).await;
    let status = builder.ensure(&request).await.expect("under way");
    assert_eq!(
        status,
        BuildStatus::Running {
            step: "build".to_owned()
        }
    );
    time.advance(SECOND).await;
    let BuildStatus::Succeeded { artifact, .. } = builder.ensure(&request).await.expect("done")
    else {
        panic!("not built")
    };
    assert_eq!(super::builder::code_of(&artifact), Some(request.id.code));
    assert_eq!(builder.builds_begun(), 1);

    let receipt = builder
        .prune(&request.id.function, &[])
        .await
        .expect("pruned");
    let kinds: Vec<_> = receipt
        .removed
        .iter()
        .map(|removed| removed.kind.as_str())
        .collect();
    assert_eq!(kinds, ["build", "artifact"]);
    let again = builder
        .prune(&request.id.function, &[])
        .await
        .expect("pruned");
    assert_eq!(again.removed, []);
}

#[tokio::test]
async fn a_broken_context_fails_for_good_and_a_store_that_is_away_for_now() {
    use crate::decorate::{Fault, FaultRule, Faults};

    let (time, clock) = clocks();
    let storage = Arc::new(MemoryStorage::new(Arc::clone(&clock)));
    let mut request = request(&storage).await;
    let body = bytes_stream("no tar");
    storage
        .put(&request.context.key, body, &PutOptions::default())
        .await
        .expect("stored");
    let faults = Faults::seeded(0, Arc::clone(&clock));
    faults.add(
        FaultRule::on("storage.get")
            .first(1)
            .failing(ErrorKind::Unavailable),
    );
    request.context.storage = Arc::new(Fault::new(storage, &faults));
    let builder = MemoryBuilder::new(clock);
    for (word, passing) in [
        (reason::BACKEND_UNAVAILABLE, true),
        (reason::CONTEXT_UNREADABLE, false),
    ] {
        builder.ensure(&request).await.expect("begun");
        time.settle().await;
        let status = builder.status(&request.id).expect("it was begun");
        let BuildStatus::Failed { failure, transient } = status else {
            panic!("{status:?}")
        };
        assert_eq!((&*failure.reason, transient), (word, passing));
    }
    builder.ensure(&request).await.expect("failed for good");
    assert_eq!(builder.builds_begun(), 2);
}

#[tokio::test]
async fn a_restarted_builder_knows_what_was_done_and_builds_the_rest_anew() {
    let (time, clock) = clocks();
    let storage = Arc::new(MemoryStorage::new(Arc::clone(&clock)));
    let done = request(&storage).await;
    let mut cut = done.clone();
    cut.id.attempt = 1;
    let plan = |request: &BuildRequest| {
        BuildPlan::default().taking(SECOND * if request.id.attempt == 0 { 1 } else { 60 })
    };
    let builder = MemoryBuilder::with_config(clock, MemoryBuilderConfig::default(), plan);
    builder.ensure(&done).await.expect("begun");
    builder.ensure(&cut).await.expect("begun");
    time.advance(2 * SECOND).await;
    let builder = builder.restarted(|_| BuildPlan::default()).await;
    let status = builder.ensure(&done).await.expect("there");
    assert!(matches!(status, BuildStatus::Succeeded { .. }));
    assert_eq!(builder.builds_begun(), 0);
    assert_eq!(
        builder.ensure(&cut).await.expect("begun"),
        BuildStatus::Queued
    );
}

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
    let mut config = MemorySchedulerConfig::default();
    config.queued_calls = 2;
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
    let mut config = MemorySchedulerConfig::default();
    config.start_delay = 10 * SECOND;
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
async fn a_removed_function_drains_and_is_cut_off_in_time() {
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
async fn what_sleeps_is_woken_by_the_next_call() {
    let (time, clock) = clocks();
    let mut config = MemorySchedulerConfig::default();
    config.start_delay = 2 * SECOND;
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

/// Keeps what was delivered, and answers what the test says.
#[derive(Debug)]
struct Sink {
    delivered: Mutex<Vec<(String, u32)>>,
    answer: fn(&Delivery) -> Disposition,
    takes: Duration,
    clock: Arc<dyn Clock>,
}

impl Sink {
    fn new(
        clock: &Arc<dyn Clock>,
        takes: Duration,
        answer: fn(&Delivery) -> Disposition,
    ) -> Arc<Self> {
        Arc::new(Self {
            delivered: Mutex::default(),
            answer,
            takes,
            clock: Arc::clone(clock),
        })
    }

    fn delivered(&self) -> Vec<(String, u32)> {
        lock(&self.delivered).clone()
    }
}

#[async_trait]
impl EventSink for Sink {
    async fn deliver(&self, delivery: Delivery) -> Disposition {
        self.clock.sleep(self.takes).await;
        lock(&self.delivered).push((delivery.message.id.clone(), delivery.attempt));
        (self.answer)(&delivery)
    }
}

fn subscription(generation: i64) -> Subscription {
    let trigger = TriggerId {
        namespace: namespace(),
        name: name("t"),
        uid: Uid::new("t"),
    };
    Subscription {
        trigger,
        generation,
        queue: "q".to_owned(),
        delivery: DeliveryOptions::default(),
    }
}

fn message(id: &str) -> Message {
    Message {
        id: id.to_owned(),
        body: "x".into(),
        ..Message::default()
    }
}

fn owned(delivered: &[(&str, u32)]) -> Vec<(String, u32)> {
    delivered
        .iter()
        .map(|(id, attempt)| ((*id).to_owned(), *attempt))
        .collect()
}

#[tokio::test]
async fn messages_are_tried_again_given_up_and_redriven() {
    let (time, clock) = clocks();
    let dispatcher = MemoryDispatcher::new(Arc::clone(&clock));
    let sink = Sink::new(&clock, Duration::ZERO, |delivery| match delivery.attempt {
        _ if delivery.message.id == "good" => Disposition::Done,
        1 => Disposition::Retry {
            after: 5 * SECOND,
            reason: "once more".to_owned(),
        },
        _ => Disposition::Dead {
            reason: "enough".to_owned(),
        },
    });
    for id in ["bad", "good"] {
        dispatcher
            .publish(&namespace(), "q", message(id))
            .await
            .expect("stored");
    }
    let subscription = subscription(1);
    dispatcher
        .apply(&subscription, sink.clone())
        .await
        .expect("applied");
    time.advance(4 * SECOND).await;
    assert_eq!(sink.delivered(), owned(&[("bad", 1), ("good", 1)]));
    time.advance(SECOND).await;
    let trigger = &subscription.trigger;
    let page = dispatcher
        .dead_letters(trigger, &DeadLetterQuery::first(10))
        .await
        .expect("a page");
    assert_eq!((page.items.len(), &*page.items[0].reason), (1, "enough"));
    assert_eq!(
        (page.items[0].attempts, &*page.items[0].message.id),
        (2, "bad")
    );
    let status = dispatcher
        .status(trigger)
        .await
        .expect("there")
        .expect("served");
    assert_eq!(
        (status.delivered, status.failed, status.dead_lettered),
        (1, 2, 1)
    );
    assert!(status.connected);

    let all = DeadLetterSelection::All;
    assert_eq!(
        dispatcher.redrive(trigger, &all).await.expect("redriven"),
        1
    );
    time.advance(5 * SECOND).await;
    assert_eq!(sink.delivered()[3..], owned(&[("bad", 1), ("bad", 2)]));
    assert_eq!(dispatcher.purge(trigger, &all).await.expect("purged"), 1);
    assert_eq!(dispatcher.purge(trigger, &all).await.expect("purged"), 0);
}

#[tokio::test]
async fn a_new_description_waits_for_what_is_in_flight() {
    let (time, clock) = clocks();
    let dispatcher = MemoryDispatcher::new(Arc::clone(&clock));
    let sinks = [(); 2].map(|()| Sink::new(&clock, 10 * SECOND, |_| Disposition::Done));
    for id in ["1", "2"] {
        dispatcher
            .publish(&namespace(), "q", message(id))
            .await
            .expect("stored");
    }
    dispatcher
        .apply(&subscription(1), sinks[0].clone())
        .await
        .expect("applied");
    time.advance(SECOND).await;
    let status = dispatcher
        .apply(&subscription(2), sinks[1].clone())
        .await
        .expect("applied");
    assert_eq!((status.in_flight, status.waiting), (1, Some(1)));
    time.advance(9 * SECOND).await;
    assert_eq!(sinks[0].delivered(), owned(&[("1", 1)]));
    assert_eq!(sinks[1].delivered(), []);
    time.advance(10 * SECOND).await;
    assert_eq!(sinks[1].delivered(), owned(&[("2", 1)]));
    assert_eq!(sinks[0].delivered().len(), 1);
}

#[tokio::test]
async fn a_crash_gives_messages_back_and_another_sink_takes_over() {
    let (time, clock) = clocks();
    let dispatcher = MemoryDispatcher::new(Arc::clone(&clock));
    let slow = Sink::new(&clock, 10 * SECOND, |_| Disposition::Done);
    dispatcher
        .publish(&namespace(), "q", message("1"))
        .await
        .expect("stored");
    dispatcher
        .apply(&subscription(1), slow.clone())
        .await
        .expect("applied");
    time.advance(SECOND).await;
    let dispatcher = dispatcher.restarted().await;
    assert_eq!(
        dispatcher
            .status(&subscription(1).trigger)
            .await
            .expect("asked"),
        None
    );
    let quick = Sink::new(&clock, SECOND, |_| Disposition::Done);
    dispatcher
        .apply(&subscription(1), slow.clone())
        .await
        .expect("applied");
    // The same description: only the sink changes, before anything is taken.
    dispatcher
        .apply(&subscription(1), quick.clone())
        .await
        .expect("applied");
    time.advance(60 * SECOND).await;
    assert_eq!(quick.delivered(), owned(&[("1", 1)]));
    assert_eq!(slow.delivered(), []);
    let receipt = dispatcher
        .remove(&subscription(1).trigger)
        .await
        .expect("removed");
    assert_eq!(receipt.removed.len(), 1);
    let receipt = dispatcher
        .remove(&subscription(1).trigger)
        .await
        .expect("removed");
    assert_eq!(receipt.removed, []);
}

#[tokio::test]
async fn queues_messages_and_dead_letters_have_limits() {
    let (time, clock) = clocks();
    let mut config = MemoryDispatcherConfig::default();
    (config.queue_messages, config.message_bytes) = (2, 10);
    (config.queues, config.dead_letters) = (1, 1);
    let dispatcher = MemoryDispatcher::with_config(Arc::clone(&clock), config);
    let publish = async |queue: &str, message| {
        dispatcher
            .publish(&namespace(), queue, message)
            .await
            .map_err(|e| e.reason().to_owned())
    };
    for id in ["1", "2"] {
        assert_eq!(publish("q", message(id)).await, Ok(()));
    }
    assert_eq!(
        publish("q", message("3")).await,
        Err("limit_queue_messages".to_owned())
    );
    assert_eq!(
        publish("other", message("3")).await,
        Err("limit_queues".to_owned())
    );
    let long = message("0123456789");
    assert_eq!(
        publish("q", long).await,
        Err("limit_message_bytes".to_owned())
    );

    let sink = Sink::new(&clock, Duration::ZERO, |_| Disposition::Dead {
        reason: "no".to_owned(),
    });
    dispatcher
        .apply(&subscription(1), sink)
        .await
        .expect("applied");
    time.settle().await;
    let trigger = &subscription(1).trigger;
    let status = dispatcher
        .status(trigger)
        .await
        .expect("asked")
        .expect("served");
    assert_eq!((status.dead_lettered, status.waiting), (1, Some(1)));
    assert_eq!(
        status.message,
        "limit dead_letters of 1 dead letters exceeded"
    );
    dispatcher.shutdown().await;
    let status = dispatcher
        .status(trigger)
        .await
        .expect("asked")
        .expect("served");
    assert!(!status.connected);
}
