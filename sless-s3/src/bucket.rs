//! The bucket: what the requests of all operations have in common.

use std::{sync::Arc, time::Duration};

use aws_sdk_s3::{
    Client,
    primitives::DateTime,
    types::{ChecksumAlgorithm, ChecksumType, ServerSideEncryption, StorageClass},
};
use jiff::Timestamp;
use sless_core::{Clock, StorageKey};

use crate::{S3Checksums, S3Config, S3Encryption, client::ask, error::Fault};

/// The field in which an object keeps the mark of the put that stored it.
const MARK: &str = "sless-put";

#[derive(Debug)]
pub(crate) struct Bucket {
    pub(crate) client: Client,
    pub(crate) config: S3Config,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Bucket {
    pub(crate) fn name(&self) -> &str {
        &self.config.bucket
    }

    pub(crate) fn checksum(&self) -> Option<ChecksumAlgorithm> {
        match self.config.checksums {
            S3Checksums::Crc32 => Some(ChecksumAlgorithm::Crc32),
            S3Checksums::Sha256 => Some(ChecksumAlgorithm::Sha256),
            S3Checksums::Off => None,
        }
    }

    /// Of an upload in parts: only of CRCs can that of the whole be computed from those of its parts.
    pub(crate) fn checksum_type(&self) -> Option<ChecksumType> {
        match self.config.checksums {
            S3Checksums::Crc32 => Some(ChecksumType::FullObject),
            S3Checksums::Sha256 => Some(ChecksumType::Composite),
            S3Checksums::Off => None,
        }
    }

    pub(crate) fn encryption(&self) -> (Option<ServerSideEncryption>, Option<String>) {
        match &self.config.encryption {
            S3Encryption::Bucket => (None, None),
            S3Encryption::Service => (Some(ServerSideEncryption::Aes256), None),
            S3Encryption::Kms { key_id } => (Some(ServerSideEncryption::AwsKms), key_id.clone()),
        }
    }

    pub(crate) fn storage_class(&self) -> Option<StorageClass> {
        let name = self.config.storage_class.as_deref();
        name.map(StorageClass::from)
    }

    /// The mark of a put, as the fields of its object.
    pub(crate) fn marked(mark: &str) -> Option<std::collections::HashMap<String, String>> {
        Some([(MARK.to_owned(), mark.to_owned())].into())
    }

    /// Whether the object was stored by the put with this mark. The answer to a put can be lost, and its
    /// repetition then meets what the put has done.
    pub(crate) async fn is_stored_by(&self, key: &StorageKey, mark: &str) -> Result<bool, Fault> {
        let asked = self
            .client
            .head_object()
            .bucket(self.name())
            .key(key.as_str());
        match asked.send().await.map_err(Fault::from) {
            Ok(found) => Ok(found
                .metadata()
                .and_then(|fields| fields.get(MARK))
                .is_some_and(|found| found == mark)),
            Err(fault) if fault.is_not_found() => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    pub(crate) async fn delete(&self, key: &StorageKey) -> Result<(), Fault> {
        let asked = self
            .client
            .delete_object()
            .bucket(self.name())
            .key(key.as_str());
        match asked.send().await.map_err(Fault::from) {
            Err(fault) if fault.is_not_found() => Ok(()),
            other => other.map(drop),
        }
    }

    /// An answer to HEAD does not say whether the object or the bucket is not there: asks.
    pub(crate) async fn explain(&self, fault: Fault) -> Fault {
        if !fault.is_not_found() {
            return fault;
        }
        match ask(&self.client, &self.config).await {
            Err(found) if found.is_bucket_missing() => found,
            _ => fault,
        }
    }

    /// Waits before another attempt, a little longer each time.
    pub(crate) async fn back_off(&self, attempt: u32) {
        let patience = &self.config.patience;
        let wait = patience.backoff_ms.saturating_mul(1 << attempt.min(16));
        let wait = Duration::from_millis(wait.min(patience.backoff_max_ms));
        self.clock.sleep(wait).await;
    }
}

/// In whole seconds, as `Last-Modified` tells it; listings have fractions in some services.
pub(crate) fn time(told: Option<&DateTime>) -> Result<Timestamp, Fault> {
    told.and_then(|time| Timestamp::from_second(time.secs()).ok())
        .ok_or(Fault::Lacks("the time of an object"))
}
