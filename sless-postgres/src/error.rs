//! What can go wrong, and what callers see of it.

use std::time::Duration;

use deadpool_postgres::PoolError;
use sless_core::{Error, ErrorKind, Retry};
use tokio_postgres::error::SqlState;

/// The name of this backend in errors.
pub(crate) const BACKEND: &str = "postgres";

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The URL cannot be read.
    #[error("the url cannot be read")]
    Url(#[source] tokio_postgres::Error),
    /// A setting is wrong; the text names it.
    #[error("{0}")]
    Setting(String),
    /// The TLS library refuses its own settings.
    #[error("tls cannot be set up")]
    Tls(#[source] rustls::Error),
    /// There is no connection.
    #[error("no connection")]
    Pool(#[from] PoolError),
    /// The database refused something, or the connection broke.
    #[error("the database did not do it")]
    Database(#[from] tokio_postgres::Error),
    /// The statement took too long.
    #[error("no answer within {} ms", .0.as_millis())]
    TooLong(Duration),
    /// The table is of a newer version.
    #[error("schema version {found}")]
    NewerSchema {
        /// The version that is there.
        found: i32,
        /// The newest one that is known here.
        known: i32,
    },
    /// A stored record is not what was written.
    #[error("a stored record has a {0} that is none")]
    Row(&'static str),
    /// A rule of core is violated.
    #[error(transparent)]
    Rule(#[from] Error),
}

impl Fault {
    /// The code of the database's answer, where it gave one.
    pub(crate) fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Database(error) | Self::Pool(PoolError::Backend(error)) => error.code(),
            _ => None,
        }
    }

    fn to_error(&self) -> Error {
        match self {
            Self::Url(_) => Error::invalid("url: expected postgres://user:password@host/database"),
            Self::Setting(text) => Error::invalid(text.clone()),
            Self::Tls(_) => Error::internal("tls cannot be set up"),
            Self::Pool(PoolError::Timeout(_)) => Error::unavailable(
                "no connection to the database in time (connections, connection_wait_ms)",
            )
            .with_reason("database_unreachable"),
            Self::Pool(PoolError::Closed) => {
                Error::unavailable("the invocation log is closed").with_reason("closed")
            }
            Self::Pool(PoolError::Backend(error)) | Self::Database(error) => of_database(error),
            Self::Pool(_) => Error::unavailable("no connection to the database")
                .with_reason("database_unreachable"),
            Self::TooLong(limit) => Error::new(
                ErrorKind::Timeout,
                format!(
                    "the database did not answer within statement_timeout_ms of {} ms",
                    limit.as_millis()
                ),
            )
            .with_reason("database_slow"),
            Self::NewerSchema { found, known } => Error::new(
                ErrorKind::Unsupported,
                format!(
                    "the table of the invocation log has schema version {found}, and this version \
                     of sless knows up to {known}: it was written by a newer one"
                ),
            )
            .with_reason("schema_too_new"),
            Self::Row(what) => Error::new(
                ErrorKind::Corrupt,
                format!("a stored record has a {what} that is none"),
            )
            .with_reason("row_corrupt"),
            Self::Rule(error) => Error::new(error.kind(), error.message().to_owned())
                .with_reason(error.reason().to_owned()),
        }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Rule(error) => error.at(BACKEND),
            other => other.to_error().at(BACKEND).with_source(other),
        }
    }
}

/// What the codes mean (PostgreSQL's manual, appendix A): classes by their first two characters.
fn of_database(error: &tokio_postgres::Error) -> Error {
    let Some(code) = error.code() else {
        return Error::unavailable("the connection to the database broke, or did not come about")
            .with_reason("database_unreachable");
    };
    match code.code() {
        // An operator can set these right, and what waits is stored then.
        "28000" | "28P01" => Error::new(
            ErrorKind::PermissionDenied,
            "the database does not let this role in",
        )
        .with_reason("database_login")
        .with_retry(Retry::Transient),
        "42501" => Error::new(
            ErrorKind::PermissionDenied,
            "the database does not let this role do it",
        )
        .with_reason("database_permission")
        .with_retry(Retry::Transient),
        "3D000" => Error::unavailable("the database is not there").with_reason("database_missing"),
        "3F000" | "42P01" => Error::unavailable("the table of the invocation log is not there")
            .with_reason("table_missing"),
        "53100" => Error::unavailable("no space is left for the database").with_reason("disk_full"),
        "57014" => Error::new(ErrorKind::Timeout, "the database gave the statement up")
            .with_reason("database_slow"),
        // Out of connections or memory, shutting down, failing over, or two that met.
        code if ["08", "53", "57", "58", "40", "25", "55"].contains(&&code[..2]) => {
            Error::unavailable("the database cannot do it now").with_reason("database_busy")
        }
        _ => Error::internal("the database refused a statement"),
    }
}
