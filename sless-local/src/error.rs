//! What can go wrong here, and the one place where it becomes an [`Error`].

use std::{io, path::Path, sync::Arc};

use rusqlite::ErrorCode;
use sless_core::{Error, ErrorKind};

/// The name of this backend in errors.
pub(crate) const BACKEND: &str = "local";

/// What can go wrong in the files of a data folder.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// SQLite refused something, in a file that is not named yet.
    #[error("sqlite failed")]
    Sqlite(#[from] rusqlite::Error),
    /// SQLite refused something in this file.
    #[error("sqlite failed on {}", file.display())]
    Database {
        file: Arc<Path>,
        source: Arc<rusqlite::Error>,
    },
    /// The operating system refused something.
    #[error("{what} {} failed", path.display())]
    Io {
        what: &'static str,
        path: Arc<Path>,
        source: io::Error,
    },
    /// What is stored in a row cannot be read.
    #[error("a stored {what} cannot be read")]
    Row {
        what: &'static str,
        source: serde_json::Error,
    },
    /// A value of the caller does not fit what is stored.
    #[error("a {what} cannot be written")]
    Unwritable {
        what: &'static str,
        source: serde_json::Error,
    },
    /// A file has a schema from the future.
    #[error("{} has schema version {found}, above {known}", file.display())]
    NewerSchema {
        file: Arc<Path>,
        found: i64,
        known: i64,
    },
    /// The data folder has a format from the future, or none that is known.
    #[error("{} holds format {found:?}", path.display())]
    Format { path: Arc<Path>, found: String },
    /// Another process uses the data folder.
    #[error("{} is locked", path.display())]
    InUse { path: Arc<Path>, owner: String },
    /// The file was closed, by a shutdown or by a defect.
    #[error("{} is closed", file.display())]
    Closed { file: Arc<Path> },
    /// A named wait took too long.
    #[error("{} is overloaded", file.display())]
    Overloaded {
        file: Arc<Path>,
        limit: &'static str,
        wait_ms: u64,
    },
    /// A rule of a trait, already in the words of its contract.
    #[error(transparent)]
    Rule(#[from] Error),
}

impl Fault {
    /// Names the file of a bare SQLite error.
    pub(crate) fn in_file(self, file: &Arc<Path>) -> Self {
        match self {
            Self::Sqlite(source) => Self::Database {
                file: file.clone(),
                source: Arc::new(source),
            },
            other => other,
        }
    }

    /// An error of the operating system.
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            what,
            path: path.into(),
            source,
        }
    }

    /// What callers see of it.
    pub(crate) fn to_error(&self) -> Error {
        match self {
            Self::Sqlite(source) => sqlite("a database", source),
            Self::Database { file, source } => sqlite(&name(file), source),
            Self::Io { what, path, source } => system(what, &name(path), source),
            Self::Row { what, .. } => Error::new(
                ErrorKind::Corrupt,
                format!("a stored {what} is not what was written"),
            )
            .with_reason("row_corrupt"),
            Self::Unwritable { what, .. } => {
                Error::invalid(format!("this {what} has no form as JSON"))
            }
            Self::NewerSchema { file, found, known } => Error::new(
                ErrorKind::Unsupported,
                format!(
                    "{} has schema version {found}, and this version of sless knows up to {known}: \
                     it was written by a newer one",
                    name(file)
                ),
            )
            .with_reason("schema_too_new"),
            Self::Format { path, found } => Error::new(
                ErrorKind::Unsupported,
                format!(
                    "the data folder's file {} says {found:?}, expected {:?}: it was written by \
                     another version of sless, or is no data folder",
                    name(path),
                    crate::data_dir::FORMAT
                ),
            )
            .with_reason("format_unknown"),
            Self::InUse { path, owner } => Error::unavailable(format!(
                "the data folder {} is in use by {owner}: one process at a time owns it",
                path.display()
            ))
            .with_reason("data_dir_in_use"),
            Self::Closed { file } => {
                Error::unavailable(format!("{} is closed", name(file))).with_reason("closed")
            }
            Self::Overloaded {
                file,
                limit,
                wait_ms,
            } => Error::new(
                ErrorKind::Overloaded,
                format!("no place at {} within {limit} of {wait_ms} ms", name(file)),
            )
            .with_reason(format!("limit_{limit}")),
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

/// The last part of a path: clients see it, and never where the data folder is.
fn name(path: &Path) -> String {
    path.file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}

fn sqlite(file: &str, error: &rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Error::unavailable(format!("{file} is busy: another program holds it"))
                .with_reason("database_busy")
        }
        Some(ErrorCode::DiskFull) => disk_full(file),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            Error::new(ErrorKind::Corrupt, format!("{file} is damaged"))
                .with_reason("database_corrupt")
        }
        Some(ErrorCode::ConstraintViolation) => Error::conflict(format!(
            "{file} holds this already, or something else in its place"
        )),
        Some(ErrorCode::TooBig) => Error::new(
            ErrorKind::LimitExceeded,
            format!("a value is longer than {file} can hold"),
        )
        .with_reason("limit_sqlite_length"),
        Some(
            ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::PermissionDenied
            | ErrorCode::ReadOnly
            | ErrorCode::OutOfMemory,
        ) => Error::unavailable(format!("{file} cannot be read or written"))
            .with_reason("database_io"),
        _ => Error::internal(format!("{file} refused a statement")),
    }
}

