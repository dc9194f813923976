//! What goes wrong between this crate and a service, and what it means to callers.

use std::time::Duration;

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_s3::{
    config::http::HttpResponse,
    error::{ProvideErrorMetadata, SdkError},
    operation::RequestId as _,
    primitives::ByteStreamError,
};
use aws_smithy_checksums::body::validate::Error as ChecksumError;
use sless_core::{Error, ErrorKind, Retry};

use crate::refusal::Refusal;

/// The name of this backend in errors.
pub(crate) const BACKEND: &str = "s3";

type Cause = Box<dyn std::error::Error + Send + Sync + 'static>;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The service answered, and said no.
    #[error("the service answered {0}")]
    Refused(Refusal),
    /// No answer in the time of a request.
    #[error("no answer in time")]
    Timeout(#[source] Cause),
    /// The service was not reached, or the connection broke before the answer.
    #[error("the service cannot be reached")]
    Unreachable(#[source] Cause),
    /// There are no keys to sign with.
    #[error("no credentials")]
    Credentials(#[source] Cause),
    /// What came is no answer.
    #[error("the answer was cut off, or is none of S3")]
    Unreadable(#[source] Cause),
    /// The body of an answer broke off.
    #[error("the body of an answer broke off")]
    Broken(#[source] Cause),
    /// The body of an answer is not what was stored.
    #[error("the body of an answer does not fit its checksum")]
    Checksum(#[source] Cause),
    /// The SDK could not make a request.
    #[error("no request could be made")]
    Request(#[source] Cause),
    /// The answer lacks what S3 says is in it.
    #[error("the answer lacks {0}")]
    Lacks(&'static str),
    /// A setting cannot be right.
    #[error("{name} {problem}")]
    Setting { name: &'static str, problem: String },
    /// A rule of the trait, already in the words of its contract.
    #[error(transparent)]
    Rule(#[from] Error),
}

pub(crate) fn setting(name: &'static str, problem: impl Into<String>) -> Fault {
    let problem = problem.into();
    Fault::Setting { name, problem }
}

impl Fault {
    pub(crate) fn code(&self) -> Option<&str> {
        match self {
            Self::Refused(refusal) => refusal.code.as_deref(),
            _ => None,
        }
    }

    fn status(&self) -> u16 {
        match self {
            Self::Refused(refusal) => refusal.status,
            _ => 0,
        }
    }

    pub(crate) fn is_bucket_missing(&self) -> bool {
        self.code() == Some("NoSuchBucket")
    }

    /// The object, or the upload, is not there; or an answer to HEAD leaves open what is not.
    pub(crate) fn is_not_found(&self) -> bool {
        self.status() == 404 && !self.is_bucket_missing()
    }

    /// Something is stored where nothing should be.
    pub(crate) fn is_exists(&self) -> bool {
        self.status() == 412
    }

    /// Several writers were there at once, and the service wants them to try again.
    pub(crate) fn is_race(&self) -> bool {
        self.status() == 409
    }

    /// The object has no byte in the range.
    pub(crate) fn is_range(&self) -> bool {
        self.status() == 416
    }

    /// Nobody knows whether the request was carried out. A repeated end of an upload is among them:
    /// the first one may have ended it.
    pub(crate) fn is_open(&self) -> bool {
        matches!(
            self,
            Self::Timeout(_) | Self::Unreachable(_) | Self::Unreadable(_) | Self::Broken(_)
        ) || self.status() >= 500
            || self.code() == Some("NoSuchUpload")
            || self.is_exists()
    }

    /// What ended a body that was being read.
    pub(crate) fn of_body(error: ByteStreamError) -> Self {
        if has::<ChecksumError>(&error) {
            Self::Checksum(error.into())
        } else {
            Self::Broken(error.into())
        }
    }

    fn to_error(&self) -> Error {
        match self {
            Self::Refused(refusal) => refusal.to_error(),
            Self::Timeout(_) => Error::new(
                ErrorKind::Timeout,
                "the store did not answer within request_ms",
            ),
            Self::Unreachable(_) => Error::unavailable("the store cannot be reached"),
            Self::Credentials(_) => Error::new(
                ErrorKind::Unauthenticated,
                "there are no credentials for the store",
            )
            .with_reason("credentials_missing"),
            Self::Unreadable(_) => Error::new(
                ErrorKind::Interrupted,
                "the store's answer was cut off, or is none of S3",
            ),
            Self::Broken(_) => Error::new(ErrorKind::Interrupted, "the store broke off"),
            Self::Checksum(_) => Error::new(
                ErrorKind::Corrupt,
                "what was read does not fit the object's checksum",
            )
            .with_reason("checksum_mismatch")
            .with_retry(Retry::Transient),
            Self::Request(_) => Error::internal("no request to the store could be made"),
            Self::Lacks(_) => Error::new(ErrorKind::Corrupt, "the store's answer is incomplete")
                .with_reason("answer_incomplete"),
            Self::Setting { .. } => {
                Error::invalid(format!("s3 setting {self}")).with_reason("setting_invalid")
            }
            Self::Rule(error) => Error::new(error.kind(), error.message().to_owned())
                .with_reason(error.reason().to_owned())
                .with_retry(error.retry()),
        }
    }
}

/// The one place where a fault becomes what callers see.
impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Rule(error) => error.at(BACKEND),
            other => other.to_error().at(BACKEND).with_source(other),
        }
    }
}

impl<E> From<SdkError<E, HttpResponse>> for Fault
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    fn from(error: SdkError<E, HttpResponse>) -> Self {
        if has::<CredentialsError>(&error) {
            return Self::Credentials(error.into());
        }
        match &error {
            SdkError::TimeoutError(_) => Self::Timeout(error.into()),
            SdkError::DispatchFailure(failure) if failure.is_timeout() => {
                Self::Timeout(error.into())
            }
            SdkError::DispatchFailure(_) => Self::Unreachable(error.into()),
            SdkError::ServiceError(answer) => {
                let (meta, raw) = (answer.err().meta(), answer.raw());
                let field = |name: &str| raw.headers().get(name).map(str::to_owned);
                let seconds = field("retry-after").and_then(|text| text.parse().ok());
                Self::Refused(Refusal {
                    status: raw.status().as_u16(),
                    code: meta.code().map(str::to_owned),
                    message: meta.message().unwrap_or_default().to_owned(),
                    request_id: meta.request_id().map(str::to_owned),
                    retry_after: seconds.map(Duration::from_secs),
                    date: field("date"),
                })
            }
            SdkError::ResponseError(answer) => {
                // A proxy's page, for instance. Its status says something all the same.
                let status = answer.raw().status().as_u16();
                if status >= 400 {
                    return Self::Refused(Refusal {
                        status,
                        code: None,
                        message: "an answer that is none of S3".to_owned(),
                        request_id: None,
                        retry_after: None,
                        date: None,
                    });
                }
                Self::Unreadable(error.into())
            }
            _ => Self::Request(error.into()),
        }
    }
}

/// Whether an error of this type is somewhere in the chain.
fn has<T: std::error::Error + 'static>(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(cause) = next {
        if cause.is::<T>() {
            return true;
        }
        next = cause.source();
    }
    false
}
