//! What builder and scheduler remember: small JSON records in `db/work.db`, by kind and key.
//!
//! Everything is read once, at the start, and then kept in memory by its owner; the file is there for
//! the next start. A record is written before what it stands for begins, and after it has ended.

use rusqlite::{OptionalExtension as _, params};
use serde::{Serialize, de::DeserializeOwned};
use sless_core::Result;

use crate::{
    DatabaseConfig,
    data_dir::DataDir,
    database::{Database, Durability, Schema},
    error::Fault,
};

static SCHEMA: Schema = Schema {
    file: "work.db",
    steps: &["CREATE TABLE record (
                  kind TEXT NOT NULL,
                  key TEXT NOT NULL,
                  value TEXT NOT NULL,
                  PRIMARY KEY (kind, key)
              ) STRICT, WITHOUT ROWID;"],
    tidy: &[],
};

/// The records of a data folder. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Records(Database);

/// Which records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    /// Ended builds.
    Build,
    /// What is applied and what serves, for each function.
    Workload,
    /// Runs of jobs.
    Run,
}

impl RecordKind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::Workload => "workload",
            Self::Run => "run",
        }
    }
}

impl Records {
    pub(crate) fn open(dir: &DataDir, config: &DatabaseConfig) -> Result<Self> {
        Ok(Self(Database::open(dir, &SCHEMA, config)?))
    }

    /// All records of a kind, by key. One that cannot be read is passed over, and told in the trace: a
    /// build is made again, a workload applied again, and a run whose begin the caller saw is taken for
    /// interrupted.
    pub(crate) async fn all<T>(&self, kind: RecordKind) -> Result<Vec<(String, T)>>
    where
        T: DeserializeOwned + Send + 'static,
    {
        let read = self.0.read(move |connection| {
            let mut query =
                connection.prepare("SELECT key, value FROM record WHERE kind = ?1 ORDER BY key")?;
            let mut rows = query.query([kind.as_str()])?;
            let mut all = Vec::new();
            while let Some(row) = rows.next()? {
                let key: String = row.get(0)?;
                match serde_json::from_str(row.get_ref(1)?.as_str().unwrap_or_default()) {
                    Ok(value) => all.push((key, value)),
                    Err(error) => {
                        let kind = kind.as_str();
                        tracing::error!(kind, key, %error, "a record cannot be read");
                    }
                }
            }
            Ok(all)
        });
        Ok(read.await?)
    }

    /// Writes a record, replacing what is there.
    pub(crate) async fn put<T: Serialize>(
        &self,
        kind: RecordKind,
        key: &str,
        value: &T,
    ) -> Result<()> {
        let value = serde_json::to_string(value).map_err(|source| Fault::Unwritable {
            what: kind.as_str(),
            source,
        })?;
        let key = key.to_owned();
        let written = self.0.write(Durability::Synced, move |connection| {
            let mut insert =
                connection.prepare_cached("INSERT OR REPLACE INTO record VALUES (?1, ?2, ?3)")?;
            insert.execute(params![kind.as_str(), key, value])?;
            Ok(())
        });
        Ok(written.await?)
    }

    /// Removes a record. One that is not there is fine.
    pub(crate) async fn remove(&self, kind: RecordKind, key: &str) -> Result<()> {
        let key = key.to_owned();
        let removed = self.0.write(Durability::Synced, move |connection| {
            let mut delete =
                connection.prepare_cached("DELETE FROM record WHERE kind = ?1 AND key = ?2")?;
            delete.execute(params![kind.as_str(), key])?;
            Ok(())
        });
        Ok(removed.await?)
    }

    /// The name of this data folder in the environment of what it starts: random, made once.
    pub(crate) async fn instance(&self) -> Result<String> {
        let made = self.0.write(Durability::Synced, |connection| {
            let found = connection
                .query_row(
                    "SELECT value FROM record WHERE kind = 'instance'",
                    [],
                    |row| row.get(0),
                )
                .optional()?;
            if let Some(found) = found {
                return Ok(found);
            }
            let made = uuid::Uuid::new_v4().to_string();
            connection.execute("INSERT INTO record VALUES ('instance', '', ?1)", [&made])?;
            Ok(made)
        });
        Ok(made.await?)
    }

    /// Finishes what is under way and closes the file.
    pub(crate) async fn close(&self) {
        self.0.close().await;
    }
}
