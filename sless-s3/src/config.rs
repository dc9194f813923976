//! Settings.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Settings of an [`S3Storage`](crate::S3Storage).
///
/// Only the bucket has no default. `Debug` shows no secret; serializing does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct S3Config {
    /// The bucket.
    pub bucket: String,
    /// Where the service is, as `https://host:port`; absent for AWS in its region.
    #[serde(default)]
    pub endpoint: Option<String>,
    /// The region that requests are signed for. Services beside AWS mostly take any.
    #[serde(default = "default_region")]
    pub region: String,
    /// Where the name of the bucket stands in an address.
    #[serde(default)]
    pub addressing: S3Addressing,
    /// Who asks.
    #[serde(default)]
    pub credentials: S3Credentials,
    /// Whether a bucket that is not there is made when the storage is connected.
    #[serde(default)]
    pub create_bucket: bool,
    /// Whether the service refuses to replace an object where it is asked to.
    #[serde(default)]
    pub if_absent: S3IfAbsent,
    /// The checksum that goes with each request, besides the digest in its signature.
    #[serde(default)]
    pub checksums: S3Checksums,
    /// How objects are encrypted at rest.
    #[serde(default)]
    pub encryption: S3Encryption,
    /// The storage class of objects, such as `STANDARD_IA`; absent for the bucket's own.
    #[serde(default)]
    pub storage_class: Option<String>,
    /// Sizes and numbers.
    #[serde(default)]
    pub limits: S3Limits,
    /// Waits and repetitions.
    #[serde(default)]
    pub patience: S3Patience,
}

impl S3Config {
    /// The defaults, for this bucket of AWS.
    pub fn new(bucket: impl Into<String>) -> Self {
        Self {
            bucket: bucket.into(),
            endpoint: None,
            region: default_region(),
            addressing: S3Addressing::default(),
            credentials: S3Credentials::default(),
            create_bucket: false,
            if_absent: S3IfAbsent::default(),
            checksums: S3Checksums::default(),
            encryption: S3Encryption::default(),
            storage_class: None,
            limits: S3Limits::default(),
            patience: S3Patience::default(),
        }
    }

    /// On a service of one's own: Ceph, MinIO, SeaweedFS.
    #[must_use]
    pub fn with_endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.endpoint = Some(endpoint.into());
        self
    }

    /// With these keys.
    #[must_use]
    pub fn with_keys(
        mut self,
        access_key: impl Into<String>,
        secret_key: impl Into<String>,
    ) -> Self {
        self.credentials = S3Credentials::Keys {
            access_key: access_key.into(),
            secret_key: secret_key.into(),
            session_token: None,
        };
        self
    }

    pub(crate) fn path_style(&self) -> bool {
        match self.addressing {
            S3Addressing::Auto => self.endpoint.is_some(),
            S3Addressing::Path => true,
            S3Addressing::Host => false,
        }
    }
}

fn default_region() -> String {
    "us-east-1".to_owned()
}

/// Where the name of the bucket stands in an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum S3Addressing {
    /// In the path if there is an endpoint, else in the host's name.
    #[default]
    Auto,
    /// `https://endpoint/bucket/key`.
    Path,
    /// `https://bucket.endpoint/key`.
    Host,
}

/// Who asks.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum S3Credentials {
    /// The chain of AWS's SDK: environment, profile files, web identity (a Kubernetes service
    /// account), container, instance metadata. This is the one setting that reads the environment.
    /// Sign-in through a browser (SSO) is left out.
    #[default]
    Chain,
    /// These keys.
    Keys {
        /// The access key: a name, not a secret.
        access_key: String,
        /// The secret key.
        secret_key: String,
        /// The token of temporary keys.
        #[serde(default)]
        session_token: Option<String>,
    },
}

impl fmt::Debug for S3Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chain => f.write_str("Chain"),
            Self::Keys { access_key, .. } => f
                .debug_struct("Keys")
                .field("access_key", access_key)
                .finish_non_exhaustive(),
        }
    }
}

/// Whether the service honours `If-None-Match: *` on puts and on the end of multipart uploads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum S3IfAbsent {
    /// Ask it when connecting, with an object of a few bytes that no key has and that is removed.
    #[default]
    Probe,
    /// It does.
    Yes,
    /// It does not: such puts are refused with `Unsupported`.
    No,
}

