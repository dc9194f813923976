//! Why something is not ready, in words.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// Why a build, a workload, a job or a trigger is not as wanted: a machine word, a sentence, and
/// where there is one the end of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// A machine word; those that several backends use stand in [`reason`].
    pub reason: Cow<'static, str>,
    /// A sentence for people.
    pub message: String,
    /// The last lines of the log, at most [`Failure::LOG_TAIL_BYTES_MAX`] bytes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub log_tail: String,
}

impl Failure {
    /// The most bytes that [`Failure::log_tail`] keeps.
    pub const LOG_TAIL_BYTES_MAX: usize = 4096;

    /// A failure without a log.
    pub fn new(reason: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            message: message.into(),
            log_tail: String::new(),
        }
    }

    /// Keeps the end of this log, cut at a line where it is too long.
    #[must_use]
    pub fn with_log(mut self, log: &str) -> Self {
        let log = log.trim_end();
        let mut from = log.len().saturating_sub(Self::LOG_TAIL_BYTES_MAX);
        while !log.is_char_boundary(from) {
            from += 1;
        }
        if from > 0 {
            from = log[from..]
                .find('\n')
                .map_or(from, |newline| from + newline + 1);
        }
        log[from..].clone_into(&mut self.log_tail);
        self
    }

    /// The sentence, and below it the end of the log.
    pub fn text(&self) -> String {
        if self.log_tail.is_empty() {
            return self.message.clone();
        }
        format!("{}\n{}", self.message, self.log_tail)
    }
}

/// Machine words that several backends and the engine use.
pub mod reason {
    /// No code was uploaded yet.
    pub const NO_CODE: &str = "no_code";
    /// `replicas` is 0.
    pub const SCALED_TO_ZERO: &str = "scaled_to_zero";
    /// The function's http trigger is disabled.
    pub const TRIGGER_DISABLED: &str = "trigger_disabled";
    /// Nothing connects the dispatcher with its queues now.
    pub const DISCONNECTED: &str = "disconnected";
    /// The trigger's queue is not there, and is not to be made.
    pub const QUEUE_MISSING: &str = "queue_missing";
    /// The trigger's or job's function is not there.
    pub const FUNCTION_MISSING: &str = "function_missing";
    /// The job's function is not ready.
    pub const FUNCTION_NOT_READY: &str = "function_not_ready";
    /// Dependencies could not be installed.
    pub const INSTALL_FAILED: &str = "install_failed";
    /// A build took longer than it may.
    pub const BUILD_TIMEOUT: &str = "build_timeout";
    /// No backend can build this.
    pub const BUILD_UNSUPPORTED: &str = "build_unsupported";
    /// The stored build context is gone or broken.
    pub const CONTEXT_UNREADABLE: &str = "context_unreadable";
    /// The handler's module cannot be imported.
    pub const HANDLER_IMPORT: &str = "handler_import";
    /// The module holds no such function.
    pub const HANDLER_MISSING: &str = "handler_missing";
    /// The function takes neither one nor two arguments.
    pub const HANDLER_SIGNATURE: &str = "handler_signature";
    /// The handler raised an error.
    pub const HANDLER_ERROR: &str = "handler_error";
    /// It was not up in time.
    pub const START_TIMEOUT: &str = "start_timeout";
    /// It ended again and again after its start.
    pub const CRASH_LOOP: &str = "crash_loop";
    /// It took more memory than it may.
    pub const OUT_OF_MEMORY: &str = "out_of_memory";
    /// It took longer than it may.
    pub const TIMEOUT: &str = "timeout";
    /// It was cut off, and nobody knows how far it came.
    pub const INTERRUPTED: &str = "interrupted";
    /// An image could not be pulled.
    pub const IMAGE_PULL: &str = "image_pull";
    /// The place for the workloads of a namespace is not there.
    pub const NAMESPACE_MISSING: &str = "namespace_missing";
    /// A quota is used up.
    pub const QUOTA: &str = "quota";
    /// The cluster refused the object.
    pub const ADMISSION_DENIED: &str = "admission_denied";
    /// A backend does not answer; it is tried again.
    pub const BACKEND_UNAVAILABLE: &str = "backend_unavailable";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_is_cut_at_a_line() {
        let log = "é line\n".repeat(2_000);
        let failure = Failure::new(reason::INSTALL_FAILED, "pip failed").with_log(&log);
        assert!(failure.log_tail.len() <= Failure::LOG_TAIL_BYTES_MAX);
        assert!(failure.log_tail.starts_with("é line\n"));
        assert!(failure.log_tail.ends_with("é line"));
    }
}
