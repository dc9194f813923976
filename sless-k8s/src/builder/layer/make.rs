//! One build: the base image, the code as a layer on it, and the name that keeps the result.

use std::collections::HashSet;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use sless_core::{BuildRequest, Digest, Error, ErrorKind, Result, reason};

use super::{Layer, tarball};
use crate::{
    builder::builds::{Broken, Progress, Site, blocking, image_tag, unreadable},
    registry::{Blob, Descriptor, ImageConfig, Index, Manifest, Parsed, Reference, media},
};

/// Layers of a base image that are mounted at once.
const MOUNTS_AT_ONCE: usize = 8;

/// Makes the image. Dropping the future leaves blobs that nothing names, which the registry's own
/// collection removes.
pub(super) async fn make(
    site: &Site,
    request: &BuildRequest,
    progress: &Progress,
) -> Result<Digest, Broken> {
    progress.step("reading the source");
    let tree = site.source(request).await?;
    let layer = blocking(move || tarball::write(&tree))
        .await
        .map_err(unreadable)?;
    let base = site.base(&request.runtime.image)?;
    progress.step(&format!("putting {} bytes on {base}", layer.size));
    Ok(site.image(request, &base, &layer).await?)
}

impl Site {
    /// Puts the layer on the base image, for each platform that it has. Answers the digest of what
    /// stands for all of them.
    async fn image(
        &self,
        request: &BuildRequest,
        base: &Reference,
        layer: &Layer,
    ) -> Result<Digest> {
        let to = self.of(&request.id.function);
        let missing = || {
            Error::not_found(format!("there is no base image {base}"))
                .with_reason(reason::IMAGE_PULL)
        };
        let blob = Blob::File {
            path: layer.file.path(),
            digest: layer.digest,
            size: layer.size,
        };
        let uploaded = async { Ok::<_, Error>(self.registry.upload(&to, &blob).await?) };
        let read = async { self.registry.parsed(base).await?.ok_or_else(missing) };
        let ((), (_, kind, parsed)) = futures::try_join!(uploaded, read)?;
        let (kind, bytes) = match parsed {
            Parsed::Image(manifest) => {
                self.on_image(request, base, &to, &kind, manifest, layer)
                    .await?
            }
            Parsed::Index(index) => {
                self.on_index(request, base, &to, &kind, index, layer)
                    .await?
            }
        };
        let digest = Digest::of(&bytes);
        // A name, so that no registry takes it for forgotten.
        let named = Reference {
            version: image_tag(digest),
            ..to
        };
        self.registry.put_manifest(&named, &kind, bytes).await?;
        Ok(digest)
    }

    async fn on_index(
        &self,
        request: &BuildRequest,
        base: &Reference,
        to: &Reference,
        kind: &str,
        mut index: Index,
        layer: &Layer,
    ) -> Result<(String, Bytes)> {
        // What is no image, such as an attestation of how the base was built, says nothing of this one.
        let is_image = |entry: &Descriptor| {
            let platform = entry.rest.get("platform");
            let system = platform.and_then(|platform| platform.get("os"));
            system.is_none_or(|system| system == "linux")
        };
        index.manifests.retain(is_image);
        for entry in &mut index.manifests {
            let of_base = base.at(entry.digest);
            let found = self.registry.parsed(&of_base).await?;
            let Some((_, kind, Parsed::Image(manifest))) = found else {
                let message = format!("{base} names {}, which is no image", entry.digest);
                return Err(Error::new(ErrorKind::Corrupt, message));
            };
            let (kind, bytes) = self
                .on_image(request, &of_base, to, &kind, manifest, layer)
                .await?;
            entry.digest = Digest::of(&bytes);
            entry.size = bytes.len() as u64;
            self.registry
                .put_manifest(&to.at(entry.digest), &kind, bytes)
                .await?;
        }
        index.rest.remove("annotations");
        let bytes = serde_json::to_vec(&index).map_err(unwritable)?;
        Ok((
            index.media_type.unwrap_or_else(|| kind.to_owned()),
            bytes.into(),
        ))
    }

    async fn on_image(
        &self,
        request: &BuildRequest,
        base: &Reference,
        to: &Reference,
        kind: &str,
        mut manifest: Manifest,
        layer: &Layer,
    ) -> Result<(String, Bytes)> {
        let mounted = stream::iter(manifest.layers.clone())
            .filter(|layer| std::future::ready(!layer.is_foreign()))
            .map(|layer| async move {
                self.registry
                    .borrow(base, to, layer.digest, layer.size)
                    .await
            })
            .buffer_unordered(MOUNTS_AT_ONCE)
            .try_collect::<Vec<()>>();
        let read = self.registry.blob(base, manifest.config.digest);
        let (_, config) = futures::try_join!(mounted, read)?;
        let mut config: ImageConfig = serde_json::from_slice(&config).map_err(|source| {
            let message = format!("the configuration of {base} cannot be read");
            Error::new(ErrorKind::Corrupt, message).with_source(source)
        })?;
        extend(&mut config, request, layer);
        let config = Bytes::from(serde_json::to_vec(&config).map_err(unwritable)?);
        self.registry
            .upload(to, &Blob::Bytes(config.clone()))
            .await?;
        manifest.config.digest = Digest::of(&config);
        manifest.config.size = config.len() as u64;
        let docker = manifest
            .layers
            .iter()
            .any(|layer| layer.media_type == media::DOCKER_LAYER);
        let layer_kind = if docker {
            media::DOCKER_LAYER
        } else {
            media::OCI_LAYER
        };
        manifest
            .layers
            .push(Descriptor::new(layer_kind, layer.digest, layer.size));
        manifest.rest.remove("annotations");
        let bytes = serde_json::to_vec(&manifest).map_err(unwritable)?;
        Ok((
            manifest.media_type.unwrap_or_else(|| kind.to_owned()),
            bytes.into(),
        ))
    }
}

/// Adds what the Dockerfile of a context adds: the files, and the names of runtime and entrypoint.
fn extend(config: &mut ImageConfig, request: &BuildRequest, layer: &Layer) {
    config.rootfs.diff_ids.push(layer.diff_id);
    let created = config.rest.get("created").cloned();
    config.history.push(json!({
        "created": created.unwrap_or_else(|| json!("2000-01-01T00:00:00Z")),
        "created_by": "sless: the function's code",
    }));
    let new = [
        ("SLESS_RUNTIME", request.runtime.runtime.to_string()),
        ("SLESS_ENTRYPOINT", request.runtime.entrypoint.to_string()),
    ];
    let names: HashSet<&str> = new.iter().map(|(name, _)| *name).collect();
    let env = config.config.entry("Env").or_insert_with(|| json!([]));
    if let Value::Array(env) = env {
        env.retain(|set| {
            let name = set.as_str().and_then(|set| set.split('=').next());
            name.is_none_or(|name| !names.contains(name))
        });
        env.extend(
            new.iter()
                .map(|(name, value)| Value::from(format!("{name}={value}"))),
        );
    }
}

fn unwritable(source: serde_json::Error) -> Error {
    Error::internal("a manifest cannot be written").with_source(source)
}
