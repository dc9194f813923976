use std::{path::Path, sync::Arc};

use rusqlite::Connection;

use crate::{error::Fault, points};

/// What a file is to hold: the steps that lead from an empty file to the present schema.
///
/// A step that was released is never changed; a change is another step. `user_version` counts the
/// steps that a file has gone.
#[derive(Debug)]
pub(crate) struct Schema {
    /// The name of the file.
    pub(crate) file: &'static str,
    /// SQL, one text for each version.
    pub(crate) steps: &'static [&'static str],
    /// SQL that is run at each opening, after the steps.
    pub(crate) tidy: &'static [&'static str],
}

impl Schema {
    fn known(&self) -> i64 {
        i64::try_from(self.steps.len()).unwrap_or(i64::MAX)
    }

    /// Refuses a file from a newer version, and answers which version it is.
    pub(crate) fn check(&self, connection: &Connection, file: &Arc<Path>) -> Result<i64, Fault> {
        let found = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let known = self.known();
        if found > known {
            return Err(Fault::NewerSchema {
                file: file.clone(),
                found,
                known,
            });
        }
        Ok(found)
    }

    /// Brings the file up to date. Each step is in it whole or not at all.
    pub(crate) fn migrate(
        &self,
        connection: &mut Connection,
        file: &Arc<Path>,
    ) -> Result<(), Fault> {
        let found = self.check(connection, file)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "full")?;
        // What a checkpoint has emptied is given back to the disk.
        connection.pragma_update(None, "journal_size_limit", 16 * 1024 * 1024)?;
        for (version, step) in (1_i64..).zip(self.steps) {
            if version > found {
                let transaction = connection.transaction()?;
                transaction.execute_batch(step)?;
                transaction.pragma_update(None, "user_version", version)?;
                points::SCHEMA_BEFORE.pass();
                transaction.commit()?;
                points::SCHEMA_AFTER.pass();
            }
        }
        for statement in self.tidy {
            connection.execute_batch(statement)?;
        }
        Ok(())
    }
}
