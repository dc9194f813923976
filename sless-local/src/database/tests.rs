use std::{sync::mpsc as std_mpsc, time::Duration};

use rusqlite::params;
use sless_core::{Error, ErrorKind};

use super::*;

const ONE: &str = "CREATE TABLE t(n INTEGER PRIMARY KEY) STRICT";
const TWO: &str = "ALTER TABLE t ADD COLUMN word TEXT";
static FIRST: Schema = Schema {
    file: "t.db",
    steps: &[ONE],
    tidy: &[],
};
static SECOND: Schema = Schema {
    file: "t.db",
    steps: &[ONE, TWO],
    tidy: &[],
};

const PATIENCE: Duration = Duration::from_secs(10);

fn folder() -> (tempfile::TempDir, DataDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = DataDir::open(folder.path()).expect("a data folder");
    (folder, dir)
}

fn open(dir: &DataDir) -> Database {
    Database::open(dir, &FIRST, &DatabaseConfig::default()).expect("opens")
}

async fn insert(database: &Database, n: i64) -> Result<(), Fault> {
    let job = move |connection: &Connection| {
        connection.execute("INSERT INTO t(n) VALUES (?1)", params![n])?;
        Ok(())
    };
    database.write(Durability::Written, job).await
}

async fn count(database: &Database) -> i64 {
    let job = |connection: &Connection| {
        Ok(connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0))?)
    };
    database.read(job).await.expect("a count")
}

#[tokio::test]
async fn a_write_whose_answer_nobody_takes_does_not_hold_the_end_up() {
    let (_folder, dir) = folder();
    let database = open(&dir);
    let mut parked = Box::pin(insert(&database, 1));
    assert!(futures::poll!(&mut parked).is_pending());
    let closed = tokio::time::timeout(PATIENCE, database.close()).await;
    closed.expect("it is closed while the write is there");
    parked.await.expect("it was done");
}

#[tokio::test]
async fn of_jobs_in_one_transaction_only_the_failing_one_is_undone() {
    let (_folder, dir) = folder();
    let database = open(&dir);
    let jobs = (0..64).map(|n| {
        let database = database.clone();
        async move {
            let job = move |connection: &Connection| {
                connection.execute("INSERT INTO t(n) VALUES (?1)", params![n])?;
                if n % 4 == 0 {
                    Err(Error::invalid("a multiple of four").into())
                } else {
                    Ok(())
                }
            };
            database.write(Durability::Synced, job).await.is_ok()
        }
    });
    let stayed = futures::future::join_all(jobs).await;
    assert_eq!(stayed.iter().filter(|stayed| **stayed).count(), 48);
    assert_eq!(count(&database).await, 48);
    let error = Error::from(insert(&database, 1).await.expect_err("there already"));
    assert_eq!(error.kind(), ErrorKind::Conflict);
}

/// A job that says when it has begun, and waits for a word until it goes on.
fn gate() -> (
    impl FnOnce() + Send + 'static,
    std_mpsc::Receiver<()>,
    std_mpsc::Sender<()>,
) {
    let (begun, beginning) = std_mpsc::channel();
    let (go, going) = std_mpsc::channel();
    let gate = move || {
        begun.send(()).expect("the test listens");
        going.recv().expect("the test lets it go on");
    };
    (gate, beginning, go)
}

#[tokio::test]
async fn a_write_that_has_begun_is_done_and_told_though_its_caller_has_left() {
    let (_folder, dir) = folder();
    let database = open(&dir);
    let (gate, begun, go) = gate();
    let (told, telling) = std_mpsc::channel();
    let write = database.write_then(
        Durability::Written,
        move |connection| {
            gate();
            Ok(connection.execute("INSERT INTO t(n) VALUES (1)", [])?)
        },
        move |rows| told.send(*rows).expect("the test listens"),
    );
    // One poll puts the job into the queue.
    let mut write = Box::pin(write);
    assert!(futures::poll!(&mut write).is_pending());
    begun.recv_timeout(PATIENCE).expect("begun");
    drop(write);
    go.send(()).expect("the job waits");
    assert_eq!(telling.recv_timeout(PATIENCE).expect("told"), 1);
    assert_eq!(count(&database).await, 1);
}

