use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The limits and times of a [`MemoryScheduler`](super::MemoryScheduler).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MemorySchedulerConfig {
    /// The most calls of one function that wait for a place; one more is `Overloaded`.
    pub queued_calls: usize,
    /// When a caller that found the queue full is told to come again.
    pub retry_after: Duration,
    /// How long a new revision, and one that wakes, takes to start.
    pub start_delay: Duration,
    /// How long the calls in flight of a removed function may take to end.
    pub drain: Duration,
    /// How long without a call until a function sleeps, where its workload does not say; zero is
    /// never.
    pub idle: Duration,
    /// Runs of jobs at once; more of them wait.
    pub jobs_at_once: usize,
    /// The most runs that wait; one more is `Overloaded`.
    pub jobs_waiting: usize,
    /// Lines of the log of one function or job; the oldest go where newer ones come.
    pub log_lines: usize,
    /// Bytes of one line; a longer one is cut and marked.
    pub log_line_bytes: usize,
}

impl Default for MemorySchedulerConfig {
    /// 100 calls wait, 16 jobs run; starts take no time; nothing sleeps; a drain takes 30 seconds at
    /// most.
    fn default() -> Self {
        Self {
            queued_calls: 100,
            retry_after: Duration::from_secs(1),
            start_delay: Duration::ZERO,
            drain: Duration::from_secs(30),
            idle: Duration::ZERO,
            jobs_at_once: 16,
            jobs_waiting: 10_000,
            log_lines: 10_000,
            log_line_bytes: 16 << 10,
        }
    }
}
