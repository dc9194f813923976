//! `sless logs`.

use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use sless_api::{LogQuery, LogSource, WireDuration, client::LogLines};

use super::shown;
use crate::{
    args::Globals,
    failure::{Failure, Result},
    output::Output,
    session::Session,
};

const EXAMPLES: &str = "\
Examples:
  $ sless logs hello
  $ sless logs hello --tail 20 --since 10m --timestamps
  $ sless logs hello --follow --timeout 2s
  $ sless logs hello --build -o json";

/// Show what builds and calls of a function wrote.
///
/// With -o json and -o yaml each line is one JSON object.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The function.
    name: String,
    #[command(flatten)]
    pub(crate) which: Which,
}

/// Which lines.
#[derive(Debug, clap::Args)]
pub(crate) struct Which {
    /// Go on with the lines that are yet to come, until Ctrl-C.
    #[arg(long, short)]
    follow: bool,
    /// How long to follow.
    #[arg(long, requires = "follow", value_name = "DURATION")]
    timeout: Option<WireDuration>,
    /// Only the last so many of the lines that are there.
    #[arg(long, value_name = "LINES")]
    tail: Option<usize>,
    /// Only lines since: a time such as 2026-01-31T12:00:00Z, or how long ago, such as 10m.
    #[arg(long, value_name = "WHEN", value_parser = since)]
    since: Option<Timestamp>,
    /// Show when each line was written.
    #[arg(long)]
    timestamps: bool,
    /// Only what builds wrote.
    #[arg(long, conflicts_with = "runs")]
    build: bool,
    /// Only what calls wrote.
    #[arg(long)]
    runs: bool,
}

fn since(text: &str) -> Result<Timestamp, String> {
    if let Ok(at) = text.parse() {
        return Ok(at);
    }
    let ago: WireDuration = text.parse().map_err(|_| {
        "expected a time such as 2026-01-31T12:00:00Z, or a duration such as 10m".to_owned()
    })?;
    Timestamp::now()
        .checked_sub(Duration::from(ago))
        .map_err(|error| error.to_string())
}

impl Which {
    pub(crate) fn query(&self) -> LogQuery {
        LogQuery {
            follow: self.follow,
            tail: self.tail,
            since: self.since,
        }
    }

    /// Prints the lines that were asked for, until there are no more.
    pub(crate) async fn print(&self, mut lines: LogLines, output: &Output) -> Result<()> {
        let printed = async {
            while let Some(line) = lines.next().await {
                let line = line?;
                let is_build = line.source == LogSource::Build;
                if self.build && !is_build || self.runs && is_build {
                    continue;
                }
                if output.is_for_people() {
                    output.line(&shown::log_line(output, &line, self.timestamps))?;
                } else {
                    let text = serde_json::to_string(&line);
                    output.line(&text.map_err(|error| Failure::usage(error.to_string()))?)?;
                }
            }
            Ok(())
        };
        match self.timeout {
            Some(WireDuration(limit)) => {
                tokio::time::timeout(limit, printed).await.unwrap_or(Ok(()))
            }
            None => printed.await,
        }
    }
}

pub(crate) async fn run(args: &Args, globals: &Globals, output: &Output) -> Result<()> {
    let session = Session::open(globals, output)?;
    let query = args.which.query();
    let lines = session
        .client
        .logs(&session.namespace, &args.name, &query)
        .await;
    let lines = lines.map_err(|error| session.tell_missing(Failure::from(error), "list"))?;
    args.which.print(lines, output).await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn since_is_a_time_or_how_long_ago() {
        assert_eq!(since("1970-01-01T00:00:01Z").unwrap().as_second(), 1);
        let ago = Timestamp::now().as_second() - since("1m").unwrap().as_second();
        assert!((60..70).contains(&ago), "{ago}");
        assert!(since("yesterday").unwrap_err().contains("10m"));
    }
}
