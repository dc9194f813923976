//! Records of calls: what they hold, and what becomes of them where their log does not take them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use jiff::Timestamp;
use sless_core::{
    Body, Call, Error, Invocation, InvocationLog, InvocationPage, InvocationQuery, JobPhase,
    Options, Origin, Result, Retention, bytes_stream,
    memory::{HandlerContext, HandlerError, MemoryInvocationLog},
};

use super::{World, name, ns, world_with};

const WELL: u8 = 0;
const AWAY: u8 = 1;
const NEVER: u8 = 2;

/// A log that takes nothing while it is told so.
#[derive(Debug, Default)]
struct Flaky {
    inner: MemoryInvocationLog,
    state: AtomicU8,
}

impl Flaky {
    fn become_(&self, state: u8) {
        self.state.store(state, Ordering::Relaxed);
    }
}

#[async_trait]
impl InvocationLog for Flaky {
    async fn append(&self, records: Vec<Invocation>) -> Result<()> {
        match self.state.load(Ordering::Relaxed) {
            AWAY => Err(Error::unavailable("away")),
            NEVER => Err(Error::invalid("such records are not taken")),
            _ => self.inner.append(records).await,
        }
    }

    async fn query(&self, query: &InvocationQuery) -> Result<InvocationPage> {
        self.inner.query(query).await
    }

    async fn retain(&self, rule: &Retention, now: Timestamp) -> Result<u64> {
        self.inner.retain(rule, now).await
    }
}

async fn flaky(record_queue: usize) -> (World, Arc<Flaky>) {
    let log = Arc::new(Flaky::default());
    let mut options = Options::default();
    options.record_queue = record_queue;
    let given = log.clone();
    let world = world_with(options, |backends| backends.invocations = Some(given));
    let deployed = world.deploy("hello", "main.echo", "code").await;
    deployed.expect("deployed");
    (world, log)
}

async fn records(world: &World, function: &str) -> Vec<Invocation> {
    let log = world.sless.backends().invocations.clone().expect("a log");
    let query = InvocationQuery::of_function(ns(), name(function), 100);
    log.query(&query).await.expect("a page").items
}

#[tokio::test]
async fn a_log_that_is_away_makes_records_wait_and_calls_go_on() {
    let (world, log) = flaky(100).await;
    log.become_(AWAY);
    for _ in 0..5 {
        world.call("hello", "a").await.expect("answers");
    }
    world.clock.advance(Duration::from_secs(60)).await;
    assert!(!world.sless.health().recording);
    assert!(
        world.sless.health().is_ready(),
        "it is none of the calls' matter"
    );
    assert_eq!(records(&world, "hello").await, []);
    assert_eq!(world.sless.stats().records_dropped, 0);
    log.become_(WELL);
    world.clock.advance(Duration::from_secs(10)).await;
    world.rest().await;
    assert_eq!(records(&world, "hello").await.len(), 5);
    assert!(world.sless.health().recording);
}

#[tokio::test]
async fn what_does_not_fit_is_dropped_and_counted() {
    let (world, log) = flaky(3).await;
    log.become_(AWAY);
    world.call("hello", "a").await.expect("answers");
    // It is being tried now, and no longer in the queue.
    world.clock.advance(Duration::from_secs(60)).await;
    for _ in 0..5 {
        world.call("hello", "a").await.expect("answers");
    }
    let stats = world.sless.stats();
    assert_eq!((stats.records_waiting, stats.records_dropped), (3, 2));
    log.become_(WELL);
    world.clock.advance(Duration::from_secs(10)).await;
    world.sless.shutdown().await;
    assert_eq!(records(&world, "hello").await.len(), 4);
    assert_eq!(world.sless.stats().records_dropped, 2);
}

#[tokio::test]
async fn what_the_log_never_takes_is_dropped_and_counted() {
    let (world, log) = flaky(100).await;
    log.become_(NEVER);
    world.call("hello", "a").await.expect("answers");
    world.clock.advance(Duration::from_secs(10)).await;
    world.rest().await;
    assert_eq!(world.sless.stats().records_dropped, 1);
    log.become_(WELL);
    world.call("hello", "a").await.expect("answers");
    world.sless.shutdown().await;
    assert_eq!(records(&world, "hello").await.len(), 1);
}

#[tokio::test]
async fn a_shutdown_gives_a_log_up_that_stays_away() {
    let (world, log) = flaky(100).await;
    log.become_(AWAY);
    world.call("hello", "a").await.expect("answers");
    let sless = world.sless.clone();
    let shutdown = tokio::spawn(async move { sless.shutdown().await });
    for _ in 0..100 {
        world.clock.advance(Duration::from_secs(1)).await;
    }
    shutdown.await.expect("no panic");
    assert_eq!(world.sless.stats().records_dropped, 1);
}

