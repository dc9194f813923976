//! Jobs.

use std::time::Duration;

use serde_json::{Value, json};
use sless_core::{ErrorKind, JobRun, LogOptions, LogTarget, Receipt, RunPhase, RunStatus, reason};

use super::{Case, apply::hinted};
use crate::{
    Fixture, Outcome, Violation,
    clause::{While as _, ensure, ensure_eq, refused},
    harness::{eventually, when},
};

const RAN: &str = "the job ran";

/// A run that has failed: why.
async fn failed(case: &Case<'_>, run: &JobRun) -> Result<sless_core::Failure, Violation> {
    let status = case.ended(run).await?;
    ensure_eq!(status.phase, RunPhase::Failed, "the phase of {status:?}");
    ensure!(
        status.result.is_none(),
        "a failed run has a result: {status:?}"
    );
    ensure!(
        status.finished_at.is_some(),
        "it does not say when it ended: {status:?}"
    );
    status
        .failure
        .ok_or_else(|| Violation::new("a failed run does not say why"))
}

/// Waits until a run is under way.
async fn under_way(case: &Case<'_>, run: &JobRun) -> Outcome {
    let scheduler = case.scheduler().await?;
    let target = LogTarget::Job(run.job.clone());
    eventually!(case.harness, "the run is under way", {
        let status = case
            .passing(scheduler.run_job(run))
            .await
            .while_("running a job")?;
        ensure!(!status.phase.is_terminal(), "it ended already: {status:?}");
        let running = status.phase == RunPhase::Running;
        when(running && case.count(&target, RAN).await? > 0, status)
    });
    Ok(())
}

pub(super) async fn a_job_runs_and_gives_its_result(case: &Case<'_>) -> Outcome {
    let event = json!({ "number": 1.5, "text": "ü\n", "list": [null, true, {}] });
    let run = case.run(&event).await?;
    let status = case.ended(&run).await?;
    ensure_eq!(status.phase, RunPhase::Succeeded, "the phase of {status:?}");
    ensure!(
        status.failure.is_none(),
        "a run that succeeded has a failure: {status:?}"
    );
    let RunStatus {
        started_at: Some(started),
        finished_at: Some(finished),
        ..
    } = status
    else {
        return Err(Violation::new(format!(
            "it does not say when it ran: {status:?}"
        )));
    };
    ensure!(
        started <= finished,
        "it began at {started} and ended at {finished}"
    );
    let result: Value = serde_json::from_str(status.result.as_deref().unwrap_or_default())
        .map_err(|error| Violation::new(format!("the result is not JSON: {error}")))?;
    ensure_eq!(result, json!({ "got": event }), "the result");
    Ok(())
}

pub(super) async fn a_run_happens_once(case: &Case<'_>) -> Outcome {
    let run = case.run(&json!({ "ms": 200 })).await?;
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let (scheduler, run) = (case.scheduler().await?, run.clone());
        tasks.push(tokio::spawn(async move {
            scheduler.run_job(&run).await.map(drop)
        }));
    }
    for task in tasks {
        let asked = case
            .passing(task)
            .await
            .map_err(|error| Violation::new(error.to_string()))?;
        asked.while_("running a job")?;
    }
    let first = case.ended(&run).await?;
    ensure_eq!(first.phase, RunPhase::Succeeded, "the phase of {first:?}");
    for _ in 0..3 {
        let again = case.passing(case.scheduler().await?.run_job(&run)).await?;
        ensure_eq!(again, first, "what a run that has ended answers");
    }
    let target = LogTarget::Job(run.job.clone());
    eventually!(case.harness, "the run is seen in its log", {
        let seen = case.count(&target, RAN).await?;
        when(seen > 0, seen)
    });
    case.harness.pass(case.harness.quiet()).await;
    ensure_eq!(case.count(&target, RAN).await?, 1, "how often it ran");
    Ok(())
}

