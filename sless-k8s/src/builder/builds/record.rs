//! What is remembered of a build, in the registry itself: a manifest without an image, under a tag that
//! names the build. So whoever builds next, in another process or after a crash, finds what was done.

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sless_core::{Artifact, BuildId, Digest, Failure, FunctionId, LogLine, Result, Uid};

use crate::registry::{Blob, Descriptor, Manifest, Parsed, Reference, Registry, media};

/// The media type of a log: one JSON line for each line.
const LOG: &str = "application/vnd.sless.build-log.v1+jsonl";
/// The annotation that holds the record.
const RECORD: &str = "sless.io/build";
/// What the tags of records begin with.
const PREFIX: &str = "build-";
/// What the tags begin with that keep images.
const IMAGE: &str = "image-";
/// What the tags of images begin with that a Job pushes; the short name of its build follows.
pub(in crate::builder) const BUILT: &str = "built-";

/// A build as it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "outcome")]
pub(super) enum Record {
    #[serde(rename_all = "camelCase")]
    Succeeded {
        artifact: Artifact,
        built_at: Timestamp,
    },
    Failed {
        failure: Failure,
    },
}

impl Record {
    pub(super) const fn image(&self) -> Option<Digest> {
        match self {
            Self::Succeeded { artifact, .. } => Some(artifact.digest),
            Self::Failed { .. } => None,
        }
    }
}

/// What the tags of a function's builds begin with. Another uid under the same name has others.
pub(super) fn prefix(uid: &Uid) -> String {
    format!("{PREFIX}{}-", &Digest::of(uid.as_str()).hex()[..16])
}

/// The tag of a build.
pub(super) fn tag(id: &BuildId) -> String {
    format!("{}{}", prefix(&id.function.uid), id.short())
}

/// Whether this is the tag of a build of any function.
pub(super) fn is_record(tag: &str) -> bool {
    tag.starts_with(PREFIX)
}

/// The tag that keeps an image.
pub(in crate::builder) fn image_tag(digest: Digest) -> String {
    format!("{IMAGE}{}", &digest.hex()[..32])
}

/// Whether a tag names an image of any build but those.
pub(super) fn is_image_but(tag: &str, kept: &[BuildId]) -> bool {
    match tag.strip_prefix(BUILT) {
        Some(short) => !kept.iter().any(|id| id.short() == short),
        None => tag.starts_with(IMAGE),
    }
}

/// The repository of a function's images.
pub(super) fn repository(base: &Reference, function: &FunctionId) -> Reference {
    Reference {
        host: base.host.clone(),
        repository: format!(
            "{}/{}/{}",
            base.repository, function.namespace, function.name
        ),
        version: String::new(),
    }
}

/// The record under this name, with the digest of its manifest.
pub(super) async fn read(
    registry: &Registry,
    at: &Reference,
) -> Result<Option<(Digest, Record, Descriptor)>> {
    let Some((digest, _, Parsed::Image(manifest))) = registry.parsed(at).await? else {
        return Ok(None);
    };
    let annotation = manifest
        .rest
        .get("annotations")
        .and_then(|all| all.get(RECORD));
    let text = annotation.and_then(Value::as_str).unwrap_or_default();
    let (Ok(record), Some(log)) = (serde_json::from_str(text), manifest.layers.first()) else {
        // Written by another hand, or by a version to come: as if it were not there.
        return Ok(None);
    };
    Ok(Some((digest, record, log.clone())))
}

/// The log of a record.
pub(super) async fn read_log(
    registry: &Registry,
    at: &Reference,
    log: &Descriptor,
) -> Result<Vec<LogLine>> {
    let bytes = registry.blob(at, log.digest).await?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect())
}

/// Writes a record.
pub(super) async fn write(
    registry: &Registry,
    at: &Reference,
    record: &Record,
    log: &[LogLine],
) -> Result<()> {
    let lines: Vec<String> = log
        .iter()
        .filter_map(|line| serde_json::to_string(line).ok())
        .collect();
    let log = Bytes::from(lines.join("\n"));
    let config = Bytes::from_static(b"{}");
    for blob in [&log, &config] {
        registry.upload(at, &Blob::Bytes(blob.clone())).await?;
    }
    let descriptor =
        |kind: &str, bytes: &Bytes| Descriptor::new(kind, Digest::of(bytes), bytes.len() as u64);
    let text = serde_json::to_string(record).unwrap_or_default();
    let manifest = Manifest {
        schema_version: 2,
        media_type: Some(media::OCI_MANIFEST.to_owned()),
        config: descriptor(media::OCI_EMPTY, &config),
        layers: vec![descriptor(LOG, &log)],
        rest: [
            (
                "artifactType".to_owned(),
                json!("application/vnd.sless.build.v1"),
            ),
            ("annotations".to_owned(), json!({ RECORD: text })),
        ]
        .into_iter()
        .collect(),
    };
    let bytes = Bytes::from(serde_json::to_vec(&manifest).unwrap_or_default());
    registry
        .put_manifest(at, media::OCI_MANIFEST, bytes)
        .await?;
    Ok(())
}
