//! How requests are sent: where to, as whom, and what an answer means.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use base64::Engine as _;
use bytes::Bytes;
use futures::StreamExt as _;
use http::{
    HeaderMap, Method, StatusCode,
    header::{AUTHORIZATION, RETRY_AFTER, WWW_AUTHENTICATE},
};
use reqwest::{Body, Response};
use sless_core::{Error, Result};

use super::{
    Blob, Credentials, Reference, RegistryConfig,
    auth::{Authorization, Challenge, TokenAnswer},
    error::RegistryFault,
};

pub(super) type Answer<T> = Result<T, RegistryFault>;

/// The longest text of an error that is passed on, in characters.
const SAID_CHARS: usize = 300;

/// Registries, as this process knows them. Clones share connections and tokens.
#[derive(Clone)]
pub(crate) struct Registry {
    http: reqwest::Client,
    pub(super) config: Arc<RegistryConfig>,
    known: Arc<Mutex<HashMap<(String, String), Authorization>>>,
}

/// One request: to which repository, and what may be done there.
pub(super) struct Ask<'a> {
    what: &'a str,
    image: &'a Reference,
    pub(super) scope: String,
    method: Method,
    pub(super) url: String,
    pub(super) headers: HeaderMap,
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

    pub(super) fn ask<'a>(
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
    pub(super) fn absolute(&self, image: &Reference, path: &str) -> String {
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
    pub(super) async fn send(&self, ask: &Ask<'_>, blob: Option<&Blob<'_>>) -> Answer<Response> {
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

    pub(super) async fn attempt(&self, ask: &Ask<'_>, body: Option<Body>) -> Answer<Response> {
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
    pub(super) async fn check(&self, ask: &Ask<'_>, answer: Response) -> Answer<Response> {
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

    pub(super) async fn bytes(&self, ask: &Ask<'_>, answer: Response) -> Answer<Bytes> {
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

    pub(super) fn unusable(&self, ask: &Ask<'_>, why: impl Into<String>) -> RegistryFault {
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

fn unreached(ask: &Ask<'_>, source: reqwest::Error) -> RegistryFault {
    RegistryFault::Unreached {
        what: ask.what.to_owned(),
        host: ask.image.host.clone(),
        timeout: source.is_timeout(),
        source,
    }
}

pub(super) fn text<'a>(headers: &'a HeaderMap, name: &http::HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}
