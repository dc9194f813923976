//! Dropping what is too old, or too much.

use std::time::SystemTime;

use jiff::{SignedDuration, Timestamp};
use sless_core::Retention;

use super::{Inner, rows};
use crate::error::Fault;

/// Whether this transaction is the only one that retains: of several servers, one does the work.
const ALONE: &str = "SELECT pg_try_advisory_xact_lock('sless_invocations'::regclass::oid::bigint)";

/// The oldest record that is too much: the one behind those that may stay.
const TOO_MUCH: &str = "SELECT started_at, number FROM sless_invocations \
     ORDER BY started_at DESC, number DESC OFFSET $1 LIMIT 1";

/// Drops the oldest records before a time, or up to one: a bounded number.
const DROP_OLDER: &str = "DELETE FROM sless_invocations WHERE id IN (\
     SELECT id FROM sless_invocations WHERE started_at < $1 ORDER BY started_at, number LIMIT $2)";
const DROP_UP_TO: &str = "DELETE FROM sless_invocations WHERE id IN (\
     SELECT id FROM sless_invocations WHERE (started_at, number) <= ($1, $3) \
     ORDER BY started_at, number LIMIT $2)";

/// What to drop.
#[derive(Clone, Copy)]
enum Bound {
    Before(SystemTime),
    UpTo(SystemTime, i64),
}

/// Steps are transactions of their own, so that appends never wait for long. Where another server
/// retains at this moment, nothing is dropped here.
pub(super) async fn retain(log: &Inner, rule: Retention, now: Timestamp) -> Result<u64, Fault> {
    log.ready().await?;
    // An age beyond what a time can say keeps all.
    let oldest = SignedDuration::try_from(rule.max_age)
        .ok()
        .and_then(|age| now.checked_sub(age).ok());
    let mut dropped = 0;
    if let Some(oldest) = oldest {
        dropped += drop_all(log, Bound::Before(rows::time(oldest))).await?;
    }
    let most = i64::try_from(rule.max_records).unwrap_or(i64::MAX);
    let too_much = log.connections.run(|connection| {
        Box::pin(async move { Ok(connection.query_opt(TOO_MUCH, &[&most]).await?) })
    });
    if let Some(row) = too_much.await? {
        dropped += drop_all(log, Bound::UpTo(row.try_get(0)?, row.try_get(1)?)).await?;
    }
    Ok(dropped)
}

async fn drop_all(log: &Inner, bound: Bound) -> Result<u64, Fault> {
    let size = log.config.retain_step.max(1);
    let mut dropped = 0;
    loop {
        let gone = log
            .connections
            .run(|connection| Box::pin(drop_some(connection, bound, size.into())))
            .await?;
        dropped += gone;
        if gone < u64::from(size) {
            return Ok(dropped);
        }
    }
}

async fn drop_some(
    connection: &mut deadpool_postgres::Object,
    bound: Bound,
    size: i64,
) -> Result<u64, Fault> {
    let transaction = connection.transaction().await?;
    let alone: bool = transaction.query_one(ALONE, &[]).await?.try_get(0)?;
    if !alone {
        return Ok(0);
    }
    let gone = match bound {
        Bound::Before(time) => {
            let statement = transaction.prepare_cached(DROP_OLDER).await?;
            transaction.execute(&statement, &[&time, &size]).await?
        }
        Bound::UpTo(time, number) => {
            let statement = transaction.prepare_cached(DROP_UP_TO).await?;
            let bound: [&(dyn tokio_postgres::types::ToSql + Sync); 3] = [&time, &size, &number];
            transaction.execute(&statement, &bound).await?
        }
    };
    transaction.commit().await?;
    Ok(gone)
}
