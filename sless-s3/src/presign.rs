//! Addresses that give an object to whoever holds them.

use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_s3::presigning::PresigningConfig;
use sless_core::{Error, Presign, Result, StorageKey};

use crate::{S3Storage, bucket::Bucket, client::system_time, error::Fault};

/// The longest that a signature of AWS's fourth version can be valid.
const VALID_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Made on this machine, without asking the service. Whether there is an object under the key is seen by
/// who uses the address.
#[async_trait]
impl Presign for S3Storage {
    /// An address from which the object can be read, for one second to seven days. With temporary
    /// credentials, not longer than these are valid.
    ///
    /// # Errors
    /// `LimitExceeded`, reason `limit_presign_seconds`; `Invalid` for less than a second.
    async fn presign_get(&self, key: &StorageKey, valid: Duration) -> Result<String> {
        let address = self.bucket().address(key, valid).await;
        self.named(address, "storage.presign_get", key)
    }
}

impl Bucket {
    async fn address(&self, key: &StorageKey, valid: Duration) -> Result<String, Fault> {
        if valid > VALID_MAX {
            return Err(Error::limit("presign_seconds", VALID_MAX.as_secs(), "seconds").into());
        }
        if valid < Duration::from_secs(1) {
            let told = format!("valid for {valid:?}: expected at least a second");
            return Err(Error::invalid(told).into());
        }
        let presigning = PresigningConfig::builder()
            .start_time(system_time(self.clock.now()))
            .expires_in(valid)
            .build()
            .map_err(|error| Fault::Request(error.into()))?;
        let asked = self
            .client
            .get_object()
            .bucket(self.name())
            .key(key.as_str());
        let signed = asked.presigned(presigning).await?;
        Ok(signed.uri().to_owned())
    }
}
