//! What the errors of a store mean.

use sless_core::{Error, ErrorKind};

/// The one place where an error of a store becomes an [`Error`].
pub(crate) fn fault(error: object_store::Error) -> Error {
    use object_store::Error as Store;
    let told = match &error {
        Store::NotFound { .. } => Error::not_found("no such object"),
        Store::AlreadyExists { .. } | Store::Precondition { .. } => Error::new(
            ErrorKind::AlreadyExists,
            "an object is stored under this key already",
        ),
        Store::NotImplemented { .. } | Store::NotSupported { .. } => {
            Error::new(ErrorKind::Unsupported, "the store cannot do this")
        }
        Store::PermissionDenied { .. } => {
            Error::new(ErrorKind::PermissionDenied, "the store does not allow this")
        }
        Store::Unauthenticated { .. } => Error::new(
            ErrorKind::Unauthenticated,
            "the store does not accept these credentials",
        ),
        other if is_full(other) => {
            Error::unavailable("no space is left in the store").with_reason("disk_full")
        }
        Store::Generic { .. } => Error::unavailable("the store failed"),
        _ => Error::internal("the store refused the request"),
    };
    told.with_source(error)
}

/// As [`fault`], of what ends a body that was being read.
pub(crate) fn body_fault(error: object_store::Error) -> Error {
    match error {
        object_store::Error::Generic { .. } => {
            Error::new(ErrorKind::Interrupted, "the store broke off").with_source(error)
        }
        other => fault(other),
    }
}

fn is_full(error: &(dyn std::error::Error + 'static)) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    let mut next = Some(error);
    while let Some(cause) = next {
        let system = cause.downcast_ref::<std::io::Error>();
        if system.is_some_and(|error| matches!(error.kind(), StorageFull | QuotaExceeded)) {
            return true;
        }
        next = cause.source();
    }
    false
}
