//! [`LocalInvocationLog`]: records in SQLite.

mod rows;

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::Connection;
use sless_core::{
    Error, Invocation, InvocationLog, InvocationPage, InvocationQuery, Result, Retention,
};

use crate::{
    InvocationsConfig,
    data_dir::DataDir,
    database::{Database, Durability, Schema},
    error::{BACKEND, Fault},
};

pub(crate) static SCHEMA: Schema = Schema {
    file: "invocations.db",
    steps: &[include_str!("schema.sql"), include_str!("schema-2.sql")],
    tidy: &[],
};

/// An [`InvocationLog`] in the file `db/invocations.db`.
///
/// What was appended survives a killed process. A power cut may take the last moments, and leaves the
/// rest whole: a record of a call is not worth a sync of the disk.
#[derive(Debug)]
pub struct LocalInvocationLog {
    database: Database,
    config: InvocationsConfig,
}

impl LocalInvocationLog {
    /// Opens the log of a data folder. Touches the file system.
    ///
    /// # Errors
    /// `Unsupported`, reason `schema_too_new`, if a newer version of sless wrote it; `Corrupt` if it is
    /// damaged.
    pub fn open(dir: &DataDir, config: &InvocationsConfig) -> Result<Self> {
        let database = Database::open(dir, &SCHEMA, &config.database)?;
        Ok(Self {
            database,
            config: config.clone(),
        })
    }

    pub(crate) async fn close(&self) {
        self.database.close().await;
    }

    /// Drops records that `select` finds, a bounded number in one transaction, until there are none or
    /// `most` are gone.
    async fn drop_records(
        &self,
        most: u64,
        step: impl Fn(&Connection, u64) -> Result<u64, Fault> + Send + Sync + 'static,
    ) -> Result<u64, Fault> {
        let step = Arc::new(step);
        let mut dropped = 0;
        while dropped < most {
            let size = u64::from(self.config.retain_step.max(1)).min(most - dropped);
            let step = step.clone();
            let job = move |connection: &Connection| step(connection, size);
            let gone = self.database.write(Durability::Written, job).await?;
            dropped += gone;
            if gone < size {
                break;
            }
        }
        Ok(dropped)
    }
}

#[async_trait]
impl InvocationLog for LocalInvocationLog {
    async fn append(&self, records: Vec<Invocation>) -> Result<()> {
        let named = |error: Error| error.during("invocations.append").at(BACKEND);
        let limit = self.config.append_records;
        if records.len() > limit {
            return Err(named(Error::limit("append_records", limit, "records")));
        }
        if records.is_empty() {
            return Ok(());
        }
        let job = move |connection: &Connection| {
            records
                .iter()
                .try_for_each(|record| rows::insert(connection, record))
        };
        let appended = self.database.write(Durability::Written, job).await;
        appended.map_err(|fault| named(fault.into()))
    }

    async fn query(&self, query: &InvocationQuery) -> Result<InvocationPage> {
        let query = query.clone();
        let page = self
            .database
            .read(move |connection| rows::page(connection, &query))
            .await;
        page.map_err(|fault| Error::from(fault).during("invocations.query"))
    }

    async fn retain(&self, rule: &Retention, now: Timestamp) -> Result<u64> {
        let rule = *rule;
        let retained = async {
            let oldest =
                rows::nanoseconds(now.saturating_sub(rule.max_age).unwrap_or(Timestamp::MIN));
            let old = self.drop_records(u64::MAX, move |connection, size| {
                rows::drop_older(connection, oldest, size)
            });
            let old = old.await?;
            let count = self.database.read(rows::count).await?;
            let more = count.saturating_sub(rule.max_records);
            Ok(old + self.drop_records(more, rows::drop_oldest).await?)
        };
        retained
            .await
            .map_err(|fault: Fault| Error::from(fault).during("invocations.retain"))
    }
}
