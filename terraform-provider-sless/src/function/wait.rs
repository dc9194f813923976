//! Waiting until a function is ready.

use std::time::Duration;

use futures::StreamExt as _;
use sless_api::{Function, FunctionPhase, LogQuery, LogSource};
use tfplugin::{Interrupt, Operation, Value};
use tokio::time::Instant;

use super::{FIELDS, read, schema::BUILD_TIMEOUT_SEC};
use crate::{
    api::{self, Failed, Patience},
    session::Session,
};

/// Lines of a build's log in an error.
const LOG_LINES: usize = 20;

/// Lines of a log that are asked for, those of runs included.
const LOG_TAIL: usize = 500;

/// How long to ask for a log when time is up.
const LOG_TIMEOUT: Duration = Duration::from_secs(5);

/// Waits until a function is ready or off, and tells where it will not be.
pub(super) async fn until_ready(
    operation: &Operation,
    session: &Session,
    state: &mut Value,
    mut function: Function,
) {
    let name = state.at("name").as_str().unwrap_or_default().to_owned();
    let seconds = state
        .at("build_timeout_sec")
        .as_i64()
        .filter(|seconds| *seconds > 0);
    let seconds = seconds.unwrap_or(BUILD_TIMEOUT_SEC).unsigned_abs();
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let mut patience = Patience::new();
    let mut last = String::new();
    loop {
        let now = progress(&function);
        if now != last {
            tracing::info!(function = name, "{now}");
            patience.look_often();
            last = now;
        }
        read::put_seen(state, &function);
        operation.save(state);
        match function.phase {
            FunctionPhase::Ready | FunctionPhase::Stopped => return,
            FunctionPhase::Failed => {
                let reason = function.reason.as_deref().unwrap_or("no reason");
                let message = function.message.as_deref().unwrap_or_default();
                operation.error(
                    format!("The function {name} is not ready: {reason}"),
                    format!("{message}\n\nThe function exists; applying again tries it again."),
                );
                return;
            }
            _ => {}
        }
        let ended = if Instant::now() >= deadline {
            Err(format!("`build_timeout_sec` of {seconds} s"))
        } else {
            match patience.pause(operation).await {
                Ok(()) => Ok(()),
                Err(Interrupt::Stopped) => {
                    let doing = format!("waiting for the function {name}");
                    let (summary, detail) = api::interrupted(operation, Interrupt::Stopped, &doing);
                    return operation.error(summary, format!("{detail} It exists and is {last}."));
                }
                Err(_) => {
                    let limit = tfplugin::timeouts::show(operation.timeout());
                    Err(format!("`timeouts` of {limit}"))
                }
            }
        };
        if let Err(limit) = ended {
            let log = log_end(session, &name).await;
            return operation.error(
                format!("The function {name} did not become ready in time"),
                format!("The limit {limit} was reached. It exists and is {last}.{log}"),
            );
        }
        match api::again(operation, || {
            session.client.function(&session.namespace, &name)
        })
        .await
        {
            Ok(found) => function = found,
            Err(Failed::Interrupted(_)) => {}
            Err(failed) => {
                let summary = format!("The function {name} exists, and cannot be looked at");
                return api::tell_failed(operation, session, &summary, "waiting", &failed, FIELDS);
            }
        }
    }
}

/// How far a function is, in a few words.
fn progress(function: &Function) -> String {
    let mut text = format!("{:?}", function.phase);
    for part in [&function.reason, &function.message].into_iter().flatten() {
        let line = part.lines().next().unwrap_or_default();
        text.push_str(": ");
        text.push_str(line);
    }
    text
}

/// The end of the build's log, to be put behind a sentence.
async fn log_end(session: &Session, name: &str) -> String {
    let read = async {
        let query = LogQuery {
            tail: Some(LOG_TAIL),
            ..LogQuery::default()
        };
        let lines = session
            .client
            .logs(&session.namespace, name, &query)
            .await
            .ok()?;
        let build = lines.filter_map(|line| async {
            let line = line.ok().filter(|line| line.source == LogSource::Build)?;
            Some(line.text)
        });
        let lines: Vec<_> = build.collect().await;
        let from = lines.len().saturating_sub(LOG_LINES);
        (!lines.is_empty()).then(|| lines[from..].join("\n"))
    };
    match tokio::time::timeout(LOG_TIMEOUT, read).await.ok().flatten() {
        Some(log) => format!("\n\nThe end of the build's log:\n{log}"),
        None => String::new(),
    }
}