pub(super) async fn another_run_id_is_another_run(case: &Case<'_>) -> Outcome {
    let first = case.run(&json!({ "run": 1 })).await?;
    let mut second = first.clone();
    second.run_id = 7;
    second.event = json!({ "run": 7 }).to_string();
    let before = case.ended(&first).await?;
    let after = case.ended(&second).await?;
    for (status, number) in [(&before, 1), (&after, 7)] {
        let text = status.result.as_deref().unwrap_or_default();
        let result: Value = serde_json::from_str(text).unwrap_or_default();
        ensure_eq!(
            result,
            json!({ "got": { "run": number } }),
            "the result of run {number}"
        );
    }
    let target = LogTarget::Job(first.job.clone());
    eventually!(case.harness, "both runs are seen in the log", {
        let seen = case.count(&target, RAN).await?;
        when(seen == 2, seen)
    });
    Ok(())
}

pub(super) async fn a_job_that_raises_has_failed(case: &Case<'_>) -> Outcome {
    let run = case.run(&json!({ "raise": "as it was told" })).await?;
    let failure = failed(case, &run).await?;
    ensure_eq!(
        failure.reason,
        reason::HANDLER_ERROR,
        "the reason of {failure:?}"
    );
    let told =
        failure.message.contains("FixtureError") && failure.message.contains("as it was told");
    ensure!(told, "the sentence does not name the error: {failure:?}");
    let again = case.ended(&run).await?;
    ensure_eq!(
        again.phase,
        RunPhase::Failed,
        "the phase when it is asked for again"
    );
    Ok(())
}

pub(super) async fn a_job_that_takes_too_long_has_failed(case: &Case<'_>) -> Outcome {
    let mut run = case.run(&json!({ "ms": 60_000 })).await?;
    run.timeout = Duration::from_secs(1);
    let failure = failed(case, &run).await?;
    ensure_eq!(failure.reason, reason::TIMEOUT, "the reason of {failure:?}");
    Ok(())
}

pub(super) async fn a_result_that_is_too_long_has_failed(case: &Case<'_>) -> Outcome {
    // Its JSON has two quotation marks more.
    let fits = case
        .run(&json!({ "large": RunStatus::RESULT_BYTES_MAX - 2 }))
        .await?;
    let status = case.ended(&fits).await?;
    ensure_eq!(
        status.phase,
        RunPhase::Succeeded,
        "the phase of the longest result"
    );
    let length = status.result.map_or(0, |result| result.len());
    ensure_eq!(
        length,
        RunStatus::RESULT_BYTES_MAX,
        "the length of the longest result"
    );
    let run = case
        .run(&json!({ "large": RunStatus::RESULT_BYTES_MAX - 1 }))
        .await?;
    let failure = failed(case, &run).await?;
    let named = failure.message.contains("result_bytes") || failure.reason.contains("result_bytes");
    ensure!(named, "the limit result_bytes is not named: {failure:?}");
    Ok(())
}

pub(super) async fn a_job_that_cannot_start_has_failed(case: &Case<'_>) -> Outcome {
    let function = case.function("of-a-job")?;
    let Some(workload) = case
        .optional_workload(&function, Fixture::BadImport)
        .await?
    else {
        return Ok(());
    };
    let failure = failed(case, &case.run_of(workload, &json!({}))?).await?;
    ensure!(
        !failure.reason.is_empty(),
        "there is no machine word: {failure:?}"
    );
    Ok(())
}

pub(super) async fn a_removed_job_is_forgotten(case: &Case<'_>) -> Outcome {
    let (scheduler, run) = (case.scheduler().await?, case.run(&json!({})).await?);
    let none = scheduler.remove_job(&run.job).await?;
    ensure_eq!(
        none,
        Receipt::default(),
        "the receipt of a job that never ran"
    );
    case.ended(&run).await?;
    let receipt = case.removed_job(&run.job).await?;
    ensure!(
        !receipt.removed.is_empty(),
        "the receipt of a job that ran is empty"
    );
    let target = LogTarget::Job(run.job.clone());
    let log = scheduler.logs(&target, &LogOptions::default()).await;
    refused(log, ErrorKind::NotFound, "the log of a removed job")?;
    let again = case.removed_job(&run.job).await?;
    ensure_eq!(
        again,
        Receipt::default(),
        "the receipt of what is removed already"
    );
    Ok(())
}

