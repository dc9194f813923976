//! The conformance suite.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use sless_conformance::{Harness, invocation_log::InvocationLogHarness};
use sless_core::{InvocationLog, Result};
use sless_postgres::PostgresInvocationLog;

use super::support::Schema;

#[derive(Debug)]
struct Database {
    schema: Schema,
    log: Mutex<Option<Arc<PostgresInvocationLog>>>,
}

impl Database {
    fn new() -> Self {
        Self {
            schema: Schema::new(),
            log: Mutex::default(),
        }
    }
}

#[async_trait]
impl Harness for Database {
    async fn clean_up(&self) -> Result<()> {
        self.log.lock().expect("no panic").take();
        self.schema.drop().await;
        Ok(())
    }
}

#[async_trait]
impl InvocationLogHarness for Database {
    async fn invocation_log(&self) -> Result<Arc<dyn InvocationLog>> {
        if let Some(log) = &*self.log.lock().expect("no panic") {
            return Ok(log.clone());
        }
        let opened = Arc::new(PostgresInvocationLog::open(self.schema.config())?);
        let mut log = self.log.lock().expect("no panic");
        Ok(log.get_or_insert(opened).clone())
    }

    async fn reopen(&self) -> Result<bool> {
        if let Some(log) = self.log.lock().expect("no panic").take() {
            log.close();
        }
        Ok(true)
    }
}

sless_conformance::invocation_log!(
    #[ignore = "needs PostgreSQL: testing/postgres/up"]
    Database::new()
);
