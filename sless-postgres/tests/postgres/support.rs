//! Databases of tests.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use sless_core::{Invocation, InvocationLog as _, InvocationQuery, Name, Namespace, Origin, Uid};
use sless_postgres::{PostgresConfig, PostgresInvocationLog};
use tokio_postgres::{Client, NoTls};

/// Longer than anything may take here on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What `testing/postgres/up` has printed.
pub(crate) fn setting(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: see testing/postgres/up"))
}

pub(crate) fn url() -> String {
    setting("SLESS_TEST_POSTGRES_URL")
}

/// A schema of its own in the tests' database.
#[derive(Debug)]
pub(crate) struct Schema {
    pub(crate) url: String,
    pub(crate) name: String,
}

impl Schema {
    pub(crate) fn new() -> Self {
        Self::at(url())
    }

    pub(crate) fn at(url: String) -> Self {
        let tag = Uid::random().as_str().replace('-', "");
        Self {
            url,
            name: format!("test \"{tag}\""),
        }
    }

    pub(crate) fn config(&self) -> PostgresConfig {
        PostgresConfig::new(&self.url).with_schema(&self.name)
    }

    pub(crate) async fn log(&self) -> PostgresInvocationLog {
        let connected = PostgresInvocationLog::connect(self.config()).await;
        connected.expect("the database answers")
    }

    /// A connection that finds the table, past the log.
    pub(crate) async fn client(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls)
            .await
            .expect("the database answers");
        tokio::spawn(connection);
        let quoted = self.name.replace('"', "\"\"");
        let path = format!("SET search_path TO \"{quoted}\"");
        client.batch_execute(&path).await.expect("a search path");
        client
    }

    pub(crate) async fn drop(&self) {
        let quoted = self.name.replace('"', "\"\"");
        let statement = format!("DROP SCHEMA IF EXISTS \"{quoted}\" CASCADE");
        let dropped = self.client().await.batch_execute(&statement).await;
        dropped.expect("dropped");
    }

    pub(crate) async fn count(&self) -> i64 {
        let sql = "SELECT count(*) FROM sless_invocations";
        let row = self.client().await.query_one(sql, &[]).await;
        row.expect("a count").get(0)
    }
}

pub(crate) fn namespace() -> Namespace {
    Namespace::new("ns").expect("a namespace")
}

pub(crate) fn function() -> Name {
    Name::new("hello").expect("a name")
}

/// A record of a call so many seconds ago.
pub(crate) fn record(seconds: i64) -> Invocation {
    Invocation {
        id: Uid::random(),
        request_id: "request".to_owned(),
        namespace: namespace(),
        function: function(),
        origin: Origin::Http,
        cause: None,
        caller: None,
        attempt: 1,
        started_at: Timestamp::now() - SignedDuration::from_secs(seconds),
        duration: Duration::from_millis(7),
        status: 200,
        error: None,
        request_bytes: 3,
        response_bytes: 2,
        log_tail: Some("a line\n".to_owned()),
    }
}

/// The ids of all records of the function, page by page.
pub(crate) async fn all_ids(log: &PostgresInvocationLog) -> Vec<Uid> {
    let mut query = InvocationQuery::of_function(namespace(), function(), 700);
    let mut ids = Vec::new();
    loop {
        let page = log.query(&query).await.expect("a page");
        ids.extend(page.items.into_iter().map(|record| record.id));
        match page.next {
            Some(next) => query.cursor = Some(next),
            None => return ids,
        }
    }
}

/// Looks until the condition holds.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, look: impl Fn() -> F) {
    let began = Instant::now();
    while !look().await {
        assert!(began.elapsed() < PATIENCE, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A server of one test's own, which it may stop.
#[derive(Debug)]
pub(crate) struct Server {
    state: PathBuf,
    _folder: tempfile::TempDir,
    pub(crate) url: String,
    control: String,
}

impl Server {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let state = folder.path().join("state");
        let up = Command::new(program("up")).arg(&state).output();
        let up = up.expect("testing/postgres/up runs");
        let errors = String::from_utf8_lossy(&up.stderr);
        assert!(up.status.success(), "{errors}");
        let text = String::from_utf8(up.stdout).expect("UTF-8");
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.strip_prefix('='))
                .unwrap_or_else(|| panic!("no {name} in {text}"))
                .to_owned()
        };
        Self {
            url: value("SLESS_TEST_POSTGRES_URL"),
            control: value("SLESS_TEST_POSTGRES_CTL"),
            state,
            _folder: folder,
        }
    }

    /// `start`, `stop fast` or `stop immediate`.
    pub(crate) async fn control(&self, words: &[&str]) {
        let status = tokio::process::Command::new(&self.control)
            .args(words)
            .status()
            .await;
        let status = status.expect("the control program runs");
        assert!(status.success(), "{words:?}: {status}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let down = Command::new(program("down")).arg(&self.state).status();
        assert!(down.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../testing/postgres")
        .join(name)
}
