//! The statements of the queues.

use std::{collections::HashSet, time::Duration};

use bytes::Bytes;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use sless_core::{Error, Message, Namespace, resource::TriggerId};

use crate::{QueueConfig, error::Fault};

/// A message that was taken from its queue, in memory; its row stays until it is settled.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) id: i64,
    /// How often it was tried.
    pub(super) failed: u32,
    pub(super) message: Message,
}

/// What becomes of a message that was delivered.
#[derive(Clone, Debug)]
pub(super) enum Settlement {
    Done,
    Retry {
        due_at: i64,
    },
    Dead {
        trigger: TriggerId,
        reason: String,
        died_at: i64,
    },
}

/// Milliseconds of the wall clock, rounded up: what is due then is not due sooner.
pub(super) fn due_after(now: Timestamp, delay: Duration) -> i64 {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    // A hundred years in nanoseconds fit easily, and so does every time of the clock.
    let nanoseconds = now.as_nanosecond() + delay.min(CENTURY).as_nanos() as i128;
    i64::try_from(nanoseconds.div_euclid(1_000_000) + 1)
        .unwrap_or(i64::MAX)
        .max(1)
}

/// The id of a queue, which is made if it is not there.
pub(super) fn ensure_queue(
    connection: &Connection,
    namespace: &Namespace,
    name: &str,
    limits: &QueueConfig,
) -> Result<i64, Fault> {
    let sql = "SELECT id FROM queues WHERE namespace = ?1 AND name = ?2";
    let key = params![namespace.as_str(), name];
    let found = connection
        .prepare_cached(sql)?
        .query_row(key, |row| row.get(0))
        .optional()?;
    if let Some(id) = found {
        return Ok(id);
    }
    let queues: u32 = connection.query_row("SELECT count(*) FROM queues", [], |row| row.get(0))?;
    if queues >= limits.queues {
        return Err(Error::limit("queues", limits.queues, "").into());
    }
    let sql = "INSERT INTO queues(namespace, name) VALUES (?1, ?2)";
    connection.prepare_cached(sql)?.execute(key)?;
    Ok(connection.last_insert_rowid())
}

/// The size of a message, as the limits count it.
pub(super) fn message_bytes(message: &Message) -> usize {
    let headers: usize = message
        .headers
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    let content_type = message.content_type.as_ref().map_or(0, String::len);
    message.id.len() + message.body.len() + content_type + headers
}

/// Puts a message into a queue.
pub(super) fn publish(
    connection: &Connection,
    queue: i64,
    message: &Message,
    limits: &QueueConfig,
) -> Result<(), Fault> {
    let bytes = to_i64(message_bytes(message) as u64);
    let sql = "UPDATE queues SET waiting = waiting + 1, bytes = bytes + ?2
               WHERE id = ?1 AND waiting + dead < ?3 AND bytes + ?2 <= ?4";
    let counted = connection.prepare_cached(sql)?.execute(params![
        queue,
        bytes,
        limits.queue_messages,
        to_i64(limits.queue_bytes)
    ])?;
    if counted == 0 {
        return Err(full(connection, queue, limits)?.into());
    }
    let headers = serde_json::to_string(&message.headers).map_err(|source| Fault::Unwritable {
        what: "message",
        source,
    })?;
    let sql = "INSERT INTO messages(queue, due_at, failed, message_id, body, content_type, headers,
                   published_at, bytes)
               VALUES (?1, 0, 0, ?2, ?3, ?4, ?5, ?6, ?7)";
    connection.prepare_cached(sql)?.execute(params![
        queue,
        message.id,
        &message.body[..],
        message.content_type,
        headers,
        message.published_at.map(nanoseconds),
        bytes
    ])?;
    Ok(())
}

fn full(connection: &Connection, queue: i64, limits: &QueueConfig) -> Result<Error, Fault> {
    let sql = "SELECT waiting + dead FROM queues WHERE id = ?1";
    let messages: i64 = connection
        .prepare_cached(sql)?
        .query_row([queue], |row| row.get(0))?;
    Ok(if messages >= i64::from(limits.queue_messages) {
        Error::limit(
            "queue_messages",
            limits.queue_messages,
            "messages, dead letters counted,",
        )
    } else {
        Error::limit(
            "queue_bytes",
            limits.queue_bytes,
            "bytes, dead letters counted,",
        )
    })
}

/// What [`take`] found.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) messages: Vec<Taken>,
    /// When the next message comes due, where fewer than asked for are due now.
    pub(super) next_due: Option<i64>,
}

