//! [`InvocationLog`]: what was called, when, and how it went.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Name, Namespace, Result, resource::Uid};

/// Keeps a record of every call.
///
/// Written behind the calls, in batches: a log that is slow or away never slows or fails a call.
/// Backends run `sless_conformance::invocation_log!`; the clauses stand in
/// `docs/contracts/invocation-log.md`.
#[async_trait]
pub trait InvocationLog: fmt::Debug + Send + Sync + 'static {
    /// Appends records, all or none. A record whose `id` is there already is passed over, so that a
    /// batch can be sent again.
    async fn append(&self, records: Vec<Invocation>) -> Result<()>;

    /// Reads a page of records, newest first.
    async fn query(&self, query: &InvocationQuery) -> Result<InvocationPage>;

    /// Drops what is older or more than the rule allows, and answers how many records.
    async fn retain(&self, rule: &Retention, now: Timestamp) -> Result<u64>;
}

/// What caused a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// A request to the function's URL.
    Http,
    /// A schedule.
    Cron,
    /// A message of a queue.
    Event,
    /// A job.
    Job,
    /// The program that embeds the engine.
    Direct,
}

impl Origin {
    /// The origin as one word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Cron => "cron",
            Self::Event => "event",
            Self::Job => "job",
            Self::Direct => "direct",
        }
    }
}

/// The record of one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invocation {
    /// Unique; the request id and the attempt name the call in other logs.
    pub id: Uid,
    /// The request id.
    pub request_id: String,
    /// The function's namespace.
    pub namespace: Namespace,
    /// The function's name.
    pub function: Name,
    /// What caused it.
    pub origin: Origin,
    /// The trigger or job that caused it.
    pub cause: Option<Name>,
    /// Who called, as far as that is known: for a request to the function's URL the address that it
    /// came from, as the server saw it. At most [`Invocation::CALLER_MAX`] bytes. What else makes
    /// calls is named by `origin` and `cause`.
    #[serde(default)]
    pub caller: Option<String>,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// When it began.
    pub started_at: Timestamp,
    /// How long until its response ended.
    pub duration: Duration,
    /// The response's status; what a client would have seen where there was no response.
    pub status: u16,
    /// A machine word where there was no response of the function, such as `timeout`.
    pub error: Option<String>,
    /// Bytes of the request's body: its length where that was known when the call began, else what
    /// was read of it.
    #[serde(default)]
    pub request_bytes: u64,
    /// Bytes of the response's body.
    pub response_bytes: u64,
    /// The end of what the call wrote to its log, at most [`Invocation::LOG_TAIL_MAX`] bytes: lines,
    /// oldest first. `None` where it wrote nothing.
    #[serde(default)]
    pub log_tail: Option<String>,
}

impl Invocation {
    /// The most bytes of [`Invocation::log_tail`].
    pub const LOG_TAIL_MAX: usize = 4096;
    /// The most bytes of [`Invocation::caller`].
    pub const CALLER_MAX: usize = 256;
}

/// Which records to read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvocationQuery {
    /// Of this namespace.
    pub namespace: Namespace,
    /// Of this function, or of all.
    pub function: Option<Name>,
    /// With this origin.
    pub origin: Option<Origin>,
    /// Only calls that failed: status 400 and above.
    pub failed_only: bool,
    /// Begun at or after this time.
    pub since: Option<Timestamp>,
    /// At most so many.
    pub limit: usize,
    /// From the `next` of the page before.
    pub cursor: Option<String>,
}

impl InvocationQuery {
    /// The largest page.
    pub const LIMIT_MAX: usize = 1000;

    /// The newest records of a function.
    pub const fn of_function(namespace: Namespace, function: Name, limit: usize) -> Self {
        Self {
            namespace,
            function: Some(function),
            origin: None,
            failed_only: false,
            since: None,
            limit,
            cursor: None,
        }
    }

    /// Whether this record is meant, page and order aside.
    pub fn matches(&self, record: &Invocation) -> bool {
        record.namespace == self.namespace
            && self
                .function
                .as_ref()
                .is_none_or(|function| *function == record.function)
            && self.origin.is_none_or(|origin| origin == record.origin)
            && (!self.failed_only || record.status >= 400)
            && self.since.is_none_or(|since| record.started_at >= since)
    }
}

/// Part of the records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InvocationPage {
    /// The records, newest first.
    pub items: Vec<Invocation>,
    /// Where the next page begins; `None` on the last.
    pub next: Option<String>,
}

/// How long records are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Retention {
    /// Not longer than this.
    pub max_age: Duration,
    /// Not more than this, over all functions.
    pub max_records: u64,
}

impl Default for Retention {
    /// Thirty days, and a million records.
    fn default() -> Self {
        Self {
            max_age: Duration::from_secs(30 * 24 * 3600),
            max_records: 1_000_000,
        }
    }
}
