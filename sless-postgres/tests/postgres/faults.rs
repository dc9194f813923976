//! A database that is away, slow, or full: calls go on, and records come when it is back.

#![allow(clippy::print_stdout, reason = "it tells what it measured")]

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use sless_core::{
    Backends, Body, Deploy, FunctionSpec, InvocationLog as _, InvocationQuery, Options, Runtime,
    Sless, memory::MemoryScheduler,
};
use sless_postgres::PostgresInvocationLog;

use super::support::{PATIENCE, Schema, Server, function, namespace, until};

/// An engine with one function, whose records go to this log.
async fn engine(log: &PostgresInvocationLog, record_queue: usize) -> Sless {
    let mut backends = Backends::in_memory();
    let scheduler = MemoryScheduler::new(backends.clock.clone()).with_handler(
        "handler.handle",
        |_request, context| async move {
            context.log("a line of the call");
            Ok(http::Response::new(Body::from("hello")))
        },
    );
    backends.scheduler = Arc::new(scheduler);
    backends.invocations = Some(Arc::new(log.clone()));
    let mut options = Options::default();
    options.record_queue = record_queue;
    options.record_batch = 100;
    options.record_delay = Duration::from_millis(20);
    options.backoff_min = Duration::from_millis(50);
    let sless = Sless::with_options(backends, options).expect("an engine");
    let code = [("handler.py", "def handle(event):\n    return 'hello'\n")];
    let spec = FunctionSpec::new(Runtime::Python311);
    let deploy = Deploy::files(namespace(), function(), spec, code).expect("a source");
    sless.deploy(deploy).await.expect("deployed");
    sless
}

/// Calls the function, and answers how long that took.
async fn call(sless: &Sless) -> Duration {
    let began = Instant::now();
    let request = http::Request::new(Body::empty());
    let response = sless.invoke(&namespace(), &function(), request).await;
    let body = response.expect("answers").into_body().bytes(100).await;
    assert_eq!(body.expect("a body"), "hello");
    began.elapsed()
}

/// Calls until it is told to stop, and counts.
fn load(
    sless: &Sless,
    stop: &Arc<AtomicBool>,
    calls: &Arc<AtomicUsize>,
) -> tokio::task::JoinHandle<Duration> {
    let (sless, stop, calls) = (sless.clone(), stop.clone(), calls.clone());
    tokio::spawn(async move {
        let mut slowest = Duration::ZERO;
        while !stop.load(Ordering::Relaxed) {
            slowest = slowest.max(call(&sless).await);
            calls.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        slowest
    })
}

async fn request_ids(schema: &Schema) -> Vec<String> {
    let sql = "SELECT request_id FROM sless_invocations";
    let rows = schema.client().await.query(sql, &[]).await;
    rows.expect("rows").iter().map(|row| row.get(0)).collect()
}

/// The server is stopped and started under load, gently and not: no call fails or waits, and every
/// record is there once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: testing/postgres/up"]
async fn a_server_that_comes_and_goes_loses_no_record_and_fails_no_call() {
    let server = Server::start();
    let schema = Schema::at(server.url.clone());
    let log = schema.log().await;
    let sless = engine(&log, 50_000).await;
    let (stop, calls) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let loads = [load(&sless, &stop, &calls), load(&sless, &stop, &calls)];
    for how in ["immediate", "fast", "immediate"] {
        let before = calls.load(Ordering::Relaxed);
        let more = || async { calls.load(Ordering::Relaxed) > before + 50 };
        until("calls before the stop", more).await;
        server.control(&["stop", how]).await;
        let before = calls.load(Ordering::Relaxed);
        let more = || async { calls.load(Ordering::Relaxed) > before + 100 };
        until("calls while it is away", more).await;
        until("the engine says so", || async { !sless.health().recording }).await;
        assert!(sless.health().is_ready(), "calls are taken all the same");
        assert!(log.problem().is_some());
        server.control(&["start"]).await;
        until("the engine says that it is back", || async {
            sless.health().recording && sless.stats().records_waiting < 100
        })
        .await;
    }
    stop.store(true, Ordering::Relaxed);
    let mut slowest = Duration::ZERO;
    for load in loads {
        slowest = slowest.max(load.await.expect("no call failed"));
    }
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
    sless.shutdown().await;
    assert_eq!(sless.stats().records_dropped, 0);
    let ids = request_ids(&schema).await;
    let distinct: BTreeSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len(), "no record is there twice");
    assert_eq!(
        ids.len(),
        calls.load(Ordering::Relaxed),
        "each call has its record"
    );
    println!("{} calls, the slowest took {slowest:?}", ids.len());
}

