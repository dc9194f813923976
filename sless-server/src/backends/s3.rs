//! Sources and build contexts in an S3 store.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use sless_core::Error;
use sless_s3::{S3Config, S3Storage};

use super::{Assembled, Part};
use crate::{
    StartError,
    settings::{S3Settings, Settings},
};

/// How old an upload to the store is that no process works on any more: far beyond
/// `SLESS_UPLOAD_TIMEOUT`.
const STALE: Duration = Duration::from_secs(24 * 60 * 60);

/// What sless puts into a store begins so.
const PREFIXES: [&str; 2] = ["functions/", "contexts/"];

/// Puts the store that the settings name in the place of the base's storage.
///
/// A store that is away or refuses the keys stops the start: without it no function can be uploaded or
/// built. What a killed server has left of uploads is removed from it.
pub(super) async fn put_in(settings: &Settings, opened: &mut Assembled) -> Result<(), StartError> {
    let Some(given) = &settings.services.s3 else {
        return Ok(());
    };
    let storage = S3Storage::connect(config(given)).await.map_err(named)?;
    let storage = Arc::new(storage);
    for prefix in PREFIXES {
        match storage.abort_stale_uploads(prefix, STALE).await {
            Ok(0) => {}
            Ok(count) => {
                tracing::info!(count, prefix, "removed uploads that were left in the store")
            }
            Err(error) => {
                let error = error.chain();
                tracing::warn!(%error, prefix, "cannot look for uploads that were left in the store");
            }
        }
    }
    opened.backends.storage = storage.clone();
    opened.add(S3Part(storage));
    Ok(())
}

fn config(given: &S3Settings) -> S3Config {
    let mut config = S3Config::new(&given.bucket);
    if let Some(endpoint) = &given.endpoint {
        config = config.with_endpoint(endpoint);
    }
    if let Some((access_key, secret_key)) = &given.keys {
        config = config.with_keys(access_key, secret_key.expose());
    }
    if let Some(region) = &given.region {
        config.region.clone_from(region);
    }
    config.create_bucket = given.create_bucket;
    config
}

/// Names the setting that has to be looked at.
fn named(error: Error) -> StartError {
    let setting = match error.reason() {
        "bucket_missing" | "bucket_taken" | "store_permission" => "S3_BUCKET",
        "credentials_missing" | "credentials_rejected" | "credentials_expired" => {
            "S3_ACCESS_KEY and S3_SECRET_KEY"
        }
        "region_wrong" => "S3_REGION",
        _ => "S3_ENDPOINT",
    };
    let message = format!("{setting}: {}", error.message());
    Error::new(error.kind(), message)
        .with_reason(error.reason().to_owned())
        .with_source(error)
        .into()
}

#[derive(Debug)]
struct S3Part(Arc<S3Storage>);

#[async_trait]
impl Part for S3Part {
    fn name(&self) -> &'static str {
        "storage"
    }

    /// As the last request to the store saw it.
    fn state(&self) -> Result<(), String> {
        self.0.trouble().map_or(Ok(()), Err)
    }

    fn is_vital(&self) -> bool {
        false
    }

    async fn shutdown(&self) {
        self.0.shutdown().await;
    }
}
