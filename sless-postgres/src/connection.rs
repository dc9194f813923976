//! Connections: a bounded pool that makes them anew where they broke.

use std::{fmt, time::Duration};

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime,
};
use futures::future::BoxFuture;

use crate::{config::PostgresConfig, error::Fault, tls};

/// How much later than the server the client gives a statement up.
const CLIENT_PATIENCE: Duration = Duration::from_secs(1);

/// A bounded number of connections to one database. Clones share them.
///
/// Each open connection has a task that carries its bytes; it ends with the connection, and all of
/// them when the pool is closed or the last handle of it is dropped.
#[derive(Clone)]
pub(crate) struct Connections {
    pool: Pool,
    statement_timeout: Duration,
}

impl Connections {
    /// Opens no connection yet, but reads what TLS needs from the disk.
    pub(crate) fn new(config: &PostgresConfig) -> Result<Self, Fault> {
        let parsed = config.parse()?;
        let connector = tls::connector(parsed.tls, &parsed.roots)?;
        let manager = Manager::from_config(
            parsed.client,
            connector,
            ManagerConfig {
                recycling_method: RecyclingMethod::Fast,
            },
        );
        let set_up = set_up(config);
        let hook = Hook::async_fn(move |client, _| {
            let set_up = set_up.clone();
            Box::pin(async move {
                let done = client.batch_execute(&set_up).await;
                done.map_err(HookError::Backend)
            })
        });
        let wait = Duration::from_millis(config.connection_wait_ms);
        let connect = Duration::from_millis(config.connect_timeout_ms);
        let pool = Pool::builder(manager)
            .max_size(config.connections)
            .wait_timeout(Some(wait))
            // The connection, and the first statement on it.
            .create_timeout(Some(connect.saturating_add(config.statement_timeout())))
            .recycle_timeout(Some(connect))
            .runtime(Runtime::Tokio1)
            .post_create(hook)
            .build()
            .map_err(|error| Fault::Setting(error.to_string()))?;
        Ok(Self {
            pool,
            statement_timeout: config.statement_timeout(),
        })
    }

    /// Does something with a connection, within the time that a statement may take. A connection on
    /// which that time is over is closed.
    pub(crate) async fn run<T>(
        &self,
        work: impl for<'a> FnOnce(&'a mut Object) -> BoxFuture<'a, Result<T, Fault>>,
    ) -> Result<T, Fault> {
        let mut connection = self.pool.get().await?;
        let limit = self.statement_timeout;
        let patience = limit.saturating_add(CLIENT_PATIENCE);
        if let Ok(result) = tokio::time::timeout(patience, work(&mut connection)).await {
            return result;
        }
        drop(Object::take(connection));
        Err(Fault::TooLong(limit))
    }

    /// Ends all connections; every later use fails.
    pub(crate) fn close(&self) {
        self.pool.close();
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.pool.status();
        f.debug_struct("Connections")
            .field("open", &status.size)
            .field("idle", &status.available)
            .finish()
    }
}

/// What is said first on each connection.
fn set_up(config: &PostgresConfig) -> String {
    let mut text = format!(
        "SET statement_timeout = {}; SET client_min_messages = warning;",
        config.statement_timeout_ms
    );
    if let Some(schema) = &config.schema {
        text.push_str(&format!(" SET search_path TO {};", quoted(schema)));
    }
    text
}

/// A name as SQL text (PostgreSQL's manual, 4.1.1).
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_quotes() {
        assert_eq!(
            quoted("a\"; DROP TABLE x; --"),
            "\"a\"\"; DROP TABLE x; --\""
        );
        let config = PostgresConfig::default().with_schema("s");
        assert!(set_up(&config).ends_with("SET search_path TO \"s\";"));
    }
}
