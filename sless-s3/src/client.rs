//! The SDK's client, made of the settings, and the first look at the bucket.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use aws_config::default_provider::credentials::DefaultCredentialsChain;
use aws_sdk_s3::{
    Client,
    config::{
        BehaviorVersion, Credentials, Region, RequestChecksumCalculation,
        ResponseChecksumValidation, SharedCredentialsProvider, StalledStreamProtectionConfig,
        retry::{RetryConfig, RetryPartition, TokenBucket},
        timeout::TimeoutConfig,
    },
    types::{BucketLocationConstraint, CreateBucketConfiguration},
};
use aws_smithy_async::time::TimeSource;
use jiff::Timestamp;
use sless_core::Clock;

use crate::{
    config::{S3Checksums, S3Config, S3Credentials},
    error::{Fault, setting},
};

/// The most parts of a multipart upload.
const PARTS_MAX: u64 = 10_000;
/// The least bytes of a part that is not the last.
const PART_BYTES_MIN: usize = 5 << 20;

/// The clock of sless as the SDK's.
#[derive(Debug)]
struct Time(Arc<dyn Clock>);

impl TimeSource for Time {
    fn now(&self) -> SystemTime {
        system_time(self.0.now())
    }
}

pub(crate) fn system_time(time: Timestamp) -> SystemTime {
    let since = time.duration_since(Timestamp::UNIX_EPOCH).unsigned_abs();
    if time < Timestamp::UNIX_EPOCH {
        SystemTime::UNIX_EPOCH - since
    } else {
        SystemTime::UNIX_EPOCH + since
    }
}

pub(crate) async fn client(config: &S3Config, clock: Arc<dyn Clock>) -> Result<Client, Fault> {
    check(config)?;
    let milliseconds = Duration::from_millis;
    let region = Region::new(config.region.clone());
    let credentials = match &config.credentials {
        S3Credentials::Keys {
            access_key,
            secret_key,
            session_token,
        } => SharedCredentialsProvider::new(Credentials::new(
            access_key,
            secret_key,
            session_token.clone(),
            None,
            "S3Config",
        )),
        S3Credentials::Chain => {
            let chain = DefaultCredentialsChain::builder().region(region.clone());
            SharedCredentialsProvider::new(chain.build().await)
        }
    };
    let patience = &config.patience;
    let (calculation, validation) = match config.checksums {
        S3Checksums::Off => (
            RequestChecksumCalculation::WhenRequired,
            ResponseChecksumValidation::WhenRequired,
        ),
        _ => (
            RequestChecksumCalculation::WhenSupported,
            ResponseChecksumValidation::WhenSupported,
        ),
    };
    let mut builder = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(region)
        .credentials_provider(credentials)
        .force_path_style(config.path_style())
        .time_source(Time(clock))
        .disable_clock_skew_correction(!patience.follow_service_clock)
        .request_checksum_calculation(calculation)
        .response_checksum_validation(validation)
        .stalled_stream_protection(
            StalledStreamProtectionConfig::enabled()
                .grace_period(milliseconds(patience.stall_ms))
                .build(),
        )
        .timeout_config(
            TimeoutConfig::builder()
                .connect_timeout(milliseconds(patience.connect_ms))
                .operation_attempt_timeout(milliseconds(patience.request_ms))
                .build(),
        )
        .retry_config(
            RetryConfig::standard()
                .with_max_attempts(patience.attempts.max(1))
                .with_initial_backoff(milliseconds(patience.backoff_ms))
                .with_max_backoff(milliseconds(patience.backoff_max_ms)),
        )
        // The SDK's budget of repetitions, which spares a service in trouble: one for each storage, not
        // one for all clients of the process.
        .retry_partition(
            RetryPartition::custom("sless")
                .token_bucket(TokenBucket::default())
                .build(),
        );
    builder.set_endpoint_url(config.endpoint.clone());
    Ok(Client::from_conf(builder.build()))
}

fn check(config: &S3Config) -> Result<(), Fault> {
    let limits = &config.limits;
    if config.bucket.is_empty() {
        return Err(setting("bucket", "is empty; expected the name of a bucket"));
    }
    if let Some(endpoint) = &config.endpoint
        && !endpoint.starts_with("http://")
        && !endpoint.starts_with("https://")
    {
        let problem = format!("is {endpoint:?}; expected an address with http:// or https://");
        return Err(setting("endpoint", problem));
    }
    if limits.part_bytes < PART_BYTES_MIN {
        let problem = format!(
            "is {}; expected at least the {PART_BYTES_MIN} bytes that S3 wants of a part",
            limits.part_bytes
        );
        return Err(setting("part_bytes", problem));
    }
    if limits.object_bytes > PARTS_MAX * limits.part_bytes as u64 {
        let problem = format!(
            "is {}; expected no more than {PARTS_MAX} parts of {} bytes hold",
            limits.object_bytes, limits.part_bytes
        );
        return Err(setting("object_bytes", problem));
    }
    if limits.parts_in_flight == 0 {
        return Err(setting("parts_in_flight", "is 0; expected at least 1"));
    }
    Ok(())
}

/// Asks whether the bucket is there. Not with HeadBucket, whose refusals have no body that would say why.
pub(crate) async fn ask(client: &Client, config: &S3Config) -> Result<(), Fault> {
    let asked = client.list_objects_v2().bucket(&config.bucket).max_keys(1);
    Ok(asked.send().await.map(drop)?)
}

/// Makes sure that the bucket is there, making it if the settings ask for it.
pub(crate) async fn look(client: &Client, config: &S3Config) -> Result<(), Fault> {
    let Err(fault) = ask(client, config).await else {
        return Ok(());
    };
    if !(config.create_bucket && fault.is_bucket_missing()) {
        return Err(fault);
    }
    // AWS wants to be told the region, save for the first one it had.
    let place = (config.endpoint.is_none() && config.region != "us-east-1").then(|| {
        CreateBucketConfiguration::builder()
            .location_constraint(BucketLocationConstraint::from(config.region.as_str()))
            .build()
    });
    let made = client
        .create_bucket()
        .bucket(&config.bucket)
        .set_create_bucket_configuration(place)
        .send()
        .await;
    match made.map_err(Fault::from) {
        // Another copy of the program was faster.
        Err(fault) if fault.code() == Some("BucketAlreadyOwnedByYou") => Ok(()),
        other => other.map(drop),
    }
}
