//! The table keeps its form.

use std::path::Path;

use sless_core::{ErrorKind, InvocationLog as _, InvocationQuery, Origin};
use sless_postgres::PostgresInvocationLog;

use super::support::{Schema, function, namespace, record};

fn golden(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Columns, indexes and constraints, in words.
async fn form(schema: &Schema) -> String {
    let sql = "SELECT table_name || ' ' || column_name || ' ' || data_type || ' ' || is_nullable
                   FROM information_schema.columns WHERE table_schema = $1
               UNION ALL
               SELECT regexp_replace(indexdef, ' ON [^ ]+ \"[^.]*\"\\.|ON .*?\\.', ' ON ')
                   FROM pg_indexes WHERE schemaname = $1
               ORDER BY 1";
    let rows = schema.client().await.query(sql, &[&schema.name]).await;
    let lines = rows.expect("rows");
    lines
        .iter()
        .map(|row| row.get::<_, String>(0) + "\n")
        .collect()
}

/// A table of version 1 as it was: made past the log.
async fn version_1() -> Schema {
    let schema = Schema::new();
    let client = schema.client().await;
    let quoted = schema.name.replace('"', "\"\"");
    let make = format!(
        "CREATE SCHEMA \"{quoted}\";
         {}
         CREATE TABLE sless_invocations_version (
             one BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (one),
             version INTEGER NOT NULL
         );
         INSERT INTO sless_invocations_version (version) VALUES (1);
         {}",
        golden("v1/schema.sql"),
        golden("v1/rows.sql")
    );
    client.batch_execute(&make).await.expect("made");
    schema
}

/// A change here is a migration: another step, and another golden folder.
#[tokio::test]
#[ignore = "needs PostgreSQL: testing/postgres/up"]
async fn the_table_is_the_golden_one() {
    let (made, golden) = (Schema::new(), version_1().await);
    made.log().await;
    let form_of = form(&made).await;
    assert!(
        form_of.contains("sless_invocations log_tail text YES"),
        "{form_of}"
    );
    assert_eq!(form_of, form(&golden).await);
    made.drop().await;
    golden.drop().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: testing/postgres/up"]
async fn records_of_version_1_are_read() {
    let schema = version_1().await;
    let log = schema.log().await;
    let query = InvocationQuery::of_function(namespace(), function(), 10);
    let page = log.query(&query).await.expect("a page");
    let [late, well] = page.items.as_slice() else {
        panic!("{page:?}")
    };
    assert_eq!((late.id.as_str(), late.status), ("r2", 504));
    assert_eq!(late.caller.as_deref(), Some("192.0.2.7"));
    assert_eq!(late.log_tail.as_deref(), Some("Traceback\n  höllo\n"));
    assert_eq!(late.error.as_deref(), Some("timeout"));
    assert_eq!((well.origin, well.attempt), (Origin::Event, 3));
    assert_eq!(
        well.cause.as_ref().map(|name| name.as_str()),
        Some("on-order")
    );
    assert_eq!(well.started_at.to_string(), "2026-01-01T00:00:01.5Z");
    assert_eq!((well.request_bytes, well.response_bytes), (7, 12));
    // And more is written behind them.
    log.append(vec![record(0)]).await.expect("appended");
    assert_eq!(schema.count().await, 3);
    schema.drop().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: testing/postgres/up"]
async fn a_table_of_a_newer_version_is_refused() {
    let schema = version_1().await;
    let newer = "UPDATE sless_invocations_version SET version = 99";
    schema
        .client()
        .await
        .batch_execute(newer)
        .await
        .expect("set");
    let error = PostgresInvocationLog::connect(schema.config()).await;
    let error = error.expect_err("a newer one");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(error.reason(), "schema_too_new");
    assert!(error.message().contains("99"), "{error}");
    schema.drop().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: testing/postgres/up"]
async fn a_table_that_was_dropped_is_made_again() {
    let schema = Schema::new();
    let log = schema.log().await;
    log.append(vec![record(0)]).await.expect("appended");
    let drop = "DROP TABLE sless_invocations";
    schema
        .client()
        .await
        .batch_execute(drop)
        .await
        .expect("dropped");
    let error = log.append(vec![record(0)]).await.expect_err("gone");
    assert_eq!(error.reason(), "table_missing");
    assert!(log.problem().is_some());
    log.append(vec![record(0)]).await.expect("made again");
    assert_eq!(log.problem(), None);
    assert_eq!(schema.count().await, 1);
    schema.drop().await;
}
