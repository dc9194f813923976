//! A server whose invocation log is in PostgreSQL, and what becomes of it while the database is away.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use sless_api::{
    Invocation, InvocationOrigin, InvocationsQuery,
    client::{Call, Content},
};

use super::{
    machine::{Machine, python},
    process::{DEADLINE, LOOK},
};

const HANDLER: &str = "import sys

def handle(event, context):
    print('got', event.get('n'))
    if event.get('fail'):
        raise ValueError('no good')
    return event
";

/// A database server of this test's own, which it may stop.
struct Database {
    state: PathBuf,
    _folder: tempfile::TempDir,
    url: String,
    control: String,
}

impl Database {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let up = Command::new(program("up")).arg(&state).output().unwrap();
        assert!(
            up.status.success(),
            "{}",
            String::from_utf8_lossy(&up.stderr)
        );
        let text = String::from_utf8(up.stdout).unwrap();
        let value = |name: &str| {
            let mut lines = text.lines();
            let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            found.unwrap().to_owned()
        };
        Self {
            url: value("SLESS_TEST_POSTGRES_URL"),
            control: value("SLESS_TEST_POSTGRES_CTL"),
            state,
            _folder: folder,
        }
    }

    async fn control(&self, words: &[&str]) {
        let mut command = tokio::process::Command::new(&self.control);
        assert!(command.args(words).status().await.unwrap().success());
    }
}

impl Drop for Database {
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

async fn call(machine: &Machine, event: &str) -> u16 {
    let call = Call::new("POST")
        .with_header("content-type", "application/json")
        .with_body(Content::bytes(event.to_owned().into_bytes()));
    machine.call("hello", call).await.0
}

/// All pages of a query.
async fn recorded(machine: &Machine, mut query: InvocationsQuery) -> Vec<Invocation> {
    let mut all = Vec::new();
    loop {
        let asked = machine
            .client
            .invocations(&machine.namespace, "hello", &query);
        let page = asked.await.unwrap();
        all.extend(page.items);
        match page.next {
            Some(next) => query.cursor = Some(next),
            None => return all,
        }
    }
}

async fn until(what: &str, machine: &Machine, count: usize) -> Vec<Invocation> {
    let began = Instant::now();
    loop {
        let query = InvocationsQuery {
            limit: Some(3),
            ..Default::default()
        };
        let all = recorded(machine, query).await;
        if all.len() >= count {
            return all;
        }
        assert!(began.elapsed() < DEADLINE, "{what}: {}", all.len());
        tokio::time::sleep(LOOK).await;
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: testing/postgres/up"]
async fn calls_are_recorded_in_postgres_and_go_on_without_it() {
    let (data, database) = (tempfile::tempdir().unwrap(), Database::start());
    let settings = [("DATABASE_URL", &*database.url)];
    let machine = Machine::start_with(data.path(), &settings).await;
    machine
        .deploy(python("hello"), &[("handler.py", HANDLER)])
        .await;
    for n in 0..6 {
        assert_eq!(call(&machine, &format!("{{\"n\": {n}}}")).await, 200);
    }
    assert_eq!(call(&machine, "{\"n\": 6, \"fail\": true}").await, 500);
    let all = until("calls are recorded", &machine, 7).await;
    assert_eq!(all.len(), 7);
    assert!(all.is_sorted_by(|a, b| a.started_at >= b.started_at));
    let failed = &all[0];
    assert_eq!((failed.status, failed.request_bytes), (500, 22));
    let tail = failed.log_tail.clone().unwrap();
    assert!(
        tail.starts_with("got 6\n") && tail.contains("ValueError: no good"),
        "{tail}"
    );
    assert_eq!(all[6].log_tail.as_deref(), Some("got 0\n"));
    assert_eq!(all[6].caller.as_deref(), Some("127.0.0.1"));
    assert_eq!(all[6].origin, InvocationOrigin::Http);
    let only = |query: InvocationsQuery| recorded(&machine, query);
    let query = InvocationsQuery {
        failed: true,
        ..Default::default()
    };
    let found = only(query).await;
    assert_eq!(found.as_slice(), std::slice::from_ref(failed));
    let query = InvocationsQuery {
        since: Some(all[2].started_at),
        ..Default::default()
    };
    assert_eq!(only(query).await.len(), 3);
    let query = InvocationsQuery {
        origin: Some(InvocationOrigin::Event),
        ..Default::default()
    };
    assert_eq!(only(query).await, []);

    // The database goes away: calls go on, and readiness tells without saying no.
    database.control(&["stop", "immediate"]).await;
    for n in 7..17 {
        assert_eq!(call(&machine, &format!("{{\"n\": {n}}}")).await, 200);
    }
    let ready = "GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let began = Instant::now();
    loop {
        let answer = machine.exchange(ready).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        if answer.contains("\"invocation_log\":\"") && !answer.contains("\"invocation_log\":\"ok\"")
        {
            break;
        }
        assert!(began.elapsed() < DEADLINE, "{answer}");
        tokio::time::sleep(LOOK).await;
    }
    let query = InvocationsQuery::default();
    let asked = machine
        .client
        .invocations(&machine.namespace, "hello", &query);
    assert!(asked.await.is_err(), "nobody can read it now");
    database.control(&["start"]).await;
    let all = until_answered(&machine, 17).await;
    assert_eq!(all.len(), 17);
    machine.stop().await;

    // Another server, with an empty data folder, finds them.
    database.control(&["stop", "fast"]).await;
    let data = tempfile::tempdir().unwrap();
    let machine = Machine::start_with(data.path(), &settings).await;
    machine
        .deploy(python("hello"), &[("handler.py", HANDLER)])
        .await;
    assert_eq!(call(&machine, "{\"n\": 17}").await, 200);
    database.control(&["start"]).await;
    let all = until_answered(&machine, 18).await;
    assert_eq!(
        all.len(),
        18,
        "what waited since before the first connection, too"
    );
    machine.stop().await;
}

/// As [`until`], while the database may not be back yet.
async fn until_answered(machine: &Machine, count: usize) -> Vec<Invocation> {
    let began = Instant::now();
    let query = InvocationsQuery::default();
    loop {
        let asked = machine
            .client
            .invocations(&machine.namespace, "hello", &query);
        if asked.await.is_ok_and(|page| page.items.len() >= count) {
            return until("they are there", machine, count).await;
        }
        assert!(began.elapsed() < DEADLINE);
        tokio::time::sleep(LOOK).await;
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: testing/postgres/up"]
async fn a_wrong_database_url_stops_the_start_and_is_named() {
    for (url, named) in [
        (
            "postgres://sless:hunter2@127.0.0.1/x?sslmode=allow",
            "sslmode",
        ),
        ("mysql://sless:hunter2@127.0.0.1/x", "expected postgres://"),
    ] {
        let data = tempfile::tempdir().unwrap();
        let mut serve = super::process::command(Some(data.path()), ["serve"]);
        serve
            .env("SLESS_LISTEN", "127.0.0.1:0")
            .env("DATABASE_URL", url);
        let ended = serve.output().unwrap();
        assert!(!ended.status.success());
        let told = String::from_utf8_lossy(&ended.stderr);
        assert!(
            told.contains("DATABASE_URL") && told.contains(named),
            "{told}"
        );
        assert!(!told.contains("hunter2"), "{told}");
    }
}
