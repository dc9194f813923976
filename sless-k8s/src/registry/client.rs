//! The requests.

use std::{
    collections::HashMap,
    fmt,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use base64::Engine as _;
use bytes::Bytes;
use futures::StreamExt as _;
use http::{
    HeaderMap, Method, StatusCode,
    header::{
        ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, LOCATION, RETRY_AFTER,
        WWW_AUTHENTICATE,
    },
};
use reqwest::{Body, Response};
use sless_core::{Digest, Error, Result};

use super::{
    Credentials, Parsed, Reference, RegistryConfig,
    auth::{Authorization, Challenge, TokenAnswer},
    error::RegistryFault,
    manifest::media,
};

type Answer<T> = Result<T, RegistryFault>;

/// The longest text of an error that is passed on, in characters.
const SAID_CHARS: usize = 300;

/// Registries, as this process knows them. Clones share connections and tokens.
#[derive(Clone)]
pub(crate) struct Registry {
    http: reqwest::Client,
    config: Arc<RegistryConfig>,
    known: Arc<Mutex<HashMap<(String, String), Authorization>>>,
}

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

    async fn body(&self) -> std::io::Result<Body> {
        match self {
            Self::Bytes(bytes) => Ok(bytes.clone().into()),
            Self::File { path, .. } => Ok(tokio::fs::File::open(path).await?.into()),
        }
    }
}

/// One request: to which repository, and what may be done there.
struct Ask<'a> {
    what: &'a str,
    image: &'a Reference,
    scope: String,
    method: Method,
    url: String,
    headers: HeaderMap,
}

impl Registry {
    pub(crate) fn new(config: RegistryConfig) -> Result<Self> {
        let http = reqwest::Client::builder()
            .connect_timeout(config.connect_timeout())
            .timeout(config.request_timeout())
            .user_agent(concat!("sless/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|source| {
                Error::invalid("no client of registries can be made").with_source(source)
            })?;
        Ok(Self {
            http,
            config: Arc::new(config),
            known: Arc::default(),
        })
    }

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
        let known = [
            media::OCI_MANIFEST,
            media::OCI_INDEX,
            media::DOCKER_MANIFEST,
            media::DOCKER_LIST,
        ];
        for kind in known {
            ask.headers
                .append(ACCEPT, http::HeaderValue::from_static(kind));
        }
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
        let any = http::HeaderValue::from_static("*/*");
        ask.headers.append(ACCEPT, any);
        Ok(found(self.send(&ask, None).await)?.is_some())
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
        self.send(&ask, Some(&Blob::Bytes(bytes))).await.map(drop)
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
        Ok(found(self.send(&ask, None).await)?.is_some())
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

