//! Logs of functions and jobs.

use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::json;
use sless_core::{Invocation, LogLine, LogOptions, LogSource, LogTail, LogTarget};

use super::{
    Case,
    case::{context, event_request},
};
use crate::{
    Fixture, Outcome, Violation,
    clause::{While as _, ensure, ensure_eq},
    harness::{eventually, when},
};

/// The lines of the log so far that the fixture wrote, once there are so many.
async fn lines(case: &Case<'_>, of: &LogTarget, count: usize) -> Result<Vec<LogLine>, Violation> {
    Ok(eventually!(
        case.harness,
        format!("{count} lines are in the log"),
        {
            let all = case.log(of, &LogOptions::default()).await?;
            let own = |line: &LogLine| matches!(line.source, LogSource::Stdout | LogSource::Stderr);
            let found: Vec<_> = all.into_iter().filter(own).collect();
            when(found.len() >= count, found)
        }
    ))
}

pub(super) async fn lines_carry_their_request_and_source(case: &Case<'_>) -> Outcome {
    let (workload, invoker) = case.running(Fixture::LogLines).await?;
    let mut expected = Vec::new();
    for (source, name, text) in [
        (LogSource::Stdout, "stdout", "one ü"),
        (LogSource::Stderr, "stderr", "  two\twith spaces  "),
        (LogSource::Stdout, "stdout", "three"),
    ] {
        let context = context();
        let request = event_request(&json!({ name: [text] }));
        case.send(&invoker, request, &context).await?;
        expected.push((
            source,
            text.to_owned(),
            Some(context.request_id.to_string()),
        ));
    }
    let target = LogTarget::Function(workload.function.clone());
    let found = lines(case, &target, expected.len()).await?;
    let times: Vec<_> = found.iter().map(|line| line.at).collect();
    ensure!(times.is_sorted(), "the lines are not in order: {times:?}");
    ensure!(
        !found.iter().any(|line| line.truncated),
        "a short line is called cut: {found:?}"
    );
    let seen = found
        .into_iter()
        .map(|line| (line.source, line.text, line.request_id));
    ensure_eq!(
        seen.collect::<Vec<_>>(),
        expected,
        "source, text and request id of the lines"
    );
    Ok(())
}

pub(super) async fn the_end_of_a_calls_log_is_told(case: &Case<'_>) -> Outcome {
    let (_, invoker) = case.running(Fixture::LogLines).await?;
    let call = async |lines: &[String]| {
        let tail = LogTail::wanted();
        let context = context().with_log_tail(tail.clone());
        let request = event_request(&json!({ "stdout": lines }));
        case.send(&invoker, request, &context).await?;
        Ok::<_, Violation>(tail.text().map(str::to_owned))
    };
    let expected = |lines: &[String]| lines.join("\n") + "\n";
    let mine = ["one ü".to_owned(), "  two".to_owned()];
    ensure_eq!(
        call(&mine).await?,
        Some(expected(&mine)),
        "what a call wrote"
    );
    ensure_eq!(
        call(&[]).await?,
        None,
        "what a call wrote that wrote nothing"
    );
    let other = ["another call's".to_owned()];
    ensure_eq!(
        call(&other).await?,
        Some(expected(&other)),
        "what the next call wrote"
    );
    // More than is kept: the newest lines, whole.
    let many: Vec<String> = (0..1_000).map(|number| format!("line {number}")).collect();
    let kept = call(&many).await?.unwrap_or_default();
    let limit = Invocation::LOG_TAIL_MAX;
    ensure!(
        kept.len() <= limit && kept.len() > limit / 2,
        "of much, {} bytes are kept, expected about {limit}",
        kept.len()
    );
    ensure!(
        expected(&many).ends_with(&format!("\n{kept}")),
        "what is kept are not the last lines: {kept:?}"
    );
    Ok(())
}

