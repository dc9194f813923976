//! Sending requests and reading answers.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    sync::Arc,
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use futures::TryStreamExt;
use reqwest::{
    Method, Request, Response, Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER},
};
use serde::{Serialize, de::DeserializeOwned};

use super::{ApiError, ByteStream, ClientConfig, ClientError, Content, Result};
use crate::{ErrorBody, from_json};

/// How long a connection without a request is kept for a next one. Shorter than servers and what stands
/// in front of them keep it (a `sless-server` 15 s, `node:http` 5 s), since a request that is sent while
/// its server closes the connection breaks off, and one that creates is not sent again.
const IDLE_CONNECTION: Duration = Duration::from_secs(4);

/// The client of one server. Cloning it is cheap; clones share their connections.
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    http: reqwest::Client,
    config: ClientConfig,
    endpoint: Url,
    authorization: Option<HeaderValue>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.config.fmt(f)
    }
}

/// One request before it is sent.
pub(super) struct Outgoing {
    pub(super) request: Request,
}

impl Client {
    /// A client for the server that the configuration names. Connects with the first call.
    ///
    /// # Errors
    /// [`ClientError::Invalid`] names the field of the configuration that cannot be used.
    pub fn new(config: ClientConfig) -> Result<Self> {
        let invalid = |what: &str, why: &dyn std::fmt::Display| {
            ClientError::Invalid(format!("client configuration: {what}: {why}"))
        };
        let endpoint = Url::parse(&config.endpoint)
            .map_err(|error| invalid("endpoint", &format!("`{}`: {error}", config.endpoint)))?;
        if !matches!(endpoint.scheme(), "http" | "https") || endpoint.cannot_be_a_base() {
            let why = format!("`{}`: expected http:// or https://", config.endpoint);
            return Err(invalid("endpoint", &why));
        }
        let authorization = match &config.token {
            None => None,
            Some(token) => {
                let mut value = HeaderValue::try_from(format!("Bearer {token}"))
                    .map_err(|_| invalid("token", &"not a bearer token"))?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        let mut http = reqwest::Client::builder()
            .user_agent(config.user_agent.as_str())
            .connect_timeout(config.connect_timeout.0)
            // A redirect would carry the token to where its owner did not send it.
            .redirect(reqwest::redirect::Policy::none())
            .tcp_nodelay(true)
            .pool_idle_timeout(IDLE_CONNECTION)
            .no_proxy();
        if let Some(proxy) = &config.proxy {
            let proxy = reqwest::Proxy::all(proxy).map_err(|error| invalid("proxy", &error))?;
            http = http.proxy(proxy);
        }
        if let Some(idle) = config.idle_timeout {
            http = http.read_timeout(idle.0);
        }
        let http = http.build().map_err(|error| invalid("tls", &error))?;
        Ok(Self {
            inner: Arc::new(Inner {
                http,
                config,
                endpoint,
                authorization,
            }),
        })
    }

    /// The configuration.
    pub fn config(&self) -> &ClientConfig {
        &self.inner.config
    }

    /// The address of a route, each segment encoded.
    pub(super) fn url(&self, segments: &[&str]) -> Result<Url> {
        let mut url = self.inner.endpoint.clone();
        url.set_query(None);
        url.set_fragment(None);
        if let Some(wrong) = segments
            .iter()
            .find(|name| matches!(**name, "" | "." | ".."))
        {
            return Err(ClientError::Invalid(format!(
                "`{wrong}` cannot be a name in a path"
            )));
        }
        url.path_segments_mut()
            .map_err(|()| ClientError::Invalid("the endpoint cannot carry a path".to_owned()))?
            .pop_if_empty()
            .extend(segments);
        Ok(url)
    }

    pub(super) fn request(&self, method: Method, url: Url) -> Outgoing {
        let mut request = Request::new(method, url);
        *request.timeout_mut() = Some(self.inner.config.request_timeout.0);
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(authorization) = &self.inner.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        Outgoing { request }
    }

    /// Sends once; an answer with an error status is an error.
    pub(super) async fn once(&self, outgoing: Outgoing) -> Result<Response> {
        let answer = self.unchecked(outgoing).await?;
        self.checked(answer).await
    }

    /// Sends once; every answer is an answer.
    pub(super) async fn unchecked(&self, outgoing: Outgoing) -> Result<Response> {
        let answer = self.inner.http.execute(outgoing.request).await;
        answer.map_err(|error| self.failed(error))
    }

    /// Sends, and sends again where that can help. For requests that may be repeated, without a
    /// streamed body.
    pub(super) async fn repeated(&self, outgoing: Outgoing) -> Result<Response> {
        let config = &self.inner.config;
        let mut attempt = 0;
        loop {
            let Some(request) = outgoing.request.try_clone() else {
                return self.once(outgoing).await;
            };
            let error = match self.once(Outgoing { request }).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if attempt >= config.max_retries || !error.is_transient() {
                return Err(error);
            }
            let asked = error.api().and_then(|error| error.retry_after);
            let delay = asked.unwrap_or_else(|| jittered(config.min_backoff.0, attempt));
            tokio::time::sleep(delay.min(config.max_backoff.0)).await;
            attempt += 1;
        }
    }

    pub(super) async fn json<T: DeserializeOwned>(&self, answer: Response) -> Result<T> {
        let body = self.body(answer).await?;
        from_json(&body).map_err(|error| ClientError::Answer {
            message: error.to_string(),
        })
    }

    pub(super) async fn text(&self, answer: Response) -> Result<String> {
        let body = self.body(answer).await?;
        String::from_utf8(body.into()).map_err(|error| ClientError::Answer {
            message: error.to_string(),
        })
    }

    pub(super) fn stream(&self, answer: Response) -> ByteStream {
        let client = self.clone();
        Box::pin(
            answer
                .bytes_stream()
                .map_err(move |error| client.failed(error)),
        )
    }

    async fn body(&self, mut answer: Response) -> Result<Bytes> {
        let limit = self.inner.config.max_answer_bytes;
        let mut body = BytesMut::new();
        while let Some(piece) = answer.chunk().await.map_err(|error| self.failed(error))? {
            if body.len() + piece.len() > limit {
                return Err(ClientError::Limit {
                    name: "max_answer_bytes",
                    value: limit,
                });
            }
            body.extend_from_slice(&piece);
        }
        Ok(body.freeze())
    }

    async fn checked(&self, answer: Response) -> Result<Response> {
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let retry_after = answer
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.parse().ok())
            .map(Duration::from_secs);
        let body = self.body(answer).await?;
        let body = serde_json::from_slice::<ErrorBody>(&body).unwrap_or_else(|_| {
            // A gateway in between answers in its own words.
            let text: String = String::from_utf8_lossy(&body).chars().take(500).collect();
            ErrorBody::new("unknown", text.trim())
        });
        Err(ClientError::Api(ApiError {
            status: status.as_u16(),
            code: body.code,
            message: body.error,
            retry_after,
        }))
    }

    fn failed(&self, error: reqwest::Error) -> ClientError {
        let server = self.inner.endpoint.origin().ascii_serialization();
        let error = error.without_url();
        if error.is_connect() {
            ClientError::Connect {
                server,
                source: error.into(),
            }
        } else if error.is_timeout() {
            ClientError::Timeout {
                server,
                source: error.into(),
            }
        } else {
            ClientError::Broken {
                server,
                source: error.into(),
            }
        }
    }
}

impl Outgoing {
    /// A body of JSON.
    pub(super) fn with_json<T: Serialize>(mut self, body: &T) -> Result<Self> {
        let body = serde_json::to_vec(body)
            .map_err(|error| ClientError::Invalid(format!("cannot write the request: {error}")))?;
        let json = HeaderValue::from_static("application/json");
        self.request.headers_mut().insert(CONTENT_TYPE, json);
        *self.request.body_mut() = Some(body.into());
        Ok(self)
    }