    fn ask<'a>(
        &self,
        what: &'a str,
        image: &'a Reference,
        right: &str,
        method: Method,
        path: &str,
    ) -> Ask<'a> {
        let url = self.absolute(image, &format!("/v2/{}/{path}", image.repository));
        Ask {
            what,
            image,
            scope: format!("repository:{}:{right}", image.repository),
            method,
            url,
            headers: HeaderMap::new(),
        }
    }

    /// A URL of the registry of this image; one that is whole stays as it is.
    fn absolute(&self, image: &Reference, path: &str) -> String {
        if !path.starts_with('/') {
            return path.to_owned();
        }
        let host = image.api_host();
        let address = self.config.addresses.get(host).map_or(host, String::as_str);
        let plain = &self.config.plain_http;
        let scheme = if plain.contains(host) || plain.contains(address) {
            "http"
        } else {
            "https"
        };
        format!("{scheme}://{address}{path}")
    }

    /// Sends a request, again with what the registry asks for where it asks who is there.
    async fn send(&self, ask: &Ask<'_>, blob: Option<&Blob<'_>>) -> Answer<Response> {
        let body = async |blob: Option<&Blob<'_>>| match blob {
            Some(blob) => blob.body().await.map(Some),
            None => Ok(None),
        };
        let answer = self.attempt(ask, body(blob).await?).await?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            return self.check(ask, answer).await;
        }
        let challenges = answer.headers().get_all(WWW_AUTHENTICATE);
        let challenge = challenges
            .into_iter()
            .filter_map(|field| field.to_str().ok())
            .find_map(Challenge::parse);
        let Some(challenge) = challenge else {
            return self.check(ask, answer).await;
        };
        let authorization = self.authorize(ask, challenge).await?;
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert((ask.image.host.clone(), ask.scope.clone()), authorization);
        let answer = self.attempt(ask, body(blob).await?).await?;
        self.check(ask, answer).await
    }

    async fn attempt(&self, ask: &Ask<'_>, body: Option<Body>) -> Answer<Response> {
        let mut request = self
            .http
            .request(ask.method.clone(), &ask.url)
            .headers(ask.headers.clone());
        let known = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.retain(|_, authorization| authorization.is_good());
            known
                .get(&(ask.image.host.clone(), ask.scope.clone()))
                .cloned()
        };
        if let Some(Authorization { value, .. }) = known {
            request = request.header(AUTHORIZATION, value);
        }
        if let Some(body) = body {
            request = request.body(body);
        }
        request
            .send()
            .await
            .map_err(|source| unreached(ask, source))
    }

    async fn authorize(&self, ask: &Ask<'_>, challenge: Challenge) -> Answer<Authorization> {
        let credentials = self.config.credentials.get(&ask.image.host);
        let (realm, service, scope) = match challenge {
            Challenge::Basic => {
                let Some(Credentials { username, password }) = credentials else {
                    return Err(RegistryFault::Refused {
                        what: ask.what.to_owned(),
                        host: ask.image.host.clone(),
                        status: 401,
                        said: "there are no credentials for it".to_owned(),
                        retry_after: None,
                    });
                };
                let pair = base64::engine::general_purpose::STANDARD
                    .encode(format!("{username}:{password}"));
                return Ok(Authorization {
                    value: format!("Basic {pair}"),
                    until: None,
                });
            }
            Challenge::Bearer {
                realm,
                service,
                scope,
            } => (realm, service, scope),
        };
        let mut url =
            reqwest::Url::parse(&realm).map_err(|error| self.unusable(ask, error.to_string()))?;
        {
            let mut query = url.query_pairs_mut();
            if let Some(service) = service {
                query.append_pair("service", &service);
            }
            // What is asked for here may be more than the challenge names: a mount reads two repositories.
            for scope in ask.scope.split(' ') {
                query.append_pair("scope", scope);
            }
            if let Some(scope) = scope.filter(|scope| !ask.scope.contains(scope.as_str())) {
                query.append_pair("scope", &scope);
            }
        }
        let mut request = self.http.get(url);
        if let Some(Credentials { username, password }) = credentials {
            request = request.basic_auth(username, Some(password));
        }
        let answer = request
            .send()
            .await
            .map_err(|source| unreached(ask, source))?;
        let answer = self.check(ask, answer).await?;
        let bytes = self.bytes(ask, answer).await?;
        let read: Option<TokenAnswer> = serde_json::from_slice(&bytes).ok();
        read.and_then(TokenAnswer::authorization)
            .ok_or_else(|| self.unusable(ask, "its token service gave no token"))
    }

    /// The answer where it is one of success.
    async fn check(&self, ask: &Ask<'_>, answer: Response) -> Answer<Response> {
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let seconds = text(answer.headers(), &RETRY_AFTER).and_then(|text| text.parse().ok());
        let body = self.bytes(ask, answer).await.unwrap_or_default();
        let said: String = String::from_utf8_lossy(&body)
            .chars()
            .take(SAID_CHARS)
            .collect();
        Err(RegistryFault::Refused {
            what: ask.what.to_owned(),
            host: ask.image.host.clone(),
            status: status.as_u16(),
            said,
            retry_after: seconds.map(Duration::from_secs),
        })
    }

    async fn bytes(&self, ask: &Ask<'_>, answer: Response) -> Answer<Bytes> {
        let limit = self.config.manifest_bytes;
        let mut whole = Vec::new();
        let mut stream = answer.bytes_stream();
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|source| unreached(ask, source))?;
            if whole.len() + chunk.len() > limit {
                return Err(Error::limit("manifest_bytes", limit, "bytes").into());
            }
            whole.extend_from_slice(&chunk);
        }
        Ok(whole.into())
    }

    fn unusable(&self, ask: &Ask<'_>, why: impl Into<String>) -> RegistryFault {
        RegistryFault::Unusable {
            what: ask.what.to_owned(),
            host: ask.image.host.clone(),
            why: why.into(),
        }
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

enum Begun {
    Mounted,
    Upload(String),
}

fn unreached(ask: &Ask<'_>, source: reqwest::Error) -> RegistryFault {
    RegistryFault::Unreached {
        what: ask.what.to_owned(),
        host: ask.image.host.clone(),
        timeout: source.is_timeout(),
        source,
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

fn text<'a>(headers: &'a HeaderMap, name: &http::HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The target of a `Link` field with `rel="next"` (RFC 8288).
fn next_page(headers: &HeaderMap) -> Option<String> {
    let link = text(headers, &http::header::LINK)?;
    let (target, parameters) = link.strip_prefix('<')?.split_once('>')?;
    parameters
        .contains("rel=\"next\"")
        .then(|| target.to_owned())
}
