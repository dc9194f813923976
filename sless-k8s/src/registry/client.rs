//! The requests.

use std::{path::Path, time::Duration};

use backon::{ExponentialBuilder, Retryable as _};
use bytes::Bytes;
use http::{
    HeaderMap, Method, StatusCode,
    header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, LOCATION},
};
use reqwest::{Body, Response};
use sless_core::{Digest, Error};

use super::{
    Parsed, Reference, Registry,
    error::RegistryFault,
    manifest::media,
    transport::{Answer, Ask, text},
};

/// How often a request is sent again at which the registry failed, and after how long at first.
const RETRIES: usize = 4;
const PAUSE: Duration = Duration::from_millis(100);

/// What is uploaded as a blob.
#[derive(Clone, Debug)]
pub(crate) enum Blob<'a> {
    Bytes(Bytes),
    File {
        path: &'a Path,
        digest: Digest,
        size: u64,
    },
}

impl Blob<'_> {
    pub(crate) fn digest(&self) -> Digest {
        match self {
            Self::Bytes(bytes) => Digest::of(bytes),
            Self::File { digest, .. } => *digest,
        }
    }

    const fn size(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { size, .. } => *size,
        }
    }

    pub(super) async fn body(&self) -> std::io::Result<Body> {
        match self {
            Self::Bytes(bytes) => Ok(bytes.clone().into()),
            Self::File { path, .. } => Ok(tokio::fs::File::open(path).await?.into()),
        }
    }
}

impl Registry {
    /// The manifest of this name, as it is stored, with its media type. `None` where there is none.
    pub(crate) async fn manifest(&self, image: &Reference) -> Answer<Option<(String, Bytes)>> {
        let what = format!("reading the manifest of {image}");
        let mut ask = self.ask(
            &what,
            image,
            "pull",
            Method::GET,
            &format!("manifests/{}", image.version),
        );
        accept_manifests(&mut ask.headers);
        let Some(answer) = found(self.send(&ask, None).await)? else {
            return Ok(None);
        };
        let kind = text(answer.headers(), &CONTENT_TYPE)
            .unwrap_or_default()
            .to_owned();
        let bytes = self.bytes(&ask, answer).await?;
        Ok(Some((kind, bytes)))
    }

    /// The manifest of this name, read, with the digest of its text.
    pub(crate) async fn parsed(
        &self,
        image: &Reference,
    ) -> Answer<Option<(Digest, String, Parsed)>> {
        let Some((kind, bytes)) = self.manifest(image).await? else {
            return Ok(None);
        };
        let read = Parsed::read(&kind, &bytes).map_err(|error| RegistryFault::Unusable {
            what: format!("reading the manifest of {image}"),
            host: image.host.clone(),
            why: error.to_string(),
        })?;
        Ok(Some((Digest::of(&bytes), kind, read)))
    }

    /// Whether there is a manifest of this name.
    pub(crate) async fn has_manifest(&self, image: &Reference) -> Answer<bool> {
        let what = format!("looking for {image}");
        let mut ask = self.ask(
            &what,
            image,
            "pull",
            Method::HEAD,
            &format!("manifests/{}", image.version),
        );
        accept_manifests(&mut ask.headers);
        Ok(found(self.send_again(&ask, None).await)?.is_some())
    }

    /// Stores a manifest under this name.
    pub(crate) async fn put_manifest(
        &self,
        image: &Reference,
        kind: &str,
        bytes: Bytes,
    ) -> Answer<()> {
        let what = format!("storing the manifest of {image}");
        let mut ask = self.ask(
            &what,
            image,
            "pull,push",
            Method::PUT,
            &format!("manifests/{}", image.version),
        );
        if let Ok(kind) = kind.parse() {
            ask.headers.insert(CONTENT_TYPE, kind);
        }
        self.send_again(&ask, Some(&Blob::Bytes(bytes)))
            .await
            .map(drop)
    }

    /// Sends what may be sent twice, again where the registry fails at it: one whose store is slow to show
    /// what was just put there, or to which others push the same layers, denies for a moment what it has.
    async fn send_again(&self, ask: &Ask<'_>, blob: Option<&Blob<'_>>) -> Answer<Response> {
        let soon = ExponentialBuilder::default()
            .with_min_delay(PAUSE)
            .with_max_times(RETRIES);
        (|| self.send(ask, blob))
            .retry(soon)
            .sleep(tokio::time::sleep)
            .when(RegistryFault::may_pass)
            .await
    }

    /// Removes the manifest with this digest; `false` where there is none.
    pub(crate) async fn delete_manifest(&self, image: &Reference) -> Answer<bool> {
        let what = format!("deleting {image}");
        let ask = self.ask(
            &what,
            image,
            "delete",
            Method::DELETE,
            &format!("manifests/{}", image.version),
        );
        Ok(found(self.send(&ask, None).await)?.is_some())
    }

    /// The tags of a repository; none where there is no such repository.
    pub(crate) async fn tags(&self, image: &Reference) -> Answer<Vec<String>> {
        #[derive(serde::Deserialize)]
        struct Tags {
            tags: Option<Vec<String>>,
        }
        let what = format!("listing the tags of {}", image.repository);
        let mut ask = self.ask(&what, image, "pull", Method::GET, "tags/list");
        let mut tags = Vec::new();
        loop {
            let Some(answer) = found(self.send(&ask, None).await)? else {
                return Ok(tags);
            };
            let next = next_page(answer.headers());
            let bytes = self.bytes(&ask, answer).await?;
            let read: Tags = serde_json::from_slice(&bytes)
                .map_err(|error| self.unusable(&ask, error.to_string()))?;
            tags.extend(read.tags.into_iter().flatten());
            if tags.len() * 64 > self.config.manifest_bytes {
                let limit = self.config.manifest_bytes;
                return Err(Error::limit("manifest_bytes", limit, "bytes of tags").into());
            }
            let Some(next) = next else { return Ok(tags) };
            ask.url = self.absolute(image, &next);
        }
    }