/// Reads up to `most` messages that are due and not in `held`: first those that come again, the
/// longest due first, then new ones in order of their arrival. A message comes again a bounded number of
/// times, so the new ones get their turn.
pub(super) fn take(
    connection: &Connection,
    queue: i64,
    held: &HashSet<i64>,
    now: i64,
    most: usize,
) -> Result<Batch, Fault> {
    let snapshot = connection.unchecked_transaction()?;
    let mut ids = Vec::new();
    for sql in [
        "SELECT id FROM messages WHERE queue = ?1 AND due_at BETWEEN 1 AND ?2
         ORDER BY due_at, id LIMIT ?3",
        "SELECT id FROM messages WHERE queue = ?1 AND due_at = 0 AND ?2 IS NOT NULL
         ORDER BY id LIMIT ?3",
    ] {
        let missing = most - ids.len();
        if missing == 0 {
            break;
        }
        // Those that are held are due too, so there are at most so many to pass over.
        let limit = to_i64((missing + held.len()) as u64);
        let mut statement = snapshot.prepare_cached(sql)?;
        let mut rows = statement.query(params![queue, now, limit])?;
        let mut found = 0;
        while found < missing
            && let Some(row) = rows.next()?
        {
            let id = row.get(0)?;
            if !held.contains(&id) {
                ids.push(id);
                found += 1;
            }
        }
    }
    let sql = "SELECT min(due_at) FROM messages WHERE queue = ?1 AND due_at > ?2";
    let next_due = if ids.len() < most {
        snapshot
            .prepare_cached(sql)?
            .query_row(params![queue, now], |row| row.get(0))?
    } else {
        None
    };
    let sql = "SELECT message_id, body, content_type, headers, published_at, failed FROM messages
               WHERE id = ?1";
    let mut statement = snapshot.prepare_cached(sql)?;
    let mut messages = Vec::with_capacity(ids.len());
    for id in ids {
        let mut rows = statement.query([id])?;
        if let Some(row) = rows.next()? {
            messages.push(Taken {
                id,
                failed: row.get(5)?,
                message: message(row)?,
            });
        }
    }
    Ok(Batch { messages, next_due })
}

/// Reads the columns `message_id, body, content_type, headers, published_at`.
pub(super) fn message(row: &Row<'_>) -> Result<Message, Fault> {
    let headers = row.get_ref(3)?.as_str().map_err(rusqlite::Error::from)?;
    let headers = serde_json::from_str(headers).map_err(|source| Fault::Row {
        what: "message",
        source,
    })?;
    let published_at: Option<i64> = row.get(4)?;
    Ok(Message {
        id: row.get(0)?,
        body: Bytes::from(row.get::<_, Vec<u8>>(1)?),
        content_type: row.get(2)?,
        headers,
        published_at: published_at.map(timestamp),
    })
}

/// Writes what became of a message. A second time does nothing.
pub(super) fn settle(
    connection: &Connection,
    id: i64,
    settlement: &Settlement,
) -> Result<(), Fault> {
    match settlement {
        Settlement::Retry { due_at } => {
            let sql = "UPDATE messages SET due_at = ?2, failed = failed + 1 WHERE id = ?1";
            connection
                .prepare_cached(sql)?
                .execute(params![id, due_at])?;
        }
        Settlement::Done => {
            let sql = "DELETE FROM messages WHERE id = ?1 RETURNING queue, bytes";
            let row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
            let gone: Option<(i64, i64)> = connection
                .prepare_cached(sql)?
                .query_row([id], row)
                .optional()?;
            if let Some((queue, bytes)) = gone {
                let sql =
                    "UPDATE queues SET waiting = waiting - 1, bytes = bytes - ?2 WHERE id = ?1";
                connection
                    .prepare_cached(sql)?
                    .execute(params![queue, bytes])?;
            }
        }
        Settlement::Dead {
            trigger,
            reason,
            died_at,
        } => {
            let sql =
                "INSERT INTO dead_letters(trigger_uid, trigger_namespace, trigger_name, reason,
                           died_at, queue, failed, message_id, body, content_type, headers,
                           published_at, bytes)
                       SELECT ?2, ?3, ?4, ?5, ?6, queue, failed + 1, message_id, body, content_type,
                           headers, published_at, bytes
                       FROM messages WHERE id = ?1";
            connection.prepare_cached(sql)?.execute(params![
                id,
                trigger.uid.as_str(),
                trigger.namespace.as_str(),
                trigger.name.as_str(),
                reason,
                died_at
            ])?;
            let sql = "DELETE FROM messages WHERE id = ?1 RETURNING queue";
            let gone: Option<i64> = connection
                .prepare_cached(sql)?
                .query_row([id], |row| row.get(0))
                .optional()?;
            if let Some(queue) = gone {
                let sql = "UPDATE queues SET waiting = waiting - 1, dead = dead + 1 WHERE id = ?1";
                connection.prepare_cached(sql)?.execute([queue])?;
            }
        }
    }
    Ok(())
}

/// How many messages are in a queue, those that are held included.
pub(super) fn waiting(connection: &Connection, queue: i64) -> Result<u64, Fault> {
    let sql = "SELECT waiting FROM queues WHERE id = ?1";
    let waiting: i64 = connection
        .prepare_cached(sql)?
        .query_row([queue], |row| row.get(0))?;
    Ok(waiting.try_into().unwrap_or(0))
}

/// Nanoseconds since 1970, for the years 1677 to 2262.
pub(super) fn nanoseconds(time: Timestamp) -> i64 {
    let nanoseconds = time.as_nanosecond();
    i64::try_from(nanoseconds).unwrap_or(if nanoseconds < 0 { i64::MIN } else { i64::MAX })
}

pub(super) fn timestamp(nanoseconds: i64) -> Timestamp {
    // Every value of this type is within the range of a timestamp.
    Timestamp::from_nanosecond(nanoseconds.into()).unwrap_or_default()
}

fn to_i64(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
