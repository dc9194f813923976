//! How the source comes into a Job: as an image without a system in the function's repository, where the
//! Job has to read and write anyway. So it needs neither a key of the storage nor a way to it.

use bytes::Bytes;
use serde_json::json;
use sless_core::{BuildId, Digest, Error, Receipt, Result, source::SourceTree};

use crate::{
    builder::{
        builds::{Broken, Site, blocking, unreadable},
        layer::write_layer,
    },
    registry::{Blob, Descriptor, Manifest, Parsed, Reference, media},
};

/// What the tags of sources begin with.
pub(super) const SOURCE: &str = "source-";
/// The tag of the layers that are kept between builds.
pub(super) const CACHE: &str = "cache";

/// The base image at its digest, and the platform that it is for.
pub(super) async fn base(site: &Site, image: &str) -> Result<(Reference, [String; 2])> {
    let named = site.base(image)?;
    let missing = || {
        Error::not_found(format!("there is no base image {named}"))
            .with_reason(sless_core::reason::IMAGE_PULL)
    };
    let (digest, _, parsed) = site.registry.parsed(&named).await?.ok_or_else(missing)?;
    let mut platform = ["linux".to_owned(), "amd64".to_owned()];
    if let Parsed::Image(manifest) = parsed {
        let config = site.registry.blob(&named, manifest.config.digest).await?;
        let config: serde_json::Value = serde_json::from_slice(&config).unwrap_or_default();
        for (at, field) in ["os", "architecture"].into_iter().enumerate() {
            if let Some(text) = config[field].as_str() {
                text.clone_into(&mut platform[at]);
            }
        }
    }
    Ok((named.at(digest), platform))
}

/// Puts the files into the registry, and answers the digest of the image that they are in. The same files
/// for the same build are the same image.
pub(super) async fn push(
    site: &Site,
    id: &BuildId,
    tree: SourceTree,
    [system, architecture]: &[String; 2],
) -> Result<Digest, Broken> {
    let layer = blocking(move || write_layer(&tree))
        .await
        .map_err(unreadable)?;
    let to = named(site, id, SOURCE);
    let blob = Blob::File {
        path: layer.file.path(),
        digest: layer.digest,
        size: layer.size,
    };
    let config = json!({
        "os": system,
        "architecture": architecture,
        "config": {},
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id]},
    });
    let config = Bytes::from(config.to_string());
    let put = async {
        site.registry.upload(&to, &blob).await?;
        site.registry
            .upload(&to, &Blob::Bytes(config.clone()))
            .await?;
        let descriptor = Descriptor::new(
            "application/vnd.oci.image.config.v1+json",
            Digest::of(&config),
            config.len() as u64,
        );
        let layers = vec![Descriptor::new(media::OCI_LAYER, layer.digest, layer.size)];
        let manifest = Manifest {
            schema_version: 2,
            media_type: Some(media::OCI_MANIFEST.to_owned()),
            config: descriptor,
            layers,
            // Another manifest for each build, so that none takes another one's away.
            rest: [(
                "annotations".to_owned(),
                json!({"sless.io/source-of": id.short()}),
            )]
            .into_iter()
            .collect(),
        };
        let bytes = Bytes::from(serde_json::to_vec(&manifest).unwrap_or_default());
        let digest = Digest::of(&bytes);
        site.registry
            .put_manifest(&to, media::OCI_MANIFEST, bytes)
            .await?;
        Ok::<_, Error>(digest)
    };
    Ok(put.await?)
}

/// What a build's own tags name.
pub(super) fn named(site: &Site, id: &BuildId, prefix: &str) -> Reference {
    Reference {
        version: format!("{prefix}{}", id.short()),
        ..site.of(&id.function)
    }
}

/// Removes what a tag of this registry names, where it names something.
pub(super) async fn forget(
    site: &Site,
    kind: &str,
    at: &Reference,
    receipt: &mut Receipt,
) -> Result<()> {
    let Some((_, bytes)) = site.registry.manifest(at).await? else {
        return Ok(());
    };
    let digest = Digest::of(&bytes);
    site.delete(kind, &at.version, &at.at(digest), receipt)
        .await
}