    /// A body of bytes, which may take this long.
    pub(super) fn with_content(
        mut self,
        content: Content,
        content_type: &str,
        timeout: Duration,
    ) -> Result<Self> {
        let kind = HeaderValue::try_from(content_type).map_err(|_| {
            ClientError::Invalid(format!("`{content_type}` cannot be a content type"))
        })?;
        let headers = self.request.headers_mut();
        headers.insert(CONTENT_TYPE, kind);
        if let Some(length) = content.length {
            headers.insert(CONTENT_LENGTH, length.into());
        }
        *self.request.body_mut() = Some(content.body);
        *self.request.timeout_mut() = Some(timeout);
        Ok(self)
    }

    /// Parameters behind the path; those that are `None` are left out.
    pub(super) fn with_query(mut self, pairs: &[(&str, Option<String>)]) -> Self {
        for (name, value) in pairs {
            if let Some(value) = value {
                let url = self.request.url_mut();
                url.query_pairs_mut().append_pair(name, value);
            }
        }
        self
    }

    /// An answer that lasts as long as it lasts.
    pub(super) fn endless(mut self, accept: &'static str) -> Self {
        *self.request.timeout_mut() = None;
        let accept = HeaderValue::from_static(accept);
        self.request.headers_mut().insert(ACCEPT, accept);
        self
    }
}

/// The delay doubles with each attempt; a random part keeps clients from coming back together.
fn jittered(first: Duration, attempt: u32) -> Duration {
    let full = first.saturating_mul(1 << attempt.min(16));
    let random = RandomState::new().build_hasher().finish() % 512;
    full.mul_f64(0.5 + random as f64 / 1024.0)
}
