//! New revisions.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use serde_json::json;
use sless_core::{CallContext, ErrorKind, Invoke, Workload, WorkloadPhase};

use super::{
    Case,
    case::{bytes_request, context},
};
use crate::{
    Fixture, Outcome, Violation,
    clause::{While as _, ensure, ensure_eq, refused},
};

/// Calls a function all the time.
struct Load {
    stop: Arc<AtomicBool>,
    /// Set once the new revision serves: calls that begin after that get its answer.
    switched: Arc<AtomicBool>,
    calls: Arc<AtomicU64>,
    callers: Vec<tokio::task::JoinHandle<Outcome>>,
}

impl Load {
    fn begin(invoker: &Arc<dyn Invoke>, new: &'static str) -> Self {
        let (stop, switched, calls) = (
            Arc::<AtomicBool>::default(),
            Arc::<AtomicBool>::default(),
            Arc::<AtomicU64>::default(),
        );
        let callers = (0..4).map(|_| {
            let (invoker, calls) = (invoker.clone(), Arc::clone(&calls));
            let (stop, switched) = (stop.clone(), switched.clone());
            tokio::spawn(async move {
                while !stop.load(Ordering::SeqCst) {
                    let late = switched.load(Ordering::SeqCst);
                    let answer = call_once(&invoker, &context()).await?;
                    ensure!(
                        !late || answer == new,
                        "{answer} answered after {new} served"
                    );
                    calls.fetch_add(1, Ordering::Relaxed);
                    tokio::task::yield_now().await;
                }
                Ok(())
            })
        });
        let callers = callers.collect();
        Self {
            stop,
            switched,
            calls,
            callers,
        }
    }

    /// Waits for so many further calls.
    async fn more(&self, case: &Case<'_>, calls: u64) -> Outcome {
        let until = self.calls.load(Ordering::Relaxed) + calls;
        crate::harness::eventually!(case.harness, format!("{calls} further calls end"), {
            let done = self.calls.load(Ordering::Relaxed);
            let failed = self.callers.iter().any(|caller| caller.is_finished());
            crate::harness::when(done >= until || failed, done)
        });
        Ok(())
    }

    async fn end(self, case: &Case<'_>) -> Outcome {
        self.stop.store(true, Ordering::SeqCst);
        for caller in self.callers {
            let ended = case.passing(caller).await;
            ended.map_err(|error| Violation::new(error.to_string()))??;
        }
        Ok(())
    }
}

/// Calls an echo, and answers which version of it answered.
async fn call_once(invoker: &Arc<dyn Invoke>, context: &CallContext) -> Result<String, Violation> {
    let response = invoker.invoke(bytes_request("x"), context).await;
    let (parts, body) = response.while_("calling during a rollout")?.into_parts();
    let body = body
        .bytes(100)
        .await
        .while_("reading an answer during a rollout")?;
    ensure_eq!(
        parts.status,
        http::StatusCode::OK,
        "the status during a rollout, body {body:?}"
    );
    ensure_eq!(&body[..], b"x", "the answer during a rollout");
    let version = parts
        .headers
        .get("x-fixture")
        .and_then(|value| value.to_str().ok());
    Ok(version.unwrap_or_default().to_owned())
}

async fn version(case: &Case<'_>, invoker: &Arc<dyn Invoke>) -> Result<String, Violation> {
    case.passing(call_once(invoker, &context())).await
}

pub(super) async fn a_new_revision_takes_over_without_a_failed_call(case: &Case<'_>) -> Outcome {
    let (old, invoker) = case.running(Fixture::Echo).await?;
    let new = case.workload(&old.function, Fixture::EchoV2).await?;
    let load = Load::begin(&invoker, "echo-2");
    load.more(case, 20).await?;
    let ready = case.ready(&new).await;
    if ready
        .as_ref()
        .is_ok_and(|status| status.serving == Some(new.revision()))
    {
        load.switched.store(true, Ordering::SeqCst);
        load.more(case, 40).await?;
    }
    load.end(case).await?;
    let status = ready?;
    ensure_eq!(
        status.serving,
        Some(new.revision()),
        "what serves when the new one is ready"
    );
    ensure_eq!(
        version(case, &invoker).await?,
        "echo-2",
        "what answers at the end"
    );
    Ok(())
}

