//! The statements of the catalog.

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use sless_core::{
    Error, Kind, ListQuery, Name, Namespace, Object, ObjectKey, Page, Version, resource::Metadata,
};

use super::missing;
use crate::error::Fault;

pub(super) fn version(position: i64) -> Version {
    Version::new(position.to_string())
}

/// The JSON of an object, checked against the limit.
pub(super) fn body(object: &Object, limit: usize) -> Result<String, Fault> {
    let body = serde_json::to_string(object).map_err(|source| Fault::Unwritable {
        what: "resource",
        source,
    })?;
    if body.len() > limit {
        return Err(Error::limit("object_bytes", limit, "bytes").into());
    }
    Ok(body)
}

/// Reads the columns `version, body`.
fn object(row: &Row<'_>) -> Result<Object, Fault> {
    let body = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
    let mut object: Object = serde_json::from_str(body).map_err(|source| Fault::Row {
        what: "resource",
        source,
    })?;
    object.metadata_mut().version = version(row.get(0)?);
    Ok(object)
}

pub(super) fn require(connection: &Connection, key: &ObjectKey) -> Result<Object, Fault> {
    let sql = "SELECT version, body FROM objects WHERE kind = ?1 AND namespace = ?2 AND name = ?3";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![
        key.kind.as_str(),
        key.namespace.as_str(),
        key.name.as_str()
    ])?;
    rows.next()?.map_or_else(|| Err(missing(key)), object)
}

/// The object, if it is the one that `given` was read from, and has not changed since.
pub(super) fn require_same(
    connection: &Connection,
    key: &ObjectKey,
    given: &Metadata,
) -> Result<Object, Fault> {
    let current = require(connection, key)?;
    if current.metadata().uid != given.uid {
        return Err(missing(key));
    }
    let found = &current.metadata().version;
    if *found != given.version {
        let told = format!("the version is {found}, given was \"{}\"", given.version);
        return Err(Error::conflict(told).into());
    }
    Ok(current)
}

pub(super) fn exists(connection: &Connection, key: &ObjectKey) -> Result<bool, Fault> {
    let sql = "SELECT 1 FROM objects WHERE kind = ?1 AND namespace = ?2 AND name = ?3";
    let key = params![key.kind.as_str(), key.namespace.as_str(), key.name.as_str()];
    Ok(connection.prepare_cached(sql)?.exists(key)?)
}

pub(super) fn insert(
    connection: &Connection,
    key: &ObjectKey,
    position: i64,
    body: &str,
) -> Result<(), Fault> {
    let sql =
        "INSERT INTO objects(kind, namespace, name, version, body) VALUES (?1, ?2, ?3, ?4, ?5)";
    let (namespace, name) = (key.namespace.as_str(), key.name.as_str());
    let row = params![key.kind.as_str(), namespace, name, position, body];
    connection.prepare_cached(sql)?.execute(row)?;
    Ok(())
}

pub(super) fn replace(
    connection: &Connection,
    key: &ObjectKey,
    position: i64,
    body: &str,
) -> Result<(), Fault> {
    let sql = "UPDATE objects SET version = ?4, body = ?5
               WHERE kind = ?1 AND namespace = ?2 AND name = ?3";
    let (namespace, name) = (key.namespace.as_str(), key.name.as_str());
    let row = params![key.kind.as_str(), namespace, name, position, body];
    connection.prepare_cached(sql)?.execute(row)?;
    Ok(())
}

pub(super) fn remove(connection: &Connection, key: &ObjectKey) -> Result<(), Fault> {
    let sql = "DELETE FROM objects WHERE kind = ?1 AND namespace = ?2 AND name = ?3";
    let key = params![key.kind.as_str(), key.namespace.as_str(), key.name.as_str()];
    connection.prepare_cached(sql)?.execute(key)?;
    Ok(())
}

