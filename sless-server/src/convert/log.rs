//! Log lines.

use sless_api::LogQuery;
use sless_core::{LogLine, LogOptions, LogSource};

/// Which lines to read.
pub(crate) fn log_options(query: &LogQuery) -> LogOptions {
    let mut options = LogOptions::default();
    if query.follow {
        options = options.following();
    }
    if let Some(lines) = query.tail {
        options = options.with_tail(lines);
    }
    if let Some(since) = query.since {
        options = options.with_since(since);
    }
    options
}

/// A line as it is answered in JSON.
pub(crate) fn log_line(line: LogLine) -> sless_api::LogLine {
    sless_api::LogLine {
        at: line.at,
        source: match line.source {
            LogSource::Build => sless_api::LogSource::Build,
            LogSource::Stdout => sless_api::LogSource::Stdout,
            LogSource::Stderr => sless_api::LogSource::Stderr,
            LogSource::System => sless_api::LogSource::System,
        },
        request_id: line.request_id,
        text: line.text,
        truncated: line.truncated,
    }
}

/// A line as it is answered in plain text: time, place, call, text.
pub(crate) fn log_text(line: &LogLine) -> String {
    let source = match line.source {
        LogSource::Build => "build",
        LogSource::Stdout => "stdout",
        LogSource::Stderr => "stderr",
        LogSource::System => "system",
    };
    let call = line
        .request_id
        .as_deref()
        .map(|id| format!(" [{id}]"))
        .unwrap_or_default();
    let cut = if line.truncated { " …[cut]" } else { "" };
    format!("{:.3} {source}{call} {}{cut}\n", line.at, line.text)
}
