//! Answers of a service that are errors, and what they mean to callers.

use std::{fmt, time::Duration};

use sless_core::{Error, ErrorKind, Retry};

/// An answer that is an error.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    /// S3's word for it. Answers to HEAD have none.
    pub(crate) code: Option<String>,
    pub(crate) message: String,
    pub(crate) request_id: Option<String>,
    pub(crate) retry_after: Option<Duration>,
    /// The service's clock.
    pub(crate) date: Option<String>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        if let Some(code) = &self.code {
            write!(f, " {code}")?;
        }
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        match &self.request_id {
            Some(id) => write!(f, " (request {id})"),
            None => Ok(()),
        }
    }
}

impl Refusal {
    /// What callers see of it.
    pub(crate) fn to_error(&self) -> Error {
        let by_code = self.code.as_deref().and_then(|code| self.of_code(code));
        by_code.unwrap_or_else(|| self.of_status())
    }

    fn of_code(&self, code: &str) -> Option<Error> {
        Some(match code {
            "NoSuchKey" | "NoSuchVersion" => Error::not_found("no such object"),
            // Not `NotFound`: callers take that for an object that is gone.
            "NoSuchBucket" => Error::unavailable("the store's bucket is not there")
                .with_reason("bucket_missing")
                .with_retry(Retry::Never),
            "BucketAlreadyExists" => Error::new(
                ErrorKind::PermissionDenied,
                "the store's bucket belongs to somebody else",
            )
            .with_reason("bucket_taken"),
            "InvalidAccessKeyId"
            | "SignatureDoesNotMatch"
            | "InvalidToken"
            | "NotSignedUp"
            | "InvalidClientTokenId" => credentials("credentials_rejected"),
            "ExpiredToken" | "TokenRefreshRequired" | "RequestExpired" => {
                credentials("credentials_expired")
            }
            "RequestTimeTooSkewed" => self.clock(),
            "AuthorizationHeaderMalformed"
            | "PermanentRedirect"
            | "IllegalLocationConstraintException" => Error::unavailable(
                "the store's bucket is in another region, or at another endpoint",
            )
            .with_reason("region_wrong")
            .with_retry(Retry::Never),
            "SlowDown"
            | "ServiceUnavailable"
            | "Throttling"
            | "ThrottlingException"
            | "RequestLimitExceeded"
            | "TooManyRequests"
            | "BandwidthLimitExceeded"
            | "Busy" => self.busy(),
            "RequestTimeout" => Error::new(
                ErrorKind::Timeout,
                "the body did not reach the store in time",
            ),
            // Damaged on its way: the same body, sent again, may arrive.
            "BadDigest"
            | "XAmzContentSHA256Mismatch"
            | "XAmzContentChecksumMismatch"
            | "InvalidDigest"
            | "IncompleteBody" => Error::new(
                ErrorKind::Corrupt,
                "what reached the store does not fit its checksum",
            )
            .with_reason("checksum_mismatch")
            .with_retry(Retry::Transient),
            "InvalidPart" | "InvalidPartOrder" => Error::new(
                ErrorKind::Corrupt,
                "the store does not know a part that it had confirmed",
            )
            .with_reason("part_rejected")
            .with_retry(Retry::Transient),
            "NoSuchUpload" => Error::new(
                ErrorKind::Interrupted,
                "the upload was aborted by somebody else",
            )
            .with_reason("upload_lost"),
            "EntityTooLarge" => Error::new(
                ErrorKind::LimitExceeded,
                "the body is longer than the store allows",
            )
            .with_reason("limit_store_object_bytes"),
            "QuotaExceeded" | "XMinioStorageFull" | "InsufficientStorage" => {
                Error::unavailable("no space is left in the store").with_reason("disk_full")
            }
            "NotImplemented" | "MethodNotAllowed" => {
                Error::new(ErrorKind::Unsupported, "the store cannot do this")
            }
            _ => return None,
        })
    }

    fn of_status(&self) -> Error {
        match self.status {
            401 => credentials("credentials_rejected"),
            403 => Error::new(ErrorKind::PermissionDenied, "the store does not allow this")
                .with_reason("store_permission"),
            404 => Error::not_found("no such object"),
            409 => Error::conflict("another writer was there at the same time"),
            412 => Error::new(
                ErrorKind::AlreadyExists,
                "an object is stored under this key already",
            ),
            429 | 503 => self.busy(),
            501 => Error::new(ErrorKind::Unsupported, "the store cannot do this"),
            507 => Error::unavailable("no space is left in the store").with_reason("disk_full"),
            500.. => Error::unavailable("the store failed").with_reason("store_failed"),
            _ => Error::internal("the store refused the request").with_reason("store_refused"),
        }
    }

