//! Many writers, many starts, many records.

#![allow(clippy::print_stdout, reason = "it tells what it measured")]

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use sless_core::{InvocationLog as _, InvocationQuery, Origin, Retention};

use super::support::{Schema, all_ids, function, namespace, record};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: testing/postgres/up"]
async fn servers_that_start_at_once_make_the_table_once() {
    let schema = Schema::new();
    let starts = (0..12).map(|_| async { schema.log().await });
    let logs = futures::future::join_all(starts).await;
    for (at, log) in logs.iter().enumerate() {
        log.append(vec![record(at as i64)]).await.expect("appended");
    }
    assert_eq!(schema.count().await, 12);
    let versions = "SELECT version FROM sless_invocations_version";
    let rows = schema.client().await.query(versions, &[]).await;
    let rows = rows.expect("rows");
    assert_eq!(rows.iter().map(|row| row.get(0)).collect::<Vec<i32>>(), [1]);
    schema.drop().await;
}

/// Two servers write, some of it the same records in different orders, while a reader walks the pages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: testing/postgres/up"]
async fn two_writers_keep_every_record_once() {
    let schema = Schema::new();
    let (one, other) = (Arc::new(schema.log().await), Arc::new(schema.log().await));
    let old: Vec<_> = (0..2_000).map(|seconds| record(1_000 + seconds)).collect();
    one.append(old.clone()).await.expect("appended");
    let new: Vec<_> = (0..4_000).map(|at| record(at % 50)).collect();
    let write = |log: Arc<sless_postgres::PostgresInvocationLog>, reversed: bool| {
        let mut records = new.clone();
        if reversed {
            records.reverse();
        }
        tokio::spawn(async move {
            for batch in records.chunks(100) {
                // Two batches with the same records in other orders may meet in a deadlock, which the
                // database ends, and the engine tries again.
                while let Err(error) = log.append(batch.to_vec()).await {
                    assert_ne!(error.retry(), sless_core::Retry::Never, "{}", error.chain());
                }
            }
        })
    };
    let writers = [write(one.clone(), false), write(other.clone(), true)];
    let seen = all_ids(&other).await;
    let distinct: BTreeSet<_> = seen.iter().collect();
    assert_eq!(distinct.len(), seen.len(), "none is given twice");
    assert!(
        old.iter().all(|record| distinct.contains(&record.id)),
        "each that was there all the time is given"
    );
    for writer in writers {
        writer.await.expect("no panic");
    }
    assert_eq!(schema.count().await, 6_000);
    schema.drop().await;
}

