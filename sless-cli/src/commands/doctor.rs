//! `sless doctor`.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::Serialize;
use sless_api::{ListQuery, client::Client};

use super::shown;
use crate::{
    args::Globals,
    contexts::Store,
    failure::{Exit, Failure, Result, chain},
    output::{Output, Paint},
    session::Known,
};

const EXAMPLES: &str = "\
Examples:
  $ sless doctor
  $ sless doctor -o json";

/// How far clocks may be apart: a token is checked to the second, with half a minute's grace.
const CLOCKS_APART: Duration = Duration::from_secs(30);

/// How soon a token's end deserves a word.
const ENDS_SOON: Duration = Duration::from_secs(3600);

/// Check server, token, namespace and clock, and say what to do about what is wrong.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

/// What came of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    Warning,
    Wrong,
    /// Something before it is wrong.
    Skipped,
}

/// One check.
#[derive(Debug, Serialize)]
struct Check {
    check: &'static str,
    state: State,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// All of them, in order.
#[derive(Debug, Default)]
struct Checks(Vec<Check>);

impl Checks {
    fn add(&mut self, check: &'static str, state: State, detail: impl Into<String>) -> &mut Self {
        let detail = detail.into();
        self.0.push(Check {
            check,
            state,
            detail,
            next: None,
        });
        self
    }

