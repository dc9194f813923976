//! What follows an upload: the build, with its log, until the function answers or cannot.

use std::{convert::Infallible, time::Duration};

use futures::{StreamExt as _, future};
use jiff::Timestamp;
use sless_api::{Function, FunctionPhase, LogLine, LogQuery, LogSource};

use super::{super::shown, Deploy};
use crate::{
    failure::{Exit, Failure, Result},
    output::Paint,
    session::Session,
};

/// How often the phase is asked for: soon at the beginning, since most builds are short.
const LOOKS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// How soon a log that is not there yet is looked for again.
const LOG_AGAIN: Duration = Duration::from_millis(250);

impl Deploy<'_> {
    /// Waits until nothing is under way any more, and shows the log of the build meanwhile.
    pub(super) async fn settled(&self, since: Timestamp, limit: Duration) -> Result<Function> {
        let spinner = self.output.spinner("building");
        let mut lines = 0;
        let settled = {
            let phase = tokio::time::timeout(limit, self.phase());
            tokio::select! {
                settled = phase => settled,
                never = self.show_build(since, &mut lines, &spinner) => match never {},
            }
        };
        spinner.finish_and_clear();
        let function = settled.map_err(|_| {
            let text = format!("limit wait_timeout of {limit:?} exceeded: the build is not done");
            Failure::new(Exit::Failed, text).hint(format!(
                "it goes on: `sless get {0}` tells, and --wait-timeout waits longer",
                self.name()
            ))
        })??;
        self.show_rest(since, lines).await;
        Ok(function)
    }

    async fn phase(&self) -> Result<Function> {
        let Session { client, namespace } = self.session;
        let (mut pause, longest) = LOOKS;
        loop {
            let function = client.function(namespace, self.name()).await?;
            if !matches!(
                function.phase,
                FunctionPhase::Pending | FunctionPhase::Building
            ) {
                return Ok(function);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 3 / 2).min(longest);
        }
    }

    /// Shows what the build says from now on, and counts its lines.
    async fn show_build(
        &self,
        since: Timestamp,
        shown: &mut usize,
        spinner: &indicatif::ProgressBar,
    ) -> Infallible {
        let Session { client, namespace } = self.session;
        let query = LogQuery {
            follow: true,
            since: Some(since),
            ..LogQuery::default()
        };
        loop {
            if let Ok(lines) = client.logs(namespace, self.name(), &query).await {
                let mut lines = lines.skip(*shown);
                while let Some(Ok(line)) = lines.next().await {
                    // The log of the runs follows.
                    if line.source != LogSource::Build {
                        future::pending::<()>().await;
                    }
                    spinner.suspend(|| self.show(&line));
                    *shown += 1;
                }
            }
            tokio::time::sleep(LOG_AGAIN).await;
        }
    }

    /// What was written at the very end may not have come through yet.
    async fn show_rest(&self, since: Timestamp, shown: usize) {
        let Session { client, namespace } = self.session;
        let query = LogQuery {
            since: Some(since),
            ..LogQuery::default()
        };
        let Ok(lines) = client.logs(namespace, self.name(), &query).await else {
            return;
        };
        let build = lines.filter_map(|line| {
            future::ready(line.ok().filter(|line| line.source == LogSource::Build))
        });
        let mut rest = std::pin::pin!(build.skip(shown));
        while let Some(line) = rest.next().await {
            self.show(&line);
        }
    }

    fn show(&self, line: &LogLine) {
        self.output.say_painted(
            Paint::Faint,
            &format!("build | {}", shown::safe(&line.text)),
        );
    }
}
