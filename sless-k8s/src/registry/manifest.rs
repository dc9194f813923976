//! Manifests and configurations of images (OCI image specification; Docker image manifest version 2,
//! schema 2), with whatever fields are not known here kept as they are.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sless_core::Digest;

/// Media types.
pub(crate) mod media {
    pub(crate) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
    pub(crate) const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
    pub(crate) const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
    pub(crate) const OCI_EMPTY: &str = "application/vnd.oci.empty.v1+json";
    pub(crate) const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
    pub(crate) const DOCKER_LIST: &str =
        "application/vnd.docker.distribution.manifest.list.v2+json";
    pub(crate) const DOCKER_LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar.gzip";
}

/// A reference to a blob or manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    pub(crate) media_type: String,
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    #[serde(flatten)]
    pub(crate) rest: Map<String, Value>,
}

impl Descriptor {
    pub(crate) fn new(media_type: &str, digest: Digest, size: u64) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest,
            size,
            rest: Map::new(),
        }
    }

    /// Where the blob is named to be elsewhere, as layers of some Windows images are.
    pub(crate) fn is_foreign(&self) -> bool {
        self.rest.contains_key("urls")
    }
}

/// The manifest of one image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    pub(crate) schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) media_type: Option<String>,
    pub(crate) config: Descriptor,
    pub(crate) layers: Vec<Descriptor>,
    #[serde(flatten)]
    pub(crate) rest: Map<String, Value>,
}

/// A list of the images of several platforms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Index {
    pub(crate) schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) media_type: Option<String>,
    pub(crate) manifests: Vec<Descriptor>,
    #[serde(flatten)]
    pub(crate) rest: Map<String, Value>,
}

/// What stands behind a name.
#[derive(Clone, Debug)]
pub(crate) enum Parsed {
    Image(Manifest),
    Index(Index),
}

impl Parsed {
    /// Reads a manifest of this media type.
    pub(crate) fn read(media_type: &str, bytes: &[u8]) -> serde_json::Result<Self> {
        let kind = media_type.split(';').next().unwrap_or_default().trim();
        if kind == media::OCI_INDEX || kind == media::DOCKER_LIST {
            return serde_json::from_slice(bytes).map(Self::Index);
        }
        serde_json::from_slice(bytes).map(Self::Image)
    }
}

/// The configuration of an image: the same in OCI and Docker form, for what is looked at here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ImageConfig {
    #[serde(default)]
    pub(crate) config: Map<String, Value>,
    pub(crate) rootfs: RootFs,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) history: Vec<Value>,
    #[serde(flatten)]
    pub(crate) rest: Map<String, Value>,
}

/// The layers of an image, by the digests of what they unpack to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RootFs {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) diff_ids: Vec<Digest>,
}