pub(super) async fn serving_names_what_answers(case: &Case<'_>) -> Outcome {
    let (mut workload, invoker) = case.running(Fixture::Echo).await?;
    for round in 0..4 {
        let fixture = if round % 2 == 0 {
            Fixture::EchoV2
        } else {
            Fixture::Echo
        };
        let next = case.workload(&workload.function, fixture).await?;
        let (old, new) = (workload.revision(), next.revision());
        ensure!(old != new, "another version has the same revision");
        case.applied(&next, "serving the new revision", |status| {
            ensure_eq!(status.applied, Some(new), "the revision that was applied");
            let known = status.serving == Some(old) || status.serving == Some(new);
            ensure!(
                known,
                "it serves neither the old nor the new one: {status:?}"
            );
            Ok(status.serving == Some(new) && status.phase == WorkloadPhase::Ready)
        })
        .await?;
        let expected = if round % 2 == 0 { "echo-2" } else { "echo-1" };
        ensure_eq!(version(case, &invoker).await?, expected, "what answers");
        workload = next;
    }
    Ok(())
}

async fn bad(case: &Case<'_>, old: &Workload) -> Result<Option<Workload>, Violation> {
    case.optional_workload(&old.function, Fixture::BadImport)
        .await
}

pub(super) async fn a_revision_that_cannot_start_leaves_the_old_one_serving(
    case: &Case<'_>,
) -> Outcome {
    let (old, invoker) = case.running(Fixture::Echo).await?;
    let Some(broken) = bad(case, &old).await? else {
        return Ok(());
    };
    let load = Load::begin(&invoker, "echo-1");
    load.switched.store(true, Ordering::SeqCst);
    let failed = case
        .applied(&broken, "failed", |status| {
            ensure!(
                status.phase != WorkloadPhase::Ready,
                "it is ready: {status:?}"
            );
            Ok(status.phase == WorkloadPhase::Failed)
        })
        .await;
    load.more(case, 20).await?;
    load.end(case).await?;
    let status = failed?;
    ensure_eq!(
        status.serving,
        Some(old.revision()),
        "what serves after a bad revision"
    );
    ensure_eq!(status.applied, Some(broken.revision()), "what was applied");
    ensure!(status.failure.is_some(), "the status does not say why");
    let good = case.workload(&old.function, Fixture::EchoV2).await?;
    case.ready(&good)
        .await
        .while_("applying a good revision after a bad one")?;
    ensure_eq!(
        version(case, &invoker).await?,
        "echo-2",
        "what answers after that"
    );
    Ok(())
}

pub(super) async fn a_workload_that_cannot_start_is_failed_and_says_why(
    case: &Case<'_>,
) -> Outcome {
    let function = case.function("f")?;
    let Some(broken) = case
        .optional_workload(&function, Fixture::BadImport)
        .await?
    else {
        return Ok(());
    };
    let status = case
        .applied(&broken, "failed", |status| {
            ensure!(
                status.phase != WorkloadPhase::Ready,
                "it is ready: {status:?}"
            );
            Ok(status.phase == WorkloadPhase::Failed)
        })
        .await?;
    ensure_eq!(status.serving, None, "what serves");
    ensure_eq!(status.ready_replicas, 0, "how many copies answer");
    let failure = status
        .failure
        .ok_or_else(|| Violation::new("the status does not say why"))?;
    ensure!(
        !failure.reason.is_empty(),
        "there is no machine word: {failure:?}"
    );
    ensure!(
        !failure.message.is_empty(),
        "there is no sentence: {failure:?}"
    );
    let invoker = case.scheduler().await?.invoker(&function).await?;
    let call = case.post(&invoker, &json!({})).await;
    let error = refused(call, ErrorKind::Unavailable, "calling what cannot start")?;
    ensure_eq!(
        error.reason(),
        failure.reason,
        "the reason that a caller gets"
    );
    Ok(())
}

pub(super) async fn another_environment_is_another_revision(case: &Case<'_>) -> Outcome {
    let mut workload = case.workload(&case.function("f")?, Fixture::Env).await?;
    let ask = json!({ "names": ["FIXTURE_VALUE"] });
    let mut invoker = None;
    for value in ["one", "two"] {
        workload
            .env
            .insert("FIXTURE_VALUE".to_owned(), value.to_owned());
        case.ready(&workload).await?;
        if invoker.is_none() {
            invoker = Some(case.scheduler().await?.invoker(&workload.function).await?);
        }
        let Some(invoker) = &invoker else {
            return Ok(());
        };
        let seen = case.ask(invoker, &ask).await?;
        ensure_eq!(
            seen,
            json!({ "FIXTURE_VALUE": value }),
            "the environment of a new revision"
        );
    }
    Ok(())
}