/// 100,000 records: retention goes in steps between which others write, one server at a time; and
/// every query has an index.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: testing/postgres/up"]
async fn a_hundred_thousand_records_are_retained_in_steps() {
    let schema = Schema::new();
    let log = Arc::new(schema.log().await);
    let client = schema.client().await;
    let fill = "INSERT INTO sless_invocations (id, request_id, namespace, function, origin, attempt,
                    started_at, duration_us, status, request_bytes, response_bytes, log_tail)
                SELECT 'id-' || n, 'q', 'ns', CASE n % 4 WHEN 0 THEN 'hello' ELSE 'f-' || n % 4 END,
                    CASE n % 3 WHEN 0 THEN 'http' ELSE 'cron' END, 1,
                    now() - n * interval '1 second', 7, CASE n % 10 WHEN 0 THEN 500 ELSE 200 END, 1, 1,
                    repeat('x', 200)
                FROM generate_series(1, 100000) AS n;
                ANALYZE sless_invocations;";
    client.batch_execute(fill).await.expect("filled");
    every_query_has_an_index(&client).await;

    let writing = tokio::spawn({
        let log = log.clone();
        async move {
            let mut slowest = Duration::ZERO;
            for _ in 0..50 {
                let began = Instant::now();
                log.append(vec![record(0)]).await.expect("appended");
                slowest = slowest.max(began.elapsed());
                tokio::task::yield_now().await;
            }
            slowest
        }
    });
    let rule = |seconds, max_records| Retention {
        max_age: Duration::from_secs(seconds),
        max_records,
    };
    // Half of them are too old; two servers do it together, one step of one of them at a time.
    let other = schema.log().await;
    let (now, began) = (Timestamp::now(), Instant::now());
    let half = rule(50_000, 1_000_000);
    let (mine, theirs) = tokio::join!(log.retain(&half, now), other.retain(&half, now));
    let dropped = mine.expect("retained") + theirs.expect("retained");
    // The rest of what one left to the other, if both gave way.
    let dropped = dropped + log.retain(&half, now).await.expect("retained");
    // One more for each second since they were made.
    assert!((50_000..50_600).contains(&dropped), "{dropped}");
    let age = began.elapsed();
    let slowest = writing.await.expect("no panic");
    assert!(slowest < Duration::from_secs(10), "{slowest:?}");

    let began = Instant::now();
    let there = schema.count().await;
    let dropped = log.retain(&rule(1 << 40, 1_000), now).await;
    let dropped = dropped.expect("retained");
    assert_eq!(i64::try_from(dropped).expect("a count"), there - 1_000);
    assert_eq!(schema.count().await, 1_000);
    // The 50 that were written meanwhile are the newest.
    let newest = InvocationQuery::of_function(namespace(), function(), 50);
    let page = log.query(&newest).await.expect("a page");
    assert!(
        page.items
            .iter()
            .all(|record| record.duration.as_millis() == 7)
    );
    println!(
        "age: {age:?}, count: {:?}, slowest append: {slowest:?}",
        began.elapsed()
    );
    schema.drop().await;
}

async fn every_query_has_an_index(client: &tokio_postgres::Client) {
    let conditions = [
        "namespace = 'ns'",
        "namespace = 'ns' AND function = 'hello'",
        "namespace = 'ns' AND function = 'hello' AND origin = 'job'",
        "namespace = 'ns' AND function = 'hello' AND status >= 400",
        "namespace = 'ns' AND function = 'hello' AND started_at >= now() - interval '1 hour'",
        "namespace = 'ns' AND function = 'hello' AND (started_at, number) < (now(), 77)",
    ];
    for condition in conditions {
        let explain = format!(
            "EXPLAIN SELECT * FROM sless_invocations WHERE {condition}
             ORDER BY started_at DESC, number DESC LIMIT 51"
        );
        let plan = client.query(&explain, &[]).await.expect("a plan");
        let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
        let plan = plan.join("\n");
        assert!(plan.contains("Index Scan"), "{condition}:\n{plan}");
        assert!(!plan.contains("Seq Scan"), "{condition}:\n{plan}");
    }
}

/// Text that PostgreSQL does not hold, and sizes beyond what it counts.
#[tokio::test]
#[ignore = "needs PostgreSQL: testing/postgres/up"]
async fn any_record_is_taken() {
    let schema = Schema::new();
    let log = schema.log().await;
    let mut odd = record(1);
    odd.request_id = "a\0b".to_owned();
    odd.log_tail = Some("\0\n".to_owned());
    odd.origin = Origin::Direct;
    odd.attempt = u32::MAX;
    odd.status = u16::MAX;
    odd.request_bytes = u64::MAX;
    odd.duration = Duration::MAX;
    odd.started_at = "-009999-01-02T01:59:59Z".parse().expect("a time");
    log.append(vec![odd, record(0)]).await.expect("appended");
    let query = InvocationQuery::of_function(namespace(), function(), 10);
    let page = log.query(&query).await.expect("a page");
    assert_eq!(page.items.len(), 2);
    assert_eq!(page.items[1].request_id, "a\u{fffd}b");
    assert_eq!(page.items[1].attempt, u32::MAX);
    schema.drop().await;
}
