//! What builder and scheduler remember, and log lines, keep their form.

use futures::TryStreamExt as _;
use rusqlite::Connection;
use sless_core::{
    BuildId, Builder as _, Digest, ErrorKind, FunctionId, InvocationLog as _, InvocationQuery,
    JobId, LogLine, LogOptions, LogSource, LogStream, LogTarget, Name, Namespace, RunPhase,
    Scheduler as _, WorkloadPhase, resource::Uid,
};
use sless_local::{Local, LocalConfig};

use super::golden::{folder, restore, text_of};

const FUNCTION: &str = "e3204671-1696-4a03-bb9c-70149b978c9c";
const JOB: &str = "a9498325-3bdc-40f5-9d86-4a74d5c038d9";

fn function() -> FunctionId {
    FunctionId {
        namespace: Namespace::new("ns").expect("a namespace"),
        name: Name::new("hello").expect("a name"),
        uid: Uid::new(FUNCTION),
    }
}

fn job() -> JobId {
    JobId {
        namespace: Namespace::new("ns").expect("a namespace"),
        name: Name::new("once").expect("a name"),
        uid: Uid::new(JOB),
    }
}

fn build() -> BuildId {
    BuildId {
        function: function(),
        code: Digest::of(b"code"),
        runtime_version: "v0.1.0".to_owned(),
        attempt: 0,
    }
}

async fn open(folder: &tempfile::TempDir) -> sless_core::Result<Local> {
    Local::open(LocalConfig::new(folder.path())).await
}

/// What became of the runs of the job, by run id.
fn runs(folder: &tempfile::TempDir) -> Vec<(i64, String)> {
    let connection = Connection::open(folder.path().join("db/work.db")).expect("a database");
    let sql = "SELECT value FROM record WHERE kind = 'run' ORDER BY key";
    let mut statement = connection.prepare(sql).expect("a statement");
    let rows = statement.query_map([], |row| row.get::<_, String>(0));
    rows.expect("rows")
        .filter_map(|row| {
            let value: serde_json::Value = serde_json::from_str(&row.expect("a row")).ok()?;
            let phase = value["status"]["phase"].as_str()?.to_owned();
            Some((value["run_id"].as_i64()?, phase))
        })
        .collect()
}

async fn lines(stream: sless_core::Result<LogStream>) -> Vec<LogLine> {
    let stream = stream.expect("a log");
    stream.try_collect().await.expect("lines")
}

#[tokio::test]
async fn records_and_log_lines_of_version_1_are_read() {
    let folder = folder();
    restore(folder.path(), "v1", "work");
    let log = folder
        .path()
        .join(format!("logs/function-{FUNCTION}.jsonl"));
    std::fs::write(log, text_of("v1/function.jsonl")).expect("written");
    let log = folder
        .path()
        .join(format!("logs/build-{}.jsonl", build().short()));
    std::fs::write(log, text_of("v1/build.jsonl")).expect("written");

    let local = open(&folder).await.expect("opens");
    let status = local.scheduler().status(&function()).await;
    let status = status.expect("a status");
    assert_ne!(status.phase, WorkloadPhase::Absent, "{status:?}");
    assert!(status.applied.is_some(), "{status:?}");

    // A run that had ended stays so; one that was under way was cut off.
    assert_eq!(
        runs(&folder),
        [(1, "Succeeded".to_owned()), (2, "Failed".to_owned())]
    );
    let (target, options) = (LogTarget::Job(job()), LogOptions::default());
    let known = local.scheduler().logs(&target, &options).await;
    assert_eq!(
        lines(known).await,
        [],
        "a job that is known, and wrote nothing"
    );

    // An unreadable line loses only itself.
    let target = LogTarget::Function(function());
    let read = lines(
        local
            .scheduler()
            .logs(&target, &LogOptions::default())
            .await,
    )
    .await;
    let texts: Vec<_> = read.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(texts, ["höllo \"a\"", "it sleeps"]);
    assert_eq!(read[0].request_id.as_deref(), Some("r-1"));
    assert_eq!(read[0].source, LogSource::Stdout);
    let read = lines(local.builder().logs(&build(), &LogOptions::default()).await).await;
    assert_eq!(
        read.iter()
            .map(|line| (line.source, line.truncated))
            .collect::<Vec<_>>(),
        [(LogSource::Build, false), (LogSource::Stderr, true)]
    );
    local.shutdown().await;
}