fn system(what: &str, path: &str, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => disk_full(path),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Error::new(
            ErrorKind::PermissionDenied,
            format!("{what} {path} is not allowed"),
        )
        .with_reason("file_permission"),
        _ => Error::unavailable(format!("{what} {path} failed")).with_reason("file_io"),
    }
}

fn disk_full(file: &str) -> Error {
    Error::unavailable(format!("no space is left on the disk for {file}")).with_reason("disk_full")
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;
    use sless_core::Retry;

    use super::*;

    fn of_code(code: i32) -> Error {
        Fault::Sqlite(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None))
            .in_file(&Arc::from(Path::new("/data/db/catalog.db")))
            .into()
    }

    #[test]
    fn sqlite_codes_become_kinds_that_callers_branch_on() {
        for (code, kind, reason) in [
            (ffi::SQLITE_BUSY, ErrorKind::Unavailable, "database_busy"),
            (ffi::SQLITE_LOCKED, ErrorKind::Unavailable, "database_busy"),
            (ffi::SQLITE_FULL, ErrorKind::Unavailable, "disk_full"),
            (ffi::SQLITE_CORRUPT, ErrorKind::Corrupt, "database_corrupt"),
            (ffi::SQLITE_NOTADB, ErrorKind::Corrupt, "database_corrupt"),
            (ffi::SQLITE_CONSTRAINT, ErrorKind::Conflict, "conflict"),
            (
                ffi::SQLITE_TOOBIG,
                ErrorKind::LimitExceeded,
                "limit_sqlite_length",
            ),
            (ffi::SQLITE_IOERR, ErrorKind::Unavailable, "database_io"),
            (ffi::SQLITE_MISUSE, ErrorKind::Internal, "internal"),
        ] {
            let error = of_code(code);
            assert_eq!(
                (error.kind(), error.reason()),
                (kind, reason),
                "code {code}"
            );
            assert!(error.message().contains("catalog.db"), "{error}");
            assert!(
                !error.to_string().contains("/data"),
                "clients do not see where it is"
            );
            assert!(error.chain().contains("/data/db/catalog.db"), "logs do");
        }
        assert_eq!(of_code(ffi::SQLITE_BUSY).retry(), Retry::Transient);
    }

    #[test]
    fn a_full_disk_is_told_for_plain_files_too() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let error = Error::from(Fault::io("writing", Path::new("/data/format"))(full));
        assert_eq!(error.reason(), "disk_full");
        assert!(error.message().contains("format"), "{error}");
    }
}
