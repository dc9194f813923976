//! [`PostgresInvocationLog`].

mod query;
mod retain;
mod rows;

use std::{
    fmt,
    sync::{
        Arc, Mutex as Seen, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use jiff::Timestamp;
use sless_core::{
    Error, Invocation, InvocationLog, InvocationPage, InvocationQuery, Result, Retention,
};
use tokio::sync::Mutex;
use tokio_postgres::error::SqlState;

use crate::{config::PostgresConfig, connection::Connections, error::Fault, migrate::migrate};

/// An [`InvocationLog`] in a table of a PostgreSQL database.
///
/// Records are durable once [`append`](InvocationLog::append) has answered, as far as the database's
/// `synchronous_commit` promises it. Clones are the same log.
#[derive(Clone)]
pub struct PostgresInvocationLog(Arc<Inner>);

struct Inner {
    connections: Connections,
    config: PostgresConfig,
    /// Whether the table was seen to be up to date.
    ready: AtomicBool,
    /// Why the last use failed; nothing if it did not.
    problem: Seen<Option<String>>,
    migrating: Mutex<()>,
}

impl PostgresInvocationLog {
    /// Connects, and makes the table or brings it up to date.
    ///
    /// Dropping the future leaves the table as it was, or up to date.
    ///
    /// # Errors
    /// `Invalid` if a setting is wrong; `Unsupported`, reason `schema_too_new`, if a newer version of
    /// sless wrote the table; `PermissionDenied`; `Unavailable` or `Timeout` if the database cannot be
    /// reached.
    pub async fn connect(config: PostgresConfig) -> Result<Self> {
        let log = Self::open(config)?;
        log.check().await?;
        Ok(log)
    }

    /// A log that connects when it is first used: for programs that go on without their database.
    /// Reads the file of `sslrootcert`, and touches no network.
    ///
    /// # Errors
    /// `Invalid` if a setting is wrong.
    pub fn open(config: PostgresConfig) -> Result<Self> {
        let named = |fault: Fault| Error::from(fault).during("invocations.connect");
        let connections = Connections::new(&config).map_err(named)?;
        Ok(Self(Arc::new(Inner {
            connections,
            config,
            ready: AtomicBool::new(false),
            problem: Seen::default(),
            migrating: Mutex::new(()),
        })))
    }

    /// Makes sure that the table is there and up to date.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn check(&self) -> Result<()> {
        let ready = self.0.ready().await;
        self.0.seen(ready, "invocations.connect")
    }

    /// Why the log does not work, as far as the last use showed: a sentence without secrets.
    pub fn problem(&self) -> Option<String> {
        self.0.problem().clone()
    }

    /// Ends all connections; every later use fails.
    pub fn close(&self) {
        self.0.connections.close();
    }
}

impl Inner {
    async fn ready(&self) -> Result<(), Fault> {
        if self.ready.load(Ordering::Acquire) {
            return Ok(());
        }
        let _one = self.migrating.lock().await;
        if self.ready.load(Ordering::Acquire) {
            return Ok(());
        }
        let schema = self.config.schema.clone();
        let migrated = self.connections.run(|connection| {
            Box::pin(async move { migrate(connection, schema.as_deref()).await })
        });
        migrated.await?;
        self.ready.store(true, Ordering::Release);
        Ok(())
    }

    fn problem(&self) -> MutexGuard<'_, Option<String>> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes how a use of the log went. A table that is gone is made again at the next one.
    fn seen<T>(&self, result: Result<T, Fault>, operation: &'static str) -> Result<T> {
        let fault = match result {
            Ok(value) => {
                *self.problem() = None;
                return Ok(value);
            }
            Err(fault) => fault,
        };
        let gone = [
            SqlState::UNDEFINED_TABLE,
            SqlState::UNDEFINED_COLUMN,
            SqlState::INVALID_SCHEMA_NAME,
        ];
        if fault.code().is_some_and(|code| gone.contains(code)) {
            self.ready.store(false, Ordering::Release);
        }
        let (own, error) = (!matches!(fault, Fault::Rule(_)), Error::from(fault));
        if own {
            *self.problem() = Some(error.message().to_owned());
        }
        Err(error.during(operation))
    }

    async fn append(&self, records: Vec<Invocation>) -> Result<(), Fault> {
        let limit = self.config.append_records;
        if records.len() > limit {
            return Err(Error::limit("append_records", limit, "records").into());
        }
        if records.is_empty() {
            return Ok(());
        }
        self.ready().await?;
        let columns = rows::Columns::of(records);
        let appended = self.connections.run(|connection| {
            Box::pin(async move {
                let insert = connection.prepare_cached(rows::INSERT).await?;
                connection.execute(&insert, &columns.parameters()).await?;
                Ok(())
            })
        });
        appended.await
    }
}

#[async_trait]
impl InvocationLog for PostgresInvocationLog {
    async fn append(&self, records: Vec<Invocation>) -> Result<()> {
        let appended = self.0.append(records).await;
        self.0.seen(appended, "invocations.append")
    }

    async fn query(&self, query: &InvocationQuery) -> Result<InvocationPage> {
        let page = query::page(&self.0, query).await;
        self.0.seen(page, "invocations.query")
    }

    async fn retain(&self, rule: &Retention, now: Timestamp) -> Result<u64> {
        let retained = retain::retain(&self.0, *rule, now).await;
        self.0.seen(retained, "invocations.retain")
    }
}

impl fmt::Debug for PostgresInvocationLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresInvocationLog")
            .field("connections", &self.0.connections)
            .field("config", &self.0.config)
            .field("ready", &self.0.ready)
            .finish_non_exhaustive()
    }
}
