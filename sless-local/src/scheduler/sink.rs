//! From what a worker writes to the log of its function or job.

use jiff::Timestamp;
use sless_core::{FunctionId, JobId, LogLine, LogSource};
use sless_runtime::{LogSink, LogStream};

use crate::logs::LogWriter;

/// The name of a function's log.
pub(super) fn function_log(function: &FunctionId) -> String {
    format!("function-{}", function.uid)
}

/// The name of a job's log.
pub(super) fn job_log(job: &JobId) -> String {
    format!("job-{}", job.uid)
}

/// The uid of the function or job whose log has this name.
pub(super) fn uid_of(log: &str) -> Option<&str> {
    let of_function = log.strip_prefix("function-");
    of_function.or_else(|| log.strip_prefix("job-"))
}

/// Writes the lines of a worker into a log.
#[derive(Debug)]
pub(super) struct WorkerLog(pub(super) LogWriter);

impl LogSink for WorkerLog {
    fn write(&self, line: sless_runtime::LogLine) {
        let source = match line.stream {
            LogStream::Stdout => LogSource::Stdout,
            _ => LogSource::Stderr,
        };
        self.0.line(LogLine {
            at: Timestamp::try_from(line.time).unwrap_or_default(),
            source,
            request_id: line.request_id,
            text: line.text,
            truncated: line.truncated,
        });
    }
}