/// The functions of this file: one writes lines and streams, one raises.
async fn writers() -> World {
    let world = world_with(Options::default(), |backends| {
        let clock = backends.clock.clone();
        let scheduler = sless_core::memory::MemoryScheduler::new(clock)
            .with_handler(
                "main.write",
                |request: http::Request<Body>, context: HandlerContext| async move {
                    let read = request.into_body().bytes(1 << 20).await;
                    context.log(format!("read {}", read.expect("a body").len()));
                    context.log_error("to the other stream");
                    let stream = futures::stream::unfold(0, move |number| {
                        let context = context.clone();
                        async move {
                            context.log(format!("chunk {number}"));
                            (number < 2).then(|| (Ok("xy".into()), number + 1))
                        }
                    });
                    Ok(http::Response::new(Body::from_stream(stream)))
                },
            )
            .with_handler(
                "main.fail",
                |_: http::Request<Body>, context: HandlerContext| async move {
                    context.log("before");
                    Err(HandlerError::new("ValueError", "no good"))
                },
            );
        backends.scheduler = Arc::new(scheduler);
    });
    world
        .deploy("write", "main.write", "code")
        .await
        .expect("deployed");
    world
        .deploy("fail", "main.fail", "code")
        .await
        .expect("deployed");
    world
}

#[tokio::test]
async fn a_record_tells_who_how_much_and_what_was_written() {
    let world = writers().await;
    let call = async |caller: &str, body: Body| {
        let request = http::Request::new(body);
        let call = Call::new(ns(), name("write"), request)
            .from_origin(Origin::Http, None)
            .with_caller(caller);
        let response = world.sless.call(call).await.expect("answers");
        response.into_body().bytes(100).await.expect("a body")
    };
    assert_eq!(call("192.0.2.1", Body::from("four")).await, "xyxy");
    // One whose length nobody tells.
    let chunks = Body::from_stream(bytes_stream(vec![0; 5_000]));
    call(&"c".repeat(1_000), chunks).await;
    world.call("fail", "").await.expect("answers");
    // A caller that leaves before the end: what was written by then.
    let request = http::Request::new(Body::empty());
    let left = world.sless.invoke(&ns(), &name("write"), request).await;
    drop(left.expect("answers"));
    world.sless.shutdown().await;

    let written = records(&world, "write").await;
    let by = |caller: &str| {
        let mut found = written.iter().filter(|record| {
            record
                .caller
                .as_deref()
                .is_some_and(|found| found.starts_with(caller))
        });
        found.next().expect("a record").clone()
    };
    let known = by("192.0.2.1");
    assert_eq!((known.request_bytes, known.response_bytes), (4, 4));
    assert_eq!(
        known.log_tail.as_deref(),
        Some("read 4\nto the other stream\nchunk 0\nchunk 1\nchunk 2\n")
    );
    let counted = by("c");
    assert_eq!(counted.request_bytes, 5_000);
    let caller = counted.caller.map(|caller| caller.len());
    assert_eq!(caller, Some(Invocation::CALLER_MAX));
    let left = written.iter().find(|record| record.caller.is_none());
    let left = left.expect("a record");
    assert_eq!(left.error.as_deref(), Some("caller_left"));
    assert_eq!(
        left.log_tail.as_deref(),
        Some("read 0\nto the other stream\n")
    );
    let failed = records(&world, "fail").await;
    assert_eq!(failed[0].status, 500);
    assert_eq!(
        failed[0].log_tail.as_deref(),
        Some("before\nValueError: no good\n")
    );
}

#[tokio::test]
async fn the_record_of_a_run_tells_what_it_wrote() {
    let world = writers().await;
    super::jobs::create(&world, "once", "fail", 1).await;
    super::jobs::until(&world, "once", JobPhase::Failed, 1).await;
    world.sless.shutdown().await;
    let found = records(&world, "fail").await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].origin, found[0].request_bytes), (Origin::Job, 7));
    assert_eq!(found[0].cause.as_ref(), Some(&name("once")));
    let tail = found[0].log_tail.as_deref();
    assert_eq!(tail, Some("before\nValueError: no good\n"));
}

#[tokio::test]
async fn nothing_is_kept_where_nobody_records() {
    let world = world_with(Options::default(), |backends| backends.invocations = None);
    let deployed = world.deploy("hello", "main.echo", "code").await;
    deployed.expect("deployed");
    world.call("hello", "a").await.expect("answers");
    assert!(world.sless.health().recording);
    assert_eq!(world.sless.stats().records_waiting, 0);
}
