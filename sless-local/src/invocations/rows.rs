//! The statements of the invocation log.

use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, Row, params, params_from_iter, types::Value};
use sless_core::{
    Error, Invocation, InvocationPage, InvocationQuery, Name, Namespace, Origin, resource::Uid,
};

use crate::error::Fault;

/// Nanoseconds since 1970, for the years 1677 to 2262.
pub(super) fn nanoseconds(time: Timestamp) -> i64 {
    let nanoseconds = time.as_nanosecond();
    i64::try_from(nanoseconds).unwrap_or(if nanoseconds < 0 { i64::MIN } else { i64::MAX })
}

/// Writes a record; one with an id that is there is passed over.
pub(super) fn insert(connection: &Connection, record: &Invocation) -> Result<(), Fault> {
    let sql = "INSERT INTO invocations(id, request_id, namespace, function, origin, cause, attempt,
                   started_at, duration, status, error, response_bytes, caller, request_bytes,
                   log_tail)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
               ON CONFLICT(id) DO NOTHING";
    connection.prepare_cached(sql)?.execute(params![
        record.id.as_str(),
        record.request_id,
        record.namespace.as_str(),
        record.function.as_str(),
        record.origin.as_str(),
        record.cause.as_ref().map(Name::as_str),
        record.attempt,
        nanoseconds(record.started_at),
        i64::try_from(record.duration.as_nanos()).unwrap_or(i64::MAX),
        record.status,
        record.error,
        i64::try_from(record.response_bytes).unwrap_or(i64::MAX),
        record.caller,
        i64::try_from(record.request_bytes).unwrap_or(i64::MAX),
        record.log_tail,
    ])?;
    Ok(())
}

/// Reads a page, newest first. Each combination of conditions is a statement of its own, for which
/// SQLite finds an index.
pub(super) fn page(
    connection: &Connection,
    query: &InvocationQuery,
) -> Result<InvocationPage, Fault> {
    let limit = query.limit.clamp(1, InvocationQuery::LIMIT_MAX);
    let mut sql = "SELECT id, request_id, namespace, function, origin, cause, attempt, started_at,
                       duration, status, error, response_bytes, number, caller, request_bytes,
                       log_tail
                   FROM invocations WHERE namespace = ?"
        .to_owned();
    let mut values: Vec<Value> = vec![query.namespace.as_str().to_owned().into()];
    let mut condition = |text: &str, bound: Vec<Value>| {
        sql.push_str(text);
        values.extend(bound);
    };
    if let Some(function) = &query.function {
        condition(
            " AND function = ?",
            vec![function.as_str().to_owned().into()],
        );
    }
    if let Some(origin) = query.origin {
        condition(" AND origin = ?", vec![origin.as_str().to_owned().into()]);
    }
    if query.failed_only {
        condition(" AND status >= 400", vec![]);
    }
    if let Some(since) = query.since {
        condition(" AND started_at >= ?", vec![nanoseconds(since).into()]);
    }
    if let Some(cursor) = &query.cursor {
        let (started_at, number) = read_cursor(cursor)?;
        let bound = vec![started_at.into(), number.into()];
        condition(" AND (started_at, number) < (?, ?)", bound);
    }
    // At most a thousand and one.
    let fetched = i64::try_from(limit + 1).unwrap_or(i64::MAX);
    condition(
        " ORDER BY started_at DESC, number DESC LIMIT ?",
        vec![fetched.into()],
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut page = InvocationPage::default();
    let mut last = None;
    while let Some(row) = rows.next()? {
        if page.items.len() == limit {
            page.next = last;
            break;
        }
        last = Some(format!(
            "{}.{}",
            row.get::<_, i64>(7)?,
            row.get::<_, i64>(12)?
        ));
        page.items.push(record(row)?);
    }
    Ok(page)
}

fn read_cursor(cursor: &str) -> Result<(i64, i64), Error> {
    let parts = cursor.split_once('.');
    let read = parts.and_then(|(time, number)| Some((time.parse().ok()?, number.parse().ok()?)));
    read.ok_or_else(|| {
        Error::invalid("cursor: expected the `next` of a page").with_reason("cursor_invalid")
    })
}

fn record(row: &Row<'_>) -> Result<Invocation, Fault> {
    let origin = match row.get_ref(4)?.as_str().map_err(rusqlite::Error::from)? {
        "http" => Origin::Http,
        "cron" => Origin::Cron,
        "event" => Origin::Event,
        "job" => Origin::Job,
        _ => Origin::Direct,
    };
    let unsigned = |at| {
        row.get::<_, i64>(at)
            .map(|value| u64::try_from(value).unwrap_or(0))
    };
    Ok(Invocation {
        id: Uid::new(row.get::<_, String>(0)?),
        request_id: row.get(1)?,
        namespace: Namespace::new(row.get::<_, String>(2)?)?,
        function: Name::new(row.get::<_, String>(3)?)?,
        origin,
        cause: row
            .get::<_, Option<String>>(5)?
            .map(Name::new)
            .transpose()?,
        attempt: row.get(6)?,
        started_at: Timestamp::from_nanosecond(row.get::<_, i64>(7)?.into()).unwrap_or_default(),
        duration: Duration::from_nanos(unsigned(8)?),
        status: row.get(9)?,
        error: row.get(10)?,
        caller: row.get(13)?,
        request_bytes: unsigned(14)?,
        response_bytes: unsigned(11)?,
        log_tail: row.get(15)?,
    })
}

pub(super) fn count(connection: &Connection) -> Result<u64, Fault> {
    let count: i64 =
        connection.query_row("SELECT count(*) FROM invocations", [], |row| row.get(0))?;
    Ok(u64::try_from(count).unwrap_or(0))
}

/// Drops up to `size` records that began before `oldest`.
pub(super) fn drop_older(connection: &Connection, oldest: i64, size: u64) -> Result<u64, Fault> {
    let sql = "DELETE FROM invocations WHERE number IN
                   (SELECT number FROM invocations WHERE started_at < ?1 LIMIT ?2)";
    let size = i64::try_from(size).unwrap_or(i64::MAX);
    Ok(connection
        .prepare_cached(sql)?
        .execute(params![oldest, size])? as u64)
}

/// Drops the `size` oldest records.
pub(super) fn drop_oldest(connection: &Connection, size: u64) -> Result<u64, Fault> {
    let sql = "DELETE FROM invocations WHERE number IN
                   (SELECT number FROM invocations ORDER BY started_at, number LIMIT ?1)";
    let size = i64::try_from(size).unwrap_or(i64::MAX);
    Ok(connection.prepare_cached(sql)?.execute(params![size])? as u64)
}
