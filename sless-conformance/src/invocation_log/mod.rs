//! The suite of [`InvocationLog`]; its contract is
//! `docs/contracts/invocation-log.md`.

mod append;
mod query;
mod retain;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use sless_core::{
    Invocation, InvocationLog, InvocationPage, InvocationQuery, Namespace, Origin, Result, Uid,
};

use crate::{Harness, Outcome, Violation, clause::While as _, suite::suite, unique};

/// What the suite has to know of an invocation log.
///
/// Each harness needs a log of its own: what is retained counts over all functions, so that two
/// clauses on one log would drop each other's records.
#[async_trait]
pub trait InvocationLogHarness: Harness {
    /// The log. The same one at each call, until `reopen`.
    ///
    /// # Errors
    /// Whatever keeps it from being there; the clause then fails with it.
    async fn invocation_log(&self) -> Result<Arc<dyn InvocationLog>>;

    /// Ends the log as a crash would, and opens another one over the same records, which
    /// `invocation_log` gives from then on. The clause holds no handle of the old one when it calls
    /// this. Answers `false` where the records end with the process.
    ///
    /// # Errors
    /// Whatever keeps it from being opened.
    async fn reopen(&self) -> Result<bool>;
}

/// One run of one clause: a namespace of its own.
pub(crate) struct Case<'a> {
    harness: &'a dyn InvocationLogHarness,
    namespace: Namespace,
    now: Timestamp,
}

impl<'a> Case<'a> {
    async fn open(harness: &'a dyn InvocationLogHarness) -> Result<Self, Violation> {
        // Whole milliseconds, which every database keeps.
        let now = Timestamp::from_millisecond(harness.clock().now().as_millisecond());
        let now = now.map_err(|error| Violation::new(error.to_string()))?;
        Ok(Self {
            harness,
            namespace: unique::namespace()?,
            now,
        })
    }

    async fn close(&self) -> Outcome {
        Ok(self.harness.clean_up().await?)
    }

    async fn log(&self) -> Result<Arc<dyn InvocationLog>> {
        self.harness.invocation_log().await
    }

    /// A record of a call so many seconds ago.
    fn record(&self, function: &str, seconds: i64) -> Result<Invocation> {
        Ok(Invocation {
            id: Uid::random(),
            request_id: format!("request-{}", unique::tag()),
            namespace: self.namespace.clone(),
            function: unique::name(function)?,
            origin: Origin::Http,
            cause: None,
            caller: None,
            attempt: 1,
            started_at: self.now - SignedDuration::from_secs(seconds),
            duration: Duration::from_millis(7),
            status: 200,
            error: None,
            request_bytes: 3,
            response_bytes: 2,
            log_tail: None,
        })
    }

    /// Records of calls that began one second after the other, the newest first.
    fn records(&self, count: i64) -> Result<Vec<Invocation>> {
        (0..count)
            .map(|seconds| self.record("f", seconds))
            .collect()
    }

    async fn append(&self, records: &[Invocation]) -> Outcome {
        self.log()
            .await?
            .append(records.to_vec())
            .await
            .while_("appending")
    }

    /// A query of all functions of this namespace.
    fn query(&self) -> Result<InvocationQuery> {
        let limit = InvocationQuery::LIMIT_MAX;
        let mut query =
            InvocationQuery::of_function(self.namespace.clone(), unique::name("f")?, limit);
        query.function = None;
        Ok(query)
    }

    async fn page(&self, query: &InvocationQuery) -> Result<InvocationPage, Violation> {
        let page = self.log().await?.query(query).await.while_("querying")?;
        let (count, limit) = (page.items.len(), query.limit);
        crate::clause::ensure!(
            count <= limit,
            "a page of at most {limit} has {count} records"
        );
        Ok(page)
    }

    /// All pages of a query.
    async fn all(&self, mut query: InvocationQuery) -> Result<Vec<Invocation>, Violation> {
        let mut all = Vec::new();
        loop {
            let page = self.page(&query).await?;
            all.extend(page.items);
            match page.next {
                Some(next) => query.cursor = Some(next),
                None => return Ok(all),
            }
        }
    }
}

/// Their ids.
fn ids(records: &[Invocation]) -> Vec<Uid> {
    records.iter().map(|record| record.id.clone()).collect()
}

suite! {
    ($)
    /// Makes a test of each clause of [`InvocationLog`](sless_core::InvocationLog)'s contract.
    ///
    /// Takes an expression that makes an
    /// [`InvocationLogHarness`](crate::invocation_log::InvocationLogHarness); it may `await`.
    /// Attributes in front go to every test.
    invocation_log, "invocation-log", InvocationLogHarness, Case<'_>;
    1 append::an_appended_record_is_read_back_whole,
    2 append::a_batch_can_be_sent_again,
    3 append::a_large_batch_is_kept,
    4 append::records_survive_a_reopen,
    5 query::the_newest_records_come_first,
    6 query::pages_give_every_record_once,
    7 query::paging_misses_nothing_while_others_append,
    8 query::only_the_records_that_were_asked_for_are_given,
    9 retain::what_is_too_old_is_dropped,
    10 retain::what_is_too_much_is_dropped_oldest_first,
}