/// The queue is full: what does not fit is dropped and counted, the rest is stored in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: testing/postgres/up"]
async fn what_the_queue_has_no_room_for_is_dropped_and_counted() {
    let schema = Schema::new();
    let log = schema.log().await;
    let sless = engine(&log, 50).await;
    // Slow: appends wait for this lock until their time is over.
    let locker = schema.client().await;
    locker
        .batch_execute("BEGIN; LOCK TABLE sless_invocations IN ACCESS EXCLUSIVE MODE")
        .await
        .expect("locked");
    let mut slowest = Duration::ZERO;
    let mut calls = 0;
    while sless.stats().records_dropped < 20 {
        slowest = slowest.max(call(&sless).await);
        calls += 1;
        assert!(calls < 10_000, "{:?}", sless.stats());
    }
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
    assert!(sless.stats().records_waiting <= 50);
    locker.batch_execute("ROLLBACK").await.expect("unlocked");
    until("what waited is stored", || async {
        sless.stats().records_waiting == 0 && sless.health().recording
    })
    .await;
    sless.shutdown().await;
    let dropped = i64::try_from(sless.stats().records_dropped).expect("a count");
    assert_eq!(schema.count().await + dropped, calls);
    schema.drop().await;
}

/// A statement that takes too long is ended by the server, and the batch stored later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: testing/postgres/up"]
async fn a_slow_or_full_database_makes_records_wait() {
    let schema = Schema::new();
    let mut config = schema.config();
    config.statement_timeout_ms = 200;
    let log = PostgresInvocationLog::connect(config)
        .await
        .expect("connects");
    let sless = engine(&log, 1_000).await;
    let client = schema.client().await;
    let refuse = |code: &str| {
        format!(
            "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
                 BEGIN {code}; RETURN NEW; END $$;
             CREATE OR REPLACE TRIGGER refuse BEFORE INSERT ON sless_invocations
                 FOR EACH ROW EXECUTE FUNCTION refuse()"
        )
    };
    for (code, problem) in [
        ("PERFORM pg_sleep(10)", "gave the statement up"),
        ("RAISE EXCEPTION 'full' USING ERRCODE = '53100'", "no space"),
        (
            "RAISE EXCEPTION 'failover' USING ERRCODE = '25006'",
            "cannot do it now",
        ),
    ] {
        client.batch_execute(&refuse(code)).await.expect("set up");
        call(&sless).await;
        until(problem, || async {
            let found = log.problem();
            found.is_some_and(|found| found.contains(problem))
        })
        .await;
        until("the engine says so", || async { !sless.health().recording }).await;
        let drop = "DROP TRIGGER refuse ON sless_invocations";
        client.batch_execute(drop).await.expect("well again");
        until("it is stored", || async { sless.health().recording }).await;
    }
    sless.shutdown().await;
    let query = InvocationQuery::of_function(namespace(), function(), 10);
    let page = log.query(&query).await.expect("a page");
    assert_eq!(page.items.len(), 3);
    assert_eq!(sless.stats().records_dropped, 0);
    for record in page.items {
        assert_eq!(record.log_tail.as_deref(), Some("a line of the call\n"));
    }
    schema.drop().await;
}

/// An engine that shuts down while the database is away gives up in time, and says what is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: testing/postgres/up"]
async fn a_shutdown_does_not_wait_for_a_database_that_is_away() {
    let server = Server::start();
    let schema = Schema::at(server.url.clone());
    let log = schema.log().await;
    let sless = engine(&log, 1_000).await;
    server.control(&["stop", "immediate"]).await;
    for _ in 0..5 {
        call(&sless).await;
    }
    let began = Instant::now();
    sless.shutdown().await;
    assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
    assert_eq!(sless.stats().records_dropped, 5);
}