    fn next(&mut self, next: impl Into<String>) {
        if let Some(check) = self.0.last_mut() {
            check.next = Some(next.into());
        }
    }
}

pub(crate) async fn run(Args {}: &Args, globals: &Globals, output: &Output) -> Result<()> {
    let mut checks = Checks::default();
    match Known::of(globals) {
        Ok(known) => {
            setup(&mut checks, &known);
            match known.client(globals) {
                Ok(client) => server(&mut checks, &known, &client).await,
                Err(failure) => {
                    checks.add("server", State::Wrong, failure.to_string());
                }
            }
        }
        Err(failure) => {
            checks.add("context", State::Wrong, failure.to_string());
            if let Some(next) = failure.next() {
                checks.next(next);
            }
        }
    }
    show(&checks.0, output)?;
    match checks
        .0
        .iter()
        .filter(|check| check.state == State::Wrong)
        .count()
    {
        0 => Ok(()),
        1 => Err(Failure::new(
            Exit::Failed,
            "one check found something wrong",
        )),
        wrong => Err(Failure::new(
            Exit::Failed,
            format!("{wrong} checks found something wrong"),
        )),
    }
}

fn show(checks: &[Check], output: &Output) -> Result<()> {
    if !output.is_for_people() {
        return output.value(&checks);
    }
    let rows = checks.iter().map(|check| {
        let (paint, word) = match check.state {
            State::Ok => (Paint::Good, "ok"),
            State::Warning => (Paint::Busy, "warning"),
            State::Wrong => (Paint::Bad, "wrong"),
            State::Skipped => (Paint::Faint, "skipped"),
        };
        let next = check.next.as_ref().map(|next| format!(" → {next}"));
        let detail = format!("{}{}", shown::safe(&check.detail), next.unwrap_or_default());
        vec![
            check.check.to_owned(),
            output.paint(paint, word).into_owned(),
            detail,
        ]
    });
    output.table(&["CHECK", "STATE", "DETAIL"], rows.collect())
}

/// What can be told without the server.
fn setup(checks: &mut Checks, known: &Known) {
    let store = Store::of_user().ok().filter(Store::is_open_to_others);
    match (&known.context, store) {
        (_, Some(store)) => checks
            .add(
                "context",
                State::Warning,
                "others on this machine can read the contexts file",
            )
            .next(format!("chmod 600 {}", store.path().display())),
        (Some(name), None) => {
            checks.add("context", State::Ok, format!("{name}: {}", known.endpoint));
        }
        (None, None) => {
            checks.add(
                "context",
                State::Ok,
                format!("none used: {}", known.endpoint),
            );
        }
    }
    let now = Timestamp::now();
    match known.claims() {
        None => checks
            .add("token", State::Wrong, "there is none")
            .next("sless login --server URL, or set SLESS_API_TOKEN"),
        Some(Err(problem)) => {
            checks
                .add("token", State::Wrong, problem)
                .next("sign in with a token of the server");
        }
        Some(Ok(claims)) if claims.is_expired(now) => {
            checks
                .add("token", State::Wrong, "it has expired")
                .next("sless login");
        }
        Some(Ok(claims)) => {
            let until = claims
                .expires
                .map(|at| format!(", until {}", shown::time(at)));
            let detail = format!("of {}{}", claims.subject, until.unwrap_or_default());
            let soon = |at: Timestamp| at.duration_since(now).unsigned_abs() < ENDS_SOON;
            if claims.expires.is_some_and(soon) {
                checks
                    .add("token", State::Warning, detail)
                    .next("it ends within an hour");
            } else {
                checks.add("token", State::Ok, detail);
            }
        }
    }
}

/// What the server tells.
async fn server(checks: &mut Checks, known: &Known, client: &Client) {
    let began = Instant::now();
    let server_time = match client.server_time().await {
        Ok(time) => time,
        Err(error) => {
            checks
                .add("server", State::Wrong, chain(&error))
                .next("is it running, and is the address right? --server names another one");
            for check in ["ready", "version", "clock", "access", "namespace"] {
                checks.add(check, State::Skipped, "");
            }
            return;
        }
    };
    let took = began.elapsed();
    checks.add(
        "server",
        State::Ok,
        format!("answers in {} ms", took.as_millis()),
    );
    ready(checks, client).await;
    version(checks, client).await;
    clock(checks, server_time, took);
    access(checks, known, client).await;
}

async fn ready(checks: &mut Checks, client: &Client) {
    match client.readiness().await {
        Ok(readiness) if readiness.ready => {
            checks.add("ready", State::Ok, "all parts are");
        }
        Ok(readiness) => {
            let parts = readiness.parts.iter().filter(|(_, word)| *word != "ok");
            let parts: Vec<_> = parts
                .map(|(part, word)| format!("{part}: {word}"))
                .collect();
            checks
                .add("ready", State::Wrong, parts.join(", "))
                .next("the server's log says why");
        }
        Err(error) => {
            checks.add("ready", State::Wrong, chain(&error));
        }
    }
}

async fn version(checks: &mut Checks, client: &Client) {
    const OWN: &str = env!("CARGO_PKG_VERSION");
    let document = client.openapi().await.ok();
    let document = document.and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
    let theirs = document
        .as_ref()
        .and_then(|document| document["info"]["version"].as_str());
    let minor = |version: &str| version.rsplit_once('.').map(|(minor, _)| minor.to_owned());
    match theirs {
        Some(theirs) if minor(theirs) == minor(OWN) => {
            checks.add("version", State::Ok, format!("{theirs}, as this command's"));
        }
        Some(theirs) => checks
            .add(
                "version",
                State::Warning,
                format!("{theirs}; this command is {OWN}"),
            )
            .next("install the command of the server's version"),
        None => checks
            .add("version", State::Wrong, "the server does not tell one")
            .next("is it a sless server?"),
    }
}

fn clock(checks: &mut Checks, server: Option<Timestamp>, took: Duration) {
    let Some(server) = server else {
        checks.add("clock", State::Warning, "the server does not tell the time");
        return;
    };
    // The server tells whole seconds, and its answer was under way for a while.
    let apart = Timestamp::now().duration_since(server).unsigned_abs();
    let apart = apart.saturating_sub(took + Duration::from_secs(1));
    if apart < CLOCKS_APART {
        checks.add(
            "clock",
            State::Ok,
            format!("less than {} s apart", apart.as_secs() + 1),
        );
    } else {
        checks
            .add(
                "clock",
                State::Wrong,
                format!("{} s apart from the server's", apart.as_secs()),
            )
            .next("set this machine's clock, or the server's: tokens begin and end by it");
    }
}

async fn access(checks: &mut Checks, known: &Known, client: &Client) {
    let namespace = match (known.namespace(), &known.token) {
        (Ok(namespace), Some(_)) => namespace,
        _ => {
            checks
                .add("access", State::Skipped, "")
                .add("namespace", State::Skipped, "");
            return;
        }
    };
    let query = ListQuery {
        limit: Some(1),
        ..ListQuery::default()
    };
    match client.functions(&namespace, &query).await {
        Ok(_) => {
            checks.add("access", State::Ok, "the token is accepted");
            checks.add("namespace", State::Ok, namespace);
        }
        Err(error) if error.is_not_found() => {
            checks.add("access", State::Ok, "the token is accepted");
            let detail = format!("{namespace} is not there yet");
            checks
                .add("namespace", State::Ok, detail)
                .next("the first deploy makes it");
        }
        Err(error) => {
            let failure = Failure::from(error);
            checks.add("access", State::Wrong, format!("{namespace}: {failure}"));
            if let Some(next) = failure.next() {
                checks.next(next);
            }
            checks.add("namespace", State::Skipped, "");
        }
    }
}
