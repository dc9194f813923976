//! The invocation log in PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use sless_core::{Error, ErrorKind};
use sless_postgres::{PostgresConfig, PostgresInvocationLog};

use super::{Assembled, Part};
use crate::{StartError, settings::Settings};

/// Puts the database that the settings name in the place of the base's log.
///
/// A wrong address or password stops the start. A database that is away does not: functions can be
/// called without it, and records wait for it in the engine's queue.
pub(super) async fn put_in(settings: &Settings, opened: &mut Assembled) -> Result<(), StartError> {
    let Some(url) = &settings.services.database_url else {
        return Ok(());
    };
    let log = PostgresInvocationLog::open(PostgresConfig::new(url.expose())).map_err(named)?;
    if let Err(error) = log.check().await {
        if !matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout) {
            return Err(named(error));
        }
        let error = error.chain();
        tracing::warn!(%error, "DATABASE_URL cannot be reached: calls go on, and their records wait");
    }
    opened.backends.invocations = Some(Arc::new(log.clone()));
    opened.add(PostgresPart(log));
    Ok(())
}

fn named(error: Error) -> StartError {
    let message = format!("DATABASE_URL: {}", error.message());
    Error::new(error.kind(), message)
        .with_reason(error.reason().to_owned())
        .with_source(error)
        .into()
}

#[derive(Debug)]
struct PostgresPart(PostgresInvocationLog);

#[async_trait]
impl Part for PostgresPart {
    fn name(&self) -> &'static str {
        "invocation_log"
    }

    fn state(&self) -> Result<(), String> {
        self.0.problem().map_or(Ok(()), Err)
    }

    fn is_vital(&self) -> bool {
        false
    }

    async fn shutdown(&self) {
        self.0.close();
    }
}