/// The forms that are written today are those of version 1.
#[test]
fn log_lines_are_written_in_the_golden_form() {
    let read = |name: &str| -> Vec<(String, LogLine)> {
        let text = text_of(name);
        let lines = text.lines().map(str::to_owned);
        lines
            .filter_map(|line| Some((line.clone(), serde_json::from_str(&line).ok()?)))
            .collect()
    };
    for (text, line) in [read("v1/build.jsonl"), read("v1/function.jsonl")].concat() {
        if !text.contains("of_a_later_version") {
            assert_eq!(serde_json::to_string(&line).expect("JSON"), text);
        }
    }
}

#[tokio::test]
async fn an_unreadable_record_loses_only_itself() {
    let folder = folder();
    restore(folder.path(), "v1", "work");
    let connection = Connection::open(folder.path().join("db/work.db")).expect("a database");
    let damage = "UPDATE record SET value = '{\"job\":' WHERE kind = 'run' AND key LIKE '%/1';
                  UPDATE record SET value = 'x' WHERE kind = 'build'";
    connection.execute_batch(damage).expect("damaged");
    drop(connection);
    let local = open(&folder).await.expect("opens all the same");
    assert_eq!(runs(&folder), [(2, "Failed".to_owned())]);
    let status = local.scheduler().status(&function()).await;
    assert!(status.expect("a status").applied.is_some());
    let unknown = local.builder().logs(&build(), &LogOptions::default()).await;
    assert!(unknown.is_err_and(|error| error.is_not_found()));
    local.shutdown().await;
}

#[tokio::test]
async fn what_a_newer_version_wrote_is_refused() {
    for name in ["work", "invocations"] {
        let folder = folder();
        restore(folder.path(), "v1", name);
        let file = folder.path().join(format!("db/{name}.db"));
        let connection = Connection::open(file).expect("a database");
        connection
            .pragma_update(None, "user_version", 99)
            .expect("set");
        drop(connection);
        let error = open(&folder).await.expect_err("a newer one");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(error.reason(), "schema_too_new");
        let message = error.message();
        assert!(
            message.contains(name) && message.contains("99"),
            "{message}"
        );
    }
    let folder = folder();
    std::fs::write(folder.path().join("format"), "sless-local 2\n").expect("written");
    let error = open(&folder).await.expect_err("a newer one");
    assert_eq!(error.reason(), "format_unknown", "{error}");
}

#[tokio::test]
async fn records_of_calls_of_version_2_are_read() {
    let folder = folder();
    restore(folder.path(), "v2", "invocations");
    let local = open(&folder).await.expect("opens");
    let query = InvocationQuery::of_function(
        Namespace::new("ns").expect("a namespace"),
        Name::new("hello").expect("a name"),
        10,
    );
    let page = local.invocations().query(&query).await.expect("a page");
    let [failed, well] = page.items.as_slice() else {
        panic!("{page:?}")
    };
    assert_eq!(failed.caller.as_deref(), Some("192.0.2.7"));
    assert_eq!(failed.log_tail.as_deref(), Some("Traceback\n  höllo\n"));
    assert_eq!((failed.request_bytes, well.request_bytes), (9, 7));
    assert_eq!((&well.caller, &well.log_tail), (&None, &None));
    local.shutdown().await;
}

/// A run that had ended is not run again, though the golden file is all that tells of it.
#[tokio::test]
async fn a_run_of_version_1_is_remembered() {
    use sless_core::JobRun;
    let folder = folder();
    restore(folder.path(), "v1", "work");
    let connection = Connection::open(folder.path().join("db/work.db")).expect("a database");
    let sql = "SELECT value FROM record WHERE kind = 'workload'";
    let value: String = connection
        .query_row(sql, [], |row| row.get(0))
        .expect("a row");
    drop(connection);
    let value: serde_json::Value = serde_json::from_str(&value).expect("JSON");
    let workload = serde_json::from_value(value["applied"].clone()).expect("a workload");
    let local = open(&folder).await.expect("opens");
    let mut run = JobRun {
        job: job(),
        run_id: 1,
        workload,
        event: "{}".to_owned(),
        timeout: std::time::Duration::from_secs(1),
        began: false,
    };
    let status = local.scheduler().run_job(&run).await.expect("a status");
    assert_eq!(status.phase, RunPhase::Succeeded);
    assert_eq!(status.result.as_deref(), Some("{\"ok\":true}"));
    run.run_id = 2;
    let status = local.scheduler().run_job(&run).await.expect("a status");
    assert_eq!(status.failure.expect("why").reason, "interrupted");
    local.shutdown().await;
}
