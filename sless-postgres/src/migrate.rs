//! The table's versions.

use deadpool_postgres::Object;

use crate::{connection::quoted, error::Fault};

/// The steps that lead from nothing to the present schema. A step that was released is never
/// changed; a change is another step, which the statements of older versions must survive, since
/// servers of two versions run side by side during an upgrade.
pub(crate) const STEPS: &[&str] = &[include_str!("schema/1.sql")];

/// Brings the table up to date. Of several servers that start at once, one does it and the others
/// wait; each step is there whole or not at all.
pub(crate) async fn migrate(connection: &mut Object, schema: Option<&str>) -> Result<(), Fault> {
    let transaction = connection.transaction().await?;
    // Held until the transaction ends; named after the schema, so that two of them do not meet.
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended('sless_invocations:' || $1, 0))";
    let named = match schema {
        Some(schema) => schema.to_owned(),
        None => transaction
            .query_one("SELECT coalesce(current_schema(), '')", &[])
            .await?
            .get(0),
    };
    transaction.execute(lock, &[&named]).await?;
    if let Some(schema) = schema {
        // `IF NOT EXISTS` asks for the right to make one even where it is there.
        let there = "SELECT 1 FROM pg_namespace WHERE nspname = $1";
        if transaction.query_opt(there, &[&schema]).await?.is_none() {
            let make = format!("CREATE SCHEMA {}", quoted(schema));
            transaction.batch_execute(&make).await?;
        }
    }
    let found = version(&transaction).await?;
    let known = i32::try_from(STEPS.len()).unwrap_or(i32::MAX);
    if found > known {
        return Err(Fault::NewerSchema { found, known });
    }
    for (version, step) in (1_i32..).zip(STEPS) {
        if version > found {
            transaction.batch_execute(step).await?;
            let write = "INSERT INTO sless_invocations_version (version) VALUES ($1)
                         ON CONFLICT (one) DO UPDATE SET version = excluded.version";
            transaction.execute(write, &[&version]).await?;
        }
    }
    transaction.commit().await?;
    Ok(())
}

/// Which version the table has; 0 where there is none.
async fn version(transaction: &deadpool_postgres::Transaction<'_>) -> Result<i32, Fault> {
    let there = "SELECT to_regclass('sless_invocations_version') IS NOT NULL,
                        to_regclass('sless_invocations') IS NOT NULL";
    let row = transaction.query_one(there, &[]).await?;
    let (versioned, table): (bool, bool) = (row.get(0), row.get(1));
    if !versioned {
        let make = "CREATE TABLE sless_invocations_version (
                        one BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (one),
                        version INTEGER NOT NULL
                    )";
        transaction.batch_execute(make).await?;
    }
    if !table {
        // Somebody dropped it: it is made again.
        return Ok(0);
    }
    let read = "SELECT version FROM sless_invocations_version";
    let row = transaction.query_opt(read, &[]).await?;
    Ok(row.map_or(0, |row| row.get(0)))
}