#[tokio::test]
async fn a_write_whose_caller_leaves_before_its_turn_is_not_done() {
    let (_folder, dir) = folder();
    let database = open(&dir);
    let (gate, begun, go) = gate();
    let job = move |_: &Connection| {
        gate();
        Ok(())
    };
    let mut slow = Box::pin(database.write(Durability::Written, job));
    assert!(futures::poll!(&mut slow).is_pending());
    begun.recv_timeout(PATIENCE).expect("begun");
    let mut waiting = Box::pin(insert(&database, 1));
    assert!(futures::poll!(&mut waiting).is_pending());
    drop(waiting);
    go.send(()).expect("the job waits");
    slow.await.expect("done");
    insert(&database, 2).await.expect("the next one is done");
    assert_eq!(count(&database).await, 1);
}

#[tokio::test]
async fn closing_finishes_what_is_queued_and_refuses_what_comes_later() {
    let (_folder, dir) = folder();
    let database = open(&dir);
    let writes: Vec<_> = (0..32)
        .map(|n| {
            let database = database.clone();
            tokio::spawn(async move { insert(&database, n).await })
        })
        .collect();
    let stayed: Vec<_> = futures::future::join_all(writes).await;
    database.close().await;
    let error = Error::from(insert(&database, 99).await.expect_err("closed"));
    assert_eq!(
        (error.kind(), error.reason()),
        (ErrorKind::Unavailable, "closed")
    );
    drop(database);
    let again = open(&dir);
    assert_eq!(count(&again).await, stayed.len() as i64);
}

#[tokio::test]
async fn an_older_file_is_migrated_and_a_newer_one_refused() {
    let (_folder, dir) = folder();
    insert(&open(&dir), 7).await.expect("written");
    let newer = Database::open(&dir, &SECOND, &DatabaseConfig::default()).expect("migrates");
    let word = |connection: &Connection| {
        Ok(
            connection.query_row("SELECT word FROM t WHERE n = 7", [], |row| {
                row.get::<_, Option<String>>(0)
            })?,
        )
    };
    assert_eq!(newer.read(word).await.expect("the new column"), None);
    drop(newer);
    let refused = Database::open(&dir, &FIRST, &DatabaseConfig::default()).expect_err("too old");
    let error = Error::from(refused);
    assert_eq!(error.reason(), "schema_too_new");
    assert!(
        error.message().contains("t.db has schema version 2"),
        "{error}"
    );
}

#[tokio::test]
async fn a_file_that_is_no_database_is_called_damaged() {
    let (_folder, dir) = folder();
    std::fs::write(dir.database("t.db"), [7; 4096]).expect("written");
    let error = Database::open(&dir, &FIRST, &DatabaseConfig::default()).expect_err("no database");
    assert_eq!(Error::from(error).kind(), ErrorKind::Corrupt);
}

#[tokio::test]
async fn a_full_disk_fails_the_write_and_the_next_one_can_succeed() {
    let (_folder, dir) = folder();
    let database = open(&dir);
    let fill = |connection: &Connection| {
        connection.pragma_update(None, "max_page_count", 3)?;
        connection.execute_batch(
            "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 100000)
             INSERT INTO t SELECT n FROM c",
        )?;
        Ok(())
    };
    let error = Error::from(
        database
            .write(Durability::Synced, fill)
            .await
            .expect_err("full"),
    );
    assert_eq!(
        (error.kind(), error.reason()),
        (ErrorKind::Unavailable, "disk_full")
    );
    assert!(error.message().contains("t.db"), "{error}");
    insert(&database, 1).await.expect("there is room for one");
    assert_eq!(count(&database).await, 1);
}

#[tokio::test]
async fn a_full_queue_of_writes_is_an_error_that_names_it() {
    let (_folder, dir) = folder();
    let config = DatabaseConfig {
        write_queue: 1,
        place_wait_ms: 20,
        ..DatabaseConfig::default()
    };
    let database = Database::open(&dir, &FIRST, &config).expect("opens");
    let (go, gate) = std::sync::mpsc::channel::<()>();
    let slow = tokio::spawn({
        let database = database.clone();
        async move {
            let job = move |_: &Connection| {
                let _ = gate.recv();
                Ok(())
            };
            database.write(Durability::Written, job).await
        }
    });
    let mut waiting = Vec::new();
    let refused = loop {
        let mut next = Box::pin(insert(&database, waiting.len() as i64));
        match tokio::time::timeout(Duration::from_millis(200), &mut next).await {
            Ok(Err(fault)) => break Error::from(fault),
            Ok(Ok(())) => {}
            Err(_) => waiting.push(next),
        }
        assert!(waiting.len() < 4, "the queue has one place");
    };
    assert_eq!(
        (refused.kind(), refused.reason()),
        (ErrorKind::Overloaded, "limit_write_queue")
    );
    go.send(()).expect("the job waits");
    slow.await.expect("no panic").expect("done");
}