    /// Whether a repository has this blob.
    pub(crate) async fn has_blob(&self, image: &Reference, digest: Digest) -> Answer<bool> {
        let what = format!("looking for {digest} in {}", image.repository);
        let ask = self.ask(
            &what,
            image,
            "pull",
            Method::HEAD,
            &format!("blobs/{digest}"),
        );
        Ok(found(self.send_again(&ask, None).await)?.is_some())
    }

    /// A small blob: an image's configuration.
    pub(crate) async fn blob(&self, image: &Reference, digest: Digest) -> Answer<Bytes> {
        let what = format!("reading {digest} of {}", image.repository);
        let ask = self.ask(
            &what,
            image,
            "pull",
            Method::GET,
            &format!("blobs/{digest}"),
        );
        let answer = self.send(&ask, None).await?;
        let bytes = self.bytes(&ask, answer).await?;
        if Digest::of(&bytes) != digest {
            return Err(self.unusable(&ask, format!("it is not {digest}")));
        }
        Ok(bytes)
    }

    /// Sees to it that a repository has a blob that another one has: mounted where both are of one
    /// registry, copied where not. A stream of a large blob is not held in memory.
    pub(crate) async fn borrow(
        &self,
        from: &Reference,
        to: &Reference,
        digest: Digest,
        size: u64,
    ) -> Answer<()> {
        if self.has_blob(to, digest).await? {
            return Ok(());
        }
        let mount = (from.host == to.host).then(|| from.repository.clone());
        let what = format!("mounting {digest} into {}", to.repository);
        let location = match self
            .begin(&what, to, mount.map(|from| (digest, from)))
            .await?
        {
            Begun::Mounted => return Ok(()),
            Begun::Upload(location) => location,
        };
        if size > self.config.layer_bytes {
            return Err(Error::limit("layer_bytes", self.config.layer_bytes, "bytes").into());
        }
        let ask = self.ask(&what, from, "pull", Method::GET, &format!("blobs/{digest}"));
        let answer = self.send(&ask, None).await?;
        let body = Body::wrap_stream(answer.bytes_stream());
        self.finish(&what, to, &location, digest, size, body).await
    }

    /// Sees to it that a repository has this blob.
    pub(crate) async fn upload(&self, to: &Reference, blob: &Blob<'_>) -> Answer<()> {
        let digest = blob.digest();
        if self.has_blob(to, digest).await? {
            return Ok(());
        }
        let what = format!("uploading {digest} to {}", to.repository);
        let Begun::Upload(location) = self.begin(&what, to, None).await? else {
            return Ok(());
        };
        let body = blob.body().await?;
        self.finish(&what, to, &location, digest, blob.size(), body)
            .await
    }

    async fn begin(
        &self,
        what: &str,
        to: &Reference,
        mount: Option<(Digest, String)>,
    ) -> Answer<Begun> {
        let query = mount.as_ref().map_or_else(String::new, |(digest, from)| {
            format!("?mount={digest}&from={from}")
        });
        let mut ask = self.ask(
            what,
            to,
            "pull,push",
            Method::POST,
            &format!("blobs/uploads/{query}"),
        );
        if let Some((_, from)) = mount {
            ask.scope.push_str(&format!(" repository:{from}:pull"));
        }
        ask.headers.insert(CONTENT_LENGTH, 0.into());
        let answer = self.send(&ask, None).await?;
        if answer.status() == StatusCode::CREATED {
            return Ok(Begun::Mounted);
        }
        let location = text(answer.headers(), &LOCATION)
            .ok_or_else(|| self.unusable(&ask, "it names no place for the upload"))?;
        Ok(Begun::Upload(self.absolute(to, location)))
    }

    async fn finish(
        &self,
        what: &str,
        to: &Reference,
        location: &str,
        digest: Digest,
        size: u64,
        body: Body,
    ) -> Answer<()> {
        let mut ask = self.ask(what, to, "pull,push", Method::PUT, "");
        let join = if location.contains('?') { '&' } else { '?' };
        ask.url = format!("{location}{join}digest={digest}");
        let octets = http::HeaderValue::from_static("application/octet-stream");
        ask.headers.insert(CONTENT_TYPE, octets);
        ask.headers.insert(CONTENT_LENGTH, size.into());
        // The upload was begun with the same right, so a body that can be sent once is enough.
        let answer = self.attempt(&ask, Some(body)).await?;
        self.check(&ask, answer).await.map(drop)
    }
}

enum Begun {
    Mounted,
    Upload(String),
}

/// Names each kind of manifest: registries know no `*/*`.
fn accept_manifests(headers: &mut HeaderMap) {
    let known = [
        media::OCI_MANIFEST,
        media::OCI_INDEX,
        media::DOCKER_MANIFEST,
        media::DOCKER_LIST,
    ];
    for kind in known {
        headers.append(ACCEPT, http::HeaderValue::from_static(kind));
    }
}

/// `None` where the registry says that it is not there.
fn found(answer: Answer<Response>) -> Answer<Option<Response>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(fault) if fault.is_not_found() => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// The target of a `Link` field with `rel="next"` (RFC 8288).
fn next_page(headers: &HeaderMap) -> Option<String> {
    let link = text(headers, &http::header::LINK)?;
    let (target, parameters) = link.strip_prefix('<')?.split_once('>')?;
    parameters
        .contains("rel=\"next\"")
        .then(|| target.to_owned())
}
