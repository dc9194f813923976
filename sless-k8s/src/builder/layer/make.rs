//! One build: the base image, the code as a layer on it, and the names that hold the result.

use std::{
    collections::HashSet,
    fs::File,
    io::{Seek as _, Write as _},
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use sless_core::{
    Artifact, ArtifactKind, BuildRequest, BuildStatus, Digest, Error, ErrorKind, Failure, Result,
    Retry, reason,
    source::{SourceLimits, context},
};
use tokio::sync::watch;

use super::{
    Inner, Outcome,
    log::BuildLog,
    record::{self, Record},
    tarball::{self, Layer},
};
use crate::registry::{Blob, Descriptor, ImageConfig, Index, Manifest, Parsed, Reference, media};

/// Why a build did not come to an end.
pub(super) enum Broken {
    /// For good.
    Failed(Failure),
    /// It can work the next time.
    Passing(Error),
}

/// Layers of a base image that are mounted at once.
const MOUNTS_AT_ONCE: usize = 8;

impl Inner {
    /// Makes the image, or finds that it was made. Dropping the future leaves blobs that nothing names,
    /// which the registry's own collection removes.
    pub(super) async fn make(
        &self,
        request: &BuildRequest,
        progress: &watch::Sender<BuildStatus>,
        log: &BuildLog,
    ) -> Outcome {
        // The semaphore is never closed, so there is always a permit in the end.
        let _place = self.places.acquire().await;
        let made = sless_core::clock::timeout(
            &*self.clock,
            request.timeout,
            self.made(request, progress, log),
        );
        let broken = match made.await {
            Ok(Ok(outcome)) => return outcome,
            Ok(Err(broken)) => broken,
            Err(_) => {
                let seconds = request.timeout.max(Duration::from_secs(1)).as_secs();
                let message = format!("the build took longer than {seconds} s");
                Broken::Failed(Failure::new(reason::BUILD_TIMEOUT, message))
            }
        };
        let (failure, transient) = match broken {
            Broken::Failed(failure) => (failure, false),
            Broken::Passing(error) => {
                tracing::warn!(build = %request.id, error = %error.chain(), "a build broke off");
                let word = match error.kind() {
                    ErrorKind::NotFound => reason::IMAGE_PULL.to_owned(),
                    ErrorKind::Unauthenticated | ErrorKind::PermissionDenied => {
                        error.reason().to_owned()
                    }
                    _ => reason::BACKEND_UNAVAILABLE.to_owned(),
                };
                let failure = Failure::new(word, error.message().to_owned());
                (failure, error.retry() != Retry::Never)
            }
        };
        log.add(self.clock.now(), format!("failed: {}", failure.message));
        if !transient {
            let record = Record::Failed {
                failure: failure.clone(),
            };
            self.remember(request, &record, log).await;
        }
        Outcome {
            status: BuildStatus::Failed { failure, transient },
            log: log.clone(),
        }
    }

    /// Writes down how a build ended. Where that fails, it is right in this process, and built again by
    /// the next one.
    async fn remember(&self, request: &BuildRequest, record: &Record, log: &BuildLog) {
        let at = self.record_of(&request.id);
        if let Err(error) = record::write(&self.registry, &at, record, &log.all()).await {
            tracing::warn!(build = %request.id, error = %error.chain(), "a build was not remembered");
        }
    }

    async fn made(
        &self,
        request: &BuildRequest,
        progress: &watch::Sender<BuildStatus>,
        log: &BuildLog,
    ) -> Result<Outcome, Broken> {
        let step = |text: &str| {
            log.add(self.clock.now(), text);
            progress.send_replace(BuildStatus::Running {
                step: text.to_owned(),
            });
        };
        if let Some(found) = self.recorded(&request.id).await.map_err(Broken::Passing)? {
            return Ok(found);
        }
        if request.installs {
            let message = "the source asks for dependencies, and this builder installs none";
            return Err(Broken::Failed(Failure::new(
                reason::BUILD_UNSUPPORTED,
                message,
            )));
        }
        step("reading the source");
        let layer = self.layer(request).await?;
        let base: Reference = self.base(&request.runtime.image).map_err(Broken::Passing)?;
        step(&format!("putting {} bytes on {base}", layer.size));
        let image = self
            .image(request, &base, &layer)
            .await
            .map_err(Broken::Passing)?;
        let artifact = Artifact {
            kind: ArtifactKind::Image,
            reference: self.pulled(&request.id.function, image),
            digest: image,
        };
        log.add(self.clock.now(), format!("made {}", artifact.reference));
        let built_at = self.clock.now();
        let record = Record::Succeeded {
            artifact: artifact.clone(),
            built_at,
        };
        // Before it is told: after a crash it is found, with the same time.
        self.remember(request, &record, log).await;
        let status = BuildStatus::Succeeded { artifact, built_at };
        Ok(Outcome {
            status,
            log: log.clone(),
        })
    }

    /// Reads the context and makes a layer of its files.
    async fn layer(&self, request: &BuildRequest) -> Result<Layer, Broken> {
        let made = async {
            let mut stream = request.context.open().await?;
            let mut file = blocking(|| tempfile::tempfile().map_err(spool)).await?;
            while let Some(chunk) = stream.next().await {
                let chunk = chunk?;
                file =
                    blocking(move || file.write_all(&chunk).map(|()| file).map_err(spool)).await?;
            }
            let (limits, code) = (self.config.limits.clone(), request.id.code);
            blocking(move || read_layer(file, &limits, code)).await
        };
        made.await.map_err(|error: Error| match error.kind() {
            ErrorKind::NotFound
            | ErrorKind::Corrupt
            | ErrorKind::Invalid
            | ErrorKind::LimitExceeded => {
                let message = format!(
                    "the stored build context cannot be read: {}",
                    error.message()
                );
                Broken::Failed(Failure::new(reason::CONTEXT_UNREADABLE, message))
            }
            _ => Broken::Passing(error),
        })
    }

    /// Puts the layer on the base image, for each platform that it has. Answers the digest of what
    /// stands for all of them.
    async fn image(
        &self,
        request: &BuildRequest,
        base: &Reference,
        layer: &Layer,
    ) -> Result<Digest> {
        let to = record::repository(&self.repository, &request.id.function);
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

/// The tag that keeps an image.
pub(super) fn image_tag(digest: Digest) -> String {
    format!("image-{}", &digest.hex()[..32])
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

fn read_layer(mut file: File, limits: &SourceLimits, code: Digest) -> Result<Layer> {
    file.rewind().map_err(spool)?;
    let context = context::read(file, limits)?;
    if context.tree.digest() != code {
        let message = "the stored context is not of the source that is to be built";
        return Err(Error::new(ErrorKind::Corrupt, message));
    }
    tarball::write(&context.tree)
}

fn spool(source: std::io::Error) -> Error {
    Error::internal("a build context cannot be kept on this machine").with_source(source)
}

fn unwritable(source: serde_json::Error) -> Error {
    Error::internal("a manifest cannot be written").with_source(source)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(source) => Err(Error::internal("a task of a build ended early").with_source(source)),
    }
}
