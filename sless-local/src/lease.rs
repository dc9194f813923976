//! [`LocalLease`]: who may act, among the parts of one process.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use rusqlite::{Connection, params};
use sless_core::{Clock, Error, Grant, Lease, Result};
use tokio::sync::Mutex;

use crate::{
    database::{Database, Durability},
    error::BACKEND,
};

/// A [`Lease`] whose tokens are kept in the file `db/catalog.db`.
///
/// One process owns a data folder, so who holds a lease is kept in memory: when the process ends, all its
/// leases do. Only a change of holder writes, which makes the next token durable before it is given.
pub struct LocalLease {
    database: Database,
    clock: Arc<dyn Clock>,
    held: Mutex<HashMap<String, Held>>,
}

struct Held {
    holder: String,
    token: u64,
    /// By the clock's elapsed time: a jump of the wall clock ends no lease.
    until: Duration,
}

impl LocalLease {
    pub(crate) fn in_database(database: Database, clock: Arc<dyn Clock>) -> Self {
        Self {
            database,
            clock,
            held: Mutex::default(),
        }
    }
}

impl fmt::Debug for LocalLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalLease")
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Lease for LocalLease {
    async fn acquire(&self, name: &str, holder: &str, ttl: Duration) -> Result<Option<Grant>> {
        let mut held = self.held.lock().await;
        let now = self.clock.elapsed();
        if let Some(found) = held.get_mut(name).filter(|found| found.until > now) {
            if found.holder != holder {
                return Ok(None);
            }
            found.until = now.saturating_add(ttl);
            return Ok(Some(Grant { token: found.token }));
        }
        let lease = name.to_owned();
        let job = move |connection: &Connection| Ok(next_token(connection, &lease)?);
        let token = self
            .database
            .write(Durability::Synced, job)
            .await
            .map_err(|fault| {
                Error::from(fault)
                    .during("lease.acquire")
                    .on(name)
                    .at(BACKEND)
            })?;
        // The time that the write took is not the holder's.
        let until = now.saturating_add(ttl);
        held.insert(
            name.to_owned(),
            Held {
                holder: holder.to_owned(),
                token,
                until,
            },
        );
        Ok(Some(Grant { token }))
    }

    async fn release(&self, name: &str, holder: &str) -> Result<()> {
        let mut held = self.held.lock().await;
        if held.get(name).is_some_and(|found| found.holder == holder) {
            held.remove(name);
        }
        Ok(())
    }
}

fn next_token(connection: &Connection, name: &str) -> rusqlite::Result<u64> {
    let sql = "INSERT INTO leases(name, token) VALUES (?1, 1)
               ON CONFLICT(name) DO UPDATE SET token = token + 1 RETURNING token";
    let token: i64 = connection
        .prepare_cached(sql)?
        .query_row(params![name], |row| row.get(0))?;
    Ok(token.unsigned_abs())
}
