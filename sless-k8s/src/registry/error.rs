//! What can go wrong between here and a registry.

use std::time::Duration;

use sless_core::{Error, ErrorKind, Retry};

/// The name of registries in errors.
pub(super) const BACKEND: &str = "registry";

#[derive(Debug, thiserror::Error)]
pub(crate) enum RegistryFault {
    /// It answered with a status that was not expected.
    #[error("{what}: {host} answered {status}: {said}")]
    Refused {
        what: String,
        host: String,
        status: u16,
        said: String,
        retry_after: Option<Duration>,
    },
    /// There was no answer.
    #[error("{what}: {host} cannot be reached")]
    Unreached {
        what: String,
        host: String,
        timeout: bool,
        source: reqwest::Error,
    },
    /// What it answered is not what was asked for.
    #[error("{what}: the answer of {host} cannot be used: {why}")]
    Unusable {
        what: String,
        host: String,
        why: String,
    },
    /// A limit of the settings.
    #[error(transparent)]
    Limit(#[from] Error),
    /// A file of this machine.
    #[error("a layer could not be read back")]
    Io(#[from] std::io::Error),
}

impl RegistryFault {
    /// Whether the registry says that it is not there.
    pub(crate) const fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. })
    }

    /// Whether the registry does not do this at all.
    pub(crate) const fn is_unsupported(&self) -> bool {
        matches!(
            self,
            Self::Refused {
                status: 405 | 501,
                ..
            }
        )
    }

    /// Whether the registry knows nothing of a layer that a manifest names.
    fn is_blob_unknown(&self) -> bool {
        matches!(self, Self::Refused { status: 400 | 404, said, .. } if said.contains("BLOB_UNKNOWN"))
    }

    /// Whether it is the registry that failed, which may be over in a moment.
    pub(super) fn may_pass(&self) -> bool {
        self.is_blob_unknown() || matches!(self, Self::Refused { status: 500.., .. })
    }

    fn to_error(&self) -> Error {
        let message = self.to_string();
        match self {
            Self::Refused {
                status,
                retry_after,
                ..
            } => match status {
                404 => Error::not_found(message),
                401 => Error::new(ErrorKind::Unauthenticated, message).with_reason("registry_auth"),
                403 => {
                    Error::new(ErrorKind::PermissionDenied, message).with_reason("registry_auth")
                }
                405 | 501 => Error::new(ErrorKind::Unsupported, message),
                413 => Error::new(ErrorKind::LimitExceeded, message),
                429 => Error::new(ErrorKind::Overloaded, message)
                    .with_retry(retry_after.map_or(Retry::Transient, Retry::After)),
                _ if self.is_blob_unknown() => {
                    Error::unavailable(message).with_reason("registry_unavailable")
                }
                500.. => Error::unavailable(message).with_reason("registry_unavailable"),
                _ => Error::internal(message),
            },
            Self::Unreached { timeout: true, .. } => Error::new(ErrorKind::Timeout, message),
            Self::Unreached { .. } => {
                Error::unavailable(message).with_reason("registry_unavailable")
            }
            Self::Unusable { .. } => Error::new(ErrorKind::Corrupt, message),
            Self::Limit(error) => Error::new(error.kind(), error.message().to_owned())
                .with_reason(error.reason().to_owned())
                .with_retry(error.retry()),
            Self::Io(_) => Error::internal(message),
        }
    }
}

impl From<RegistryFault> for Error {
    fn from(fault: RegistryFault) -> Self {
        fault.to_error().at(BACKEND).with_source(fault)
    }
}