pub(super) async fn removing_a_job_ends_its_run(case: &Case<'_>) -> Outcome {
    let scheduler = case.scheduler().await?;
    let mut run = case.run(&json!({ "ms": 600_000 })).await?;
    run.timeout = Duration::from_secs(1_000);
    under_way(case, &run).await?;
    let clock = case.harness.clock();
    let begun = clock.elapsed();
    let receipt = case.removed_job(&run.job).await?;
    ensure!(
        !receipt.removed.is_empty(),
        "the receipt of a running job is empty"
    );
    let took = clock.elapsed() - begun;
    ensure!(
        took < Duration::from_secs(300),
        "it waited {took:?} for the run to end by itself"
    );
    let log = scheduler
        .logs(&LogTarget::Job(run.job.clone()), &LogOptions::default())
        .await;
    refused(log, ErrorKind::NotFound, "the log of a removed job")?;
    Ok(())
}

pub(super) async fn a_change_is_hinted_when_a_job_moves_on(case: &Case<'_>) -> Outcome {
    let run = case.run(&json!({ "ms": 200 })).await?;
    let mut changes = case.scheduler().await?.changes();
    case.ended(&run).await?;
    hinted(case.harness, &mut changes, &run.job.key()).await
}

pub(super) async fn a_run_is_remembered_over_a_reopen(case: &Case<'_>) -> Outcome {
    let run = case.run(&json!({ "kept": true })).await?;
    let failing = case.run(&json!({ "raise": "kept" })).await?;
    let (done, failed) = (case.ended(&run).await?, case.ended(&failing).await?);
    if !case.harness.reopen().await? {
        return Ok(());
    }
    let scheduler = case.scheduler().await?;
    ensure_eq!(
        case.passing(scheduler.run_job(&run)).await?,
        done,
        "a run after a reopen"
    );
    let again = case.passing(scheduler.run_job(&failing)).await?;
    ensure_eq!(again, failed, "a failed run after a reopen");
    let receipt = case.removed_job(&run.job).await?;
    ensure!(
        !receipt.removed.is_empty(),
        "the receipt of a run from before is empty"
    );
    Ok(())
}

pub(super) async fn a_run_that_was_cut_off_is_interrupted(case: &Case<'_>) -> Outcome {
    let mut run = case.run(&json!({ "ms": 600_000 })).await?;
    run.timeout = Duration::from_secs(1_000);
    under_way(case, &run).await?;
    if !case.harness.reopen().await? {
        return Ok(());
    }
    if case.harness.runs_survive() {
        under_way(case, &run)
            .await
            .while_("asking for a run that went on")?;
        let target = LogTarget::Job(run.job.clone());
        ensure_eq!(case.count(&target, RAN).await?, 1, "how often it began");
    } else {
        let failure = failed(case, &run)
            .await
            .while_("asking for a run that a crash cut off")?;
        ensure_eq!(
            failure.reason,
            reason::INTERRUPTED,
            "the reason of {failure:?}"
        );
    }
    let mut next = run.clone();
    next.run_id = 2;
    next.event = "{}".to_owned();
    let status = case.ended(&next).await?;
    ensure_eq!(
        status.phase,
        RunPhase::Succeeded,
        "the phase of the next run {status:?}"
    );
    Ok(())
}

pub(super) async fn a_run_that_began_does_not_begin_again(case: &Case<'_>) -> Outcome {
    // It was seen under way, and nothing of it is left.
    let mut run = case.run(&json!({})).await?;
    run.began = true;
    let failure = failed(case, &run).await?;
    ensure_eq!(
        failure.reason,
        reason::INTERRUPTED,
        "the reason of {failure:?}"
    );
    case.harness.pass(case.harness.quiet()).await;
    let target = LogTarget::Job(run.job.clone());
    match case
        .scheduler()
        .await?
        .logs(&target, &LogOptions::default())
        .await
    {
        Ok(_) => ensure_eq!(case.count(&target, RAN).await?, 0, "how often it ran"),
        log => drop(refused(
            log,
            ErrorKind::NotFound,
            "the log of a run that never began here",
        )?),
    }
    // One that is known is what it is, whatever the caller has seen.
    let mut known = case.run(&json!({ "known": true })).await?;
    let done = case.ended(&known).await?;
    known.began = true;
    let again = case
        .passing(case.scheduler().await?.run_job(&known))
        .await?;
    ensure_eq!(
        again,
        done,
        "a run that ended, asked for by one who saw it begin"
    );
    Ok(())
}