pub(super) async fn a_part_of_the_log_is_given(case: &Case<'_>) -> Outcome {
    let (workload, invoker) = case.running(Fixture::LogLines).await?;
    let texts: Vec<String> = (0..20).map(|number| format!("line {number}")).collect();
    case.ask(&invoker, &json!({ "stdout": texts[..10] }))
        .await?;
    let target = LogTarget::Function(workload.function.clone());
    lines(case, &target, 10).await?;
    case.harness
        .pass(std::time::Duration::from_millis(20))
        .await;
    let between = case.harness.clock().now();
    case.harness
        .pass(std::time::Duration::from_millis(20))
        .await;
    case.ask(&invoker, &json!({ "stdout": texts[10..] }))
        .await?;
    lines(case, &target, 20).await?;
    let texts_of =
        |lines: Vec<LogLine>| lines.into_iter().map(|line| line.text).collect::<Vec<_>>();
    for tail in [0, 1, 3] {
        let last = case
            .log(&target, &LogOptions::default().with_tail(tail))
            .await?;
        ensure_eq!(texts_of(last), texts[20 - tail..], "the last {tail} lines");
    }
    let since = case
        .log(&target, &LogOptions::default().with_since(between))
        .await?;
    ensure_eq!(texts_of(since), texts[10..], "the lines since {between}");
    let both = LogOptions::default().with_since(between).with_tail(2);
    ensure_eq!(
        texts_of(case.log(&target, &both).await?),
        texts[18..],
        "the last two since then"
    );
    Ok(())
}

pub(super) async fn a_line_is_seen_while_its_call_runs(case: &Case<'_>) -> Outcome {
    let (workload, invoker) = case.running(Fixture::LogLines).await?;
    let target = LogTarget::Function(workload.function.clone());
    case.ask(&invoker, &json!({ "stdout": ["before"] })).await?;
    lines(case, &target, 1).await?;
    let options = LogOptions::default().following().with_tail(1);
    let mut stream = case.scheduler().await?.logs(&target, &options).await?;
    let event = json!({ "stdout": ["during"], "ms": 15_000 });
    let call = case.ask(&invoker, &event);
    futures::pin_mut!(call);
    let mut seen = Vec::new();
    while !seen.iter().any(|text| text == "during") {
        let next = async {
            tokio::select! {
                biased;
                line = stream.next() => Ok(line),
                answer = &mut call => Err(answer),
            }
        };
        match case.passing(next).await {
            Ok(Some(line)) => seen.push(line?.text),
            Ok(None) => return Err(Violation::new("the log ended while it was followed")),
            Err(answer) => {
                answer?;
                return Err(Violation::new(
                    "a line was not seen before its call had ended",
                ));
            }
        }
    }
    ensure_eq!(
        seen,
        ["before", "during"],
        "what a reader that follows has seen"
    );
    Ok(())
}

pub(super) async fn a_followed_log_ends_with_the_function(case: &Case<'_>) -> Outcome {
    let (workload, invoker) = case.running(Fixture::LogLines).await?;
    let target = LogTarget::Function(workload.function.clone());
    let scheduler = case.scheduler().await?;
    let stream = scheduler
        .logs(&target, &LogOptions::default().following())
        .await?;
    let follower = tokio::spawn(stream.try_collect::<Vec<LogLine>>());
    case.ask(&invoker, &json!({ "stdout": ["a line"] })).await?;
    lines(case, &target, 1).await?;
    ensure!(
        !follower.is_finished(),
        "the log ended before the function was removed"
    );
    case.removed(&workload.function).await?;
    eventually!(
        case.harness,
        "a followed log ends when its function is removed",
        { when(follower.is_finished(), "it goes on") }
    );
    let followed = follower
        .await
        .map_err(|error| Violation::new(error.to_string()))?;
    let followed = followed.while_("following a log")?;
    let found = followed.iter().any(|line| line.text == "a line");
    ensure!(found, "the line was not followed: {followed:?}");
    Ok(())
}

pub(super) async fn a_job_has_a_log(case: &Case<'_>) -> Outcome {
    let run = case.run(&json!({})).await?;
    case.ended(&run).await?;
    let found = lines(case, &LogTarget::Job(run.job.clone()), 1).await?;
    ensure_eq!(found[0].text, "the job ran", "the first line of a job");
    ensure_eq!(found[0].source, LogSource::Stdout, "its source");
    Ok(())
}