pub(super) fn list(connection: &Connection, query: &ListQuery) -> Result<Page<Object>, Fault> {
    let limit = query.limit.clamp(1, ListQuery::LIMIT_MAX);
    let (after_namespace, after_name) = match &query.cursor {
        Some(cursor) => {
            let parts = cursor.split_once('/').ok_or_else(|| {
                Error::invalid("cursor: expected the `next` of a page")
                    .with_reason("cursor_invalid")
            });
            parts.map(|(namespace, name)| (namespace.to_owned(), name.to_owned()))?
        }
        None => Default::default(),
    };
    // One snapshot for the position and the rows.
    let snapshot = connection.unchecked_transaction()?;
    let position = version(last_position(&snapshot)?);
    let sql = if query.namespace.is_some() {
        "SELECT version, body FROM objects
         WHERE kind = ?1 AND namespace = ?2 AND ?3 <= namespace AND name > ?4
         ORDER BY namespace, name LIMIT ?5"
    } else {
        "SELECT version, body FROM objects
         WHERE kind = ?1 AND ?2 IS NULL AND (namespace, name) > (?3, ?4)
         ORDER BY namespace, name LIMIT ?5"
    };
    let mut statement = snapshot.prepare_cached(sql)?;
    let mut rows = statement.query(params![
        query.kind.as_str(),
        query.namespace.as_ref().map(Namespace::as_str),
        after_namespace,
        after_name,
        // At most a thousand and one.
        i64::try_from(limit + 1).unwrap_or(i64::MAX)
    ])?;
    let mut items = Vec::new();
    let mut next = None;
    while let Some(row) = rows.next()? {
        if items.len() == limit {
            let last = items.last().map(Object::metadata);
            next = last.map(|last| format!("{}/{}", last.namespace, last.name));
            break;
        }
        items.push(object(row)?);
    }
    Ok(Page {
        items,
        next,
        position,
    })
}

/// Notes that an object changed, and answers the position of that change.
pub(super) fn record_change(connection: &Connection, key: &ObjectKey) -> Result<i64, Fault> {
    let sql = "INSERT INTO changes(kind, namespace, name) VALUES (?1, ?2, ?3)";
    let key = params![key.kind.as_str(), key.namespace.as_str(), key.name.as_str()];
    connection.prepare_cached(sql)?.execute(key)?;
    Ok(connection.last_insert_rowid())
}

/// Drops the changes up to this position.
pub(super) fn forget_changes(connection: &Connection, up_to: i64) -> Result<(), Fault> {
    let sql = "DELETE FROM changes WHERE position <= ?1";
    connection.prepare_cached(sql)?.execute(params![up_to])?;
    Ok(())
}

/// The position of the last change, 0 where there was none.
pub(super) fn last_position(connection: &Connection) -> Result<i64, Fault> {
    // Only AUTOINCREMENT remembers it when every row was dropped.
    let sql = "SELECT seq FROM sqlite_sequence WHERE name = 'changes'";
    Ok(connection
        .prepare_cached(sql)?
        .query_row([], |row| row.get(0))
        .optional()?
        .unwrap_or(0))
}

/// The changes after a position, at most `limit`; `None` if some of them were dropped already, or if
/// the position is not one of this catalog.
pub(super) fn changes_after(
    connection: &Connection,
    position: i64,
    limit: i64,
) -> Result<Option<Vec<(ObjectKey, i64)>>, Fault> {
    let snapshot = connection.unchecked_transaction()?;
    let last = last_position(&snapshot)?;
    let sql = "SELECT kind, namespace, name, position FROM changes
               WHERE position > ?1 ORDER BY position LIMIT ?2";
    let mut statement = snapshot.prepare_cached(sql)?;
    let mut rows = statement.query(params![position, limit])?;
    let mut changes = Vec::new();
    while let Some(row) = rows.next()? {
        changes.push((key(row)?, row.get(3)?));
    }
    // Positions have no gaps, so the first one is the next one unless it was dropped.
    let follows = match changes.first() {
        Some((_, first)) => *first == position + 1,
        None => position == last,
    };
    Ok(follows.then_some(changes))
}

fn key(row: &Row<'_>) -> Result<ObjectKey, Fault> {
    let text = |at| row.get_ref(at)?.as_str().map_err(rusqlite::Error::from);
    let kind: Kind = text(0)?.parse()?;
    Ok(ObjectKey::new(
        kind,
        Namespace::new(text(1)?)?,
        Name::new(text(2)?)?,
    ))
}