    fn busy(&self) -> Error {
        let busy = Error::new(ErrorKind::Overloaded, "the store asks to slow down");
        let retry = self.retry_after.map_or(Retry::Transient, Retry::After);
        busy.with_reason("slow_down").with_retry(retry)
    }

    fn clock(&self) -> Error {
        let service = self.date.as_deref().unwrap_or("not told");
        Error::new(
            ErrorKind::Unauthenticated,
            format!(
                "this machine's clock is too far from the store's, which was {service}: set it"
            ),
        )
        .with_reason("clock_skew")
    }
}

fn credentials(reason: &'static str) -> Error {
    Error::new(
        ErrorKind::Unauthenticated,
        "the store does not accept these credentials",
    )
    .with_reason(reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Fault;

    fn refused(status: u16, code: &str) -> Error {
        Fault::Refused(Refusal {
            status,
            code: (!code.is_empty()).then(|| code.to_owned()),
            message: "told by the service".to_owned(),
            request_id: Some("4442587FB7D0A2F9".to_owned()),
            retry_after: Some(Duration::from_secs(7)),
            date: None,
        })
        .into()
    }

    #[test]
    fn the_words_of_s3_become_kinds_and_retry_classes() {
        use ErrorKind::{
            AlreadyExists, Conflict, Corrupt, Interrupted, NotFound, Overloaded, PermissionDenied,
            Unauthenticated, Unavailable,
        };
        let after = Retry::After(Duration::from_secs(7));
        for (status, code, kind, reason, retry) in [
            (404, "NoSuchKey", NotFound, "not_found", Retry::Never),
            (404, "", NotFound, "not_found", Retry::Never),
            (
                404,
                "NoSuchBucket",
                Unavailable,
                "bucket_missing",
                Retry::Never,
            ),
            (
                404,
                "NoSuchUpload",
                Interrupted,
                "upload_lost",
                Retry::Transient,
            ),
            (
                403,
                "InvalidAccessKeyId",
                Unauthenticated,
                "credentials_rejected",
                Retry::Never,
            ),
            (
                403,
                "SignatureDoesNotMatch",
                Unauthenticated,
                "credentials_rejected",
                Retry::Never,
            ),
            (
                400,
                "ExpiredToken",
                Unauthenticated,
                "credentials_expired",
                Retry::Never,
            ),
            (
                403,
                "RequestTimeTooSkewed",
                Unauthenticated,
                "clock_skew",
                Retry::Never,
            ),
            (
                403,
                "AccessDenied",
                PermissionDenied,
                "store_permission",
                Retry::Never,
            ),
            (403, "", PermissionDenied, "store_permission", Retry::Never),
            (
                301,
                "PermanentRedirect",
                Unavailable,
                "region_wrong",
                Retry::Never,
            ),
            (503, "SlowDown", Overloaded, "slow_down", after),
            (503, "", Overloaded, "slow_down", after),
            (
                500,
                "InternalError",
                Unavailable,
                "store_failed",
                Retry::Transient,
            ),
            (
                400,
                "BadDigest",
                Corrupt,
                "checksum_mismatch",
                Retry::Transient,
            ),
            (
                400,
                "InvalidPart",
                Corrupt,
                "part_rejected",
                Retry::Transient,
            ),
            (
                412,
                "PreconditionFailed",
                AlreadyExists,
                "already_exists",
                Retry::Never,
            ),
            (
                409,
                "ConditionalRequestConflict",
                Conflict,
                "conflict",
                Retry::Transient,
            ),
            (507, "", Unavailable, "disk_full", Retry::Transient),
            (
                400,
                "InvalidArgument",
                ErrorKind::Internal,
                "store_refused",
                Retry::Never,
            ),
        ] {
            let error = refused(status, code);
            assert_eq!(
                (error.kind(), error.reason(), error.retry()),
                (kind, reason, retry),
                "{status} {code}"
            );
            assert!(!error.message().contains("told by"), "{error}");
            assert!(error.chain().contains("told by the service"), "logs do");
        }
    }
}