/// The checksum that goes with each body, which the service checks, keeps, and sends back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum S3Checksums {
    /// CRC-32, checked again when an object is read.
    #[default]
    Crc32,
    /// SHA-256, checked again when an object is read that was sent in one part.
    Sha256,
    /// None, for services that do not know the fields. The signature of a request covers its body in
    /// any case.
    Off,
}

/// How objects are encrypted at rest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum S3Encryption {
    /// As the bucket says.
    #[default]
    Bucket,
    /// With keys of the service (`AES256`).
    Service,
    /// With a key of a key management service (`aws:kms`).
    Kms {
        /// The key; absent for the account's own.
        #[serde(default)]
        key_id: Option<String>,
    },
}

/// Sizes and numbers of an [`S3Storage`](crate::S3Storage).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct S3Limits {
    /// The longest object, in bytes.
    pub object_bytes: u64,
    /// The bytes of one request. A body of no more is one put, a longer one a multipart upload in
    /// parts of this size. S3 wants at least 5 MiB, and at most 10,000 parts: with fewer bytes than a
    /// ten-thousandth of `object_bytes`, connecting is refused.
    pub part_bytes: usize,
    /// How many parts of one upload are sent at once. A put holds at most this many times
    /// `part_bytes` of its body.
    pub parts_in_flight: usize,
    /// The most objects of one listing: they are put in order in memory, since not every service
    /// gives them in order.
    pub list_objects: usize,
    /// The most uploads that were dropped and are being aborted at once. Those beyond are left to
    /// [`abort_stale_uploads`](crate::S3Storage::abort_stale_uploads).
    pub dropped_uploads: usize,
}

impl Default for S3Limits {
    fn default() -> Self {
        Self {
            object_bytes: 1 << 30,
            part_bytes: 5 << 20,
            parts_in_flight: 3,
            list_objects: 1_000_000,
            dropped_uploads: 64,
        }
    }
}

/// Waits and repetitions of an [`S3Storage`](crate::S3Storage), in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct S3Patience {
    /// How long a connection may take to stand.
    pub connect_ms: u64,
    /// How long one request may take, its body and the head of its answer included.
    pub request_ms: u64,
    /// For how long a body may stand still before it is cut off, either way.
    pub stall_ms: u64,
    /// How often a request is made before it fails. It is made again where that can help: no answer,
    /// 5xx, SlowDown.
    pub attempts: u32,
    /// The wait before the second attempt. It doubles from then on, and is shortened at random.
    pub backoff_ms: u64,
    /// The longest such wait.
    pub backoff_max_ms: u64,
    /// Whether requests are signed with the service's time once it has refused this machine's. Without,
    /// such a request fails with the reason `clock_skew`.
    pub follow_service_clock: bool,
}

impl Default for S3Patience {
    fn default() -> Self {
        Self {
            connect_ms: 5_000,
            request_ms: 60_000,
            stall_ms: 20_000,
            attempts: 4,
            backoff_ms: 200,
            backoff_max_ms: 5_000,
            follow_service_clock: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let config = S3Config::new("b").with_keys("AKIA", "hidden");
        let shown = format!("{config:?}");
        assert!(
            shown.contains("AKIA") && !shown.contains("hidden"),
            "{shown}"
        );
    }

    #[test]
    fn a_bucket_is_enough() {
        let read: S3Config = serde_json::from_str(r#"{"bucket": "b"}"#).expect("a config");
        assert_eq!(read, S3Config::new("b"));
        assert!(!read.path_style());
        assert!(read.with_endpoint("http://x").path_style());
        let text = r#"{"bucket": "b", "credentials": {"keys": {"access_key": "a", "secret_key": "s"}},
            "encryption": {"kms": {}}, "if_absent": "no", "checksums": "off"}"#;
        let read: S3Config = serde_json::from_str(text).expect("a config");
        assert_eq!(read.encryption, S3Encryption::Kms { key_id: None });
        let unknown = serde_json::from_str::<S3Config>(r#"{"bucket": "b", "bukket": 1}"#);
        assert!(unknown.is_err());
    }
}
