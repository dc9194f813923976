//! The statements of the dead letters.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use sless_core::{
    DeadLetter, DeadLetterPage, DeadLetterQuery, DeadLetterSelection, Error, Name, Namespace, Uid,
    resource::TriggerId,
};

use super::store::{message, timestamp};
use crate::error::Fault;

/// The largest page.
const PAGE_MAX: usize = 1000;

/// How many letters one transaction moves or drops at most, so that other writes get a turn between.
pub(super) const STEP: usize = 500;

/// Reads a page, oldest first.
pub(super) fn page(
    connection: &Connection,
    trigger: &TriggerId,
    query: &DeadLetterQuery,
) -> Result<DeadLetterPage, Fault> {
    let limit = query.limit.clamp(1, PAGE_MAX);
    let after: i64 = match &query.cursor {
        Some(cursor) => cursor.parse().map_err(|_| {
            Error::invalid("cursor: expected the `next` of a page").with_reason("cursor_invalid")
        })?,
        None => 0,
    };
    let sql =
        "SELECT message_id, body, content_type, headers, published_at, id, reason, failed, died_at
               FROM dead_letters
               WHERE trigger_uid = ?1 AND trigger_namespace = ?2 AND trigger_name = ?3 AND id > ?4
               ORDER BY id LIMIT ?5";
    let mut statement = connection.prepare_cached(sql)?;
    // At most a thousand and one.
    let fetched = i64::try_from(limit + 1).unwrap_or(i64::MAX);
    let (uid, namespace, name) = (&trigger.uid, &trigger.namespace, &trigger.name);
    let key = params![
        uid.as_str(),
        namespace.as_str(),
        name.as_str(),
        after,
        fetched
    ];
    let mut rows = statement.query(key)?;
    let mut page = DeadLetterPage::default();
    while let Some(row) = rows.next()? {
        if page.items.len() == limit {
            page.next = page
                .items
                .last()
                .map(|letter: &DeadLetter| letter.id.clone());
            break;
        }
        page.items.push(DeadLetter {
            id: row.get::<_, i64>(5)?.to_string(),
            message: message(row)?,
            reason: row.get(6)?,
            attempts: row.get(7)?,
            died_at: timestamp(row.get(8)?),
        });
    }
    Ok(page)
}

/// The triggers that have letters, each with how many, and since when.
pub(super) fn count(connection: &Connection) -> Result<Vec<(TriggerId, i64, Timestamp)>, Fault> {
    let sql = "SELECT trigger_namespace, trigger_name, trigger_uid, count(*), min(died_at)
               FROM dead_letters GROUP BY 1, 2, 3";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    let mut counted = Vec::new();
    while let Some(row) = rows.next()? {
        let (namespace, name): (String, String) = (row.get(0)?, row.get(1)?);
        // Only names that are right were written.
        let (Ok(namespace), Ok(name)) = (Namespace::new(namespace), Name::new(name)) else {
            continue;
        };
        let trigger = TriggerId {
            namespace,
            name,
            uid: Uid::new(row.get::<_, String>(2)?),
        };
        counted.push((trigger, row.get(3)?, timestamp(row.get(4)?)));
    }
    Ok(counted)
}

/// Which letters are meant, oldest first; those that are there at this moment.
pub(super) fn select(
    connection: &Connection,
    trigger: &TriggerId,
    which: &DeadLetterSelection,
) -> Result<Vec<i64>, Fault> {
    let (uid, namespace, name) = (&trigger.uid, &trigger.namespace, &trigger.name);
    let of = |id: Option<i64>| (uid.as_str(), namespace.as_str(), name.as_str(), id);
    match which {
        DeadLetterSelection::All => {
            let sql = "SELECT id FROM dead_letters
                       WHERE trigger_uid = ?1 AND trigger_namespace = ?2 AND trigger_name = ?3
                       AND ?4 IS NULL ORDER BY id";
            let mut statement = connection.prepare_cached(sql)?;
            let ids = statement.query_map(of(None), |row| row.get(0))?;
            Ok(ids.collect::<Result<_, _>>()?)
        }
        DeadLetterSelection::Ids(ids) => {
            let sql = "SELECT id FROM dead_letters
                       WHERE trigger_uid = ?1 AND trigger_namespace = ?2 AND trigger_name = ?3
                       AND id = ?4";
            let mut statement = connection.prepare_cached(sql)?;
            let mut found = Vec::new();
            for id in ids.iter().filter_map(|id| id.parse().ok()) {
                if statement.exists(of(Some(id)))? {
                    found.push(id);
                }
            }
            found.sort_unstable();
            found.dedup();
            Ok(found)
        }
    }
}

/// Puts a letter back into its queue, which it tells; `None` where it is not there any more.
pub(super) fn redrive(connection: &Connection, id: i64) -> Result<Option<i64>, Fault> {
    let sql = "INSERT INTO messages(queue, due_at, failed, message_id, body, content_type, headers,
                   published_at, bytes)
               SELECT queue, 0, 0, message_id, body, content_type, headers, published_at, bytes
               FROM dead_letters WHERE id = ?1";
    connection.prepare_cached(sql)?.execute([id])?;
    let sql = "DELETE FROM dead_letters WHERE id = ?1 RETURNING queue";
    let queue = connection
        .prepare_cached(sql)?
        .query_row([id], |row| row.get(0))
        .optional()?;
    if let Some(queue) = queue {
        let sql = "UPDATE queues SET waiting = waiting + 1, dead = dead - 1 WHERE id = ?1";
        connection.prepare_cached(sql)?.execute(params![queue])?;
    }
    Ok(queue)
}

/// Drops a letter, and tells its queue; `None` where it is not there any more.
pub(super) fn purge(connection: &Connection, id: i64) -> Result<Option<i64>, Fault> {
    let sql = "DELETE FROM dead_letters WHERE id = ?1 RETURNING queue, bytes";
    let row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let gone: Option<(i64, i64)> = connection
        .prepare_cached(sql)?
        .query_row([id], row)
        .optional()?;
    let Some((queue, bytes)) = gone else {
        return Ok(None);
    };
    let sql = "UPDATE queues SET dead = dead - 1, bytes = bytes - ?2 WHERE id = ?1";
    connection
        .prepare_cached(sql)?
        .execute(params![queue, bytes])?;
    Ok(Some(queue))
}
