//! Logs of builds.

use futures::TryStreamExt as _;
use sless_core::{ErrorKind, LogLine, LogOptions, LogSource};

use super::{Case, failure::begin};
use crate::{
    Outcome, Violation,
    clause::{While as _, ensure, ensure_eq, refused},
    harness::{eventually, when},
};

pub(super) async fn a_build_has_a_log(case: &Case<'_>) -> Outcome {
    let request = case.one(1).await?;
    case.built(&request).await?;
    let lines = case.log(&request.id).await?;
    ensure!(!lines.is_empty(), "the log is empty");
    for line in &lines {
        ensure_eq!(
            line.source,
            LogSource::Build,
            "the source of a line of a build"
        );
        ensure!(
            !line.text.contains('\n'),
            "a line holds a line's end: {line:?}"
        );
    }
    let times: Vec<_> = lines.iter().map(|line| line.at).collect();
    ensure!(times.is_sorted(), "the lines are not in order: {times:?}");
    let options = LogOptions::default().with_tail(1);
    let stream = case.builder().await?.logs(&request.id, &options).await?;
    let last: Vec<LogLine> = stream.try_collect().await?;
    ensure_eq!(
        last.as_slice(),
        &lines[lines.len() - 1..],
        "the last line alone"
    );
    ensure_eq!(
        case.log(&request.id).await?,
        lines,
        "the log when it is read again"
    );
    Ok(())
}

pub(super) async fn a_followed_log_ends_with_the_build(case: &Case<'_>) -> Outcome {
    let request = case.one(1).await?;
    let task = begin(case, &request).await?;
    let builder = case.builder().await?;
    let options = LogOptions::default().following();
    let stream = builder
        .logs(&request.id, &options)
        .await
        .while_("following the log")?;
    let follower = tokio::spawn(stream.try_collect::<Vec<LogLine>>());
    ensure!(!follower.is_finished(), "the log ended before the build");
    case.contexts.release();
    case.built(&request).await?;
    eventually!(case.harness, "a followed log ends", {
        when(follower.is_finished() && task.is_finished(), "it goes on")
    });
    let followed = follower
        .await
        .map_err(|error| Violation::new(error.to_string()))?;
    let followed = followed.while_("following the log")?;
    ensure_eq!(
        followed,
        case.log(&request.id).await?,
        "the log that was followed"
    );
    // One that is over ends at once.
    let late = builder
        .logs(&request.id, &options)
        .await?
        .try_collect::<Vec<LogLine>>();
    let late = tokio::time::timeout(case.harness.patience(), late).await;
    let late = late.map_err(|_| Violation::new("the log of a build that is over does not end"))?;
    ensure_eq!(
        late?,
        followed,
        "the log that was followed when it was over"
    );
    Ok(())
}

pub(super) async fn a_build_that_is_not_there_has_no_log(case: &Case<'_>) -> Outcome {
    let request = case.one(1).await?;
    for options in [LogOptions::default(), LogOptions::default().following()] {
        let log = case.builder().await?.logs(&request.id, &options).await;
        refused(
            log,
            ErrorKind::NotFound,
            "the log of a build that never began",
        )?;
    }
    Ok(())
}
