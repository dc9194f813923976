//! The way to the server and back: attempts, delays, and what it refuses.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use reqwest::{
    Response, StatusCode, Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER},
};
use serde::Deserialize;
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, timeout_at},
};

use super::{
    LlmConfig, answer,
    error::{LlmError, Said},
    request::{self, Dialect},
};
use crate::text::is_hidden;

#[derive(Debug)]
pub(super) struct ModelClient {
    http: reqwest::Client,
    url: Url,
    authorization: Option<HeaderValue>,
    config: LlmConfig,
    /// What the server has taken so far.
    dialect: Mutex<Dialect>,
    places: Semaphore,
}

/// The most of an error's body that is read.
const REFUSAL_BYTES: usize = 16 * 1024;
/// The most of it that is looked at and logged, in characters.
const SAID_CHARS: usize = 500;

fn invalid(field: &'static str, why: impl std::fmt::Display) -> LlmError {
    LlmError::Config {
        field,
        why: why.to_string(),
    }
}

impl ModelClient {
    pub(super) fn new(config: &LlmConfig) -> Result<Self, LlmError> {
        let url = completions_url(&config.endpoint)?;
        if config.model.trim().is_empty() || config.model.contains(is_hidden) {
            return Err(invalid("model", "it has no name"));
        }
        if config.timeout.is_zero() {
            return Err(invalid("timeout", "expected more than nothing"));
        }
        let counts = [
            ("attempts", config.attempts as usize),
            ("requests_at_once", config.requests_at_once),
            ("max_tokens", config.max_tokens as usize),
            ("answer_bytes", config.answer_bytes),
            ("reason_chars", config.reason_chars),
        ];
        if let Some((field, _)) = counts.iter().find(|(_, count)| *count == 0) {
            return Err(invalid(field, "expected at least 1"));
        }
        let authorization = match &config.api_key {
            None => None,
            Some(key) => {
                let mut value = HeaderValue::try_from(format!("Bearer {}", key.expose()))
                    .map_err(|_| invalid("api_key", "it holds what no header may hold"))?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        let mut http = reqwest::Client::builder()
            .user_agent(concat!("sless/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(config.connect_timeout)
            // A redirect would carry key and code to where nobody sent them.
            .redirect(reqwest::redirect::Policy::none())
            .tcp_nodelay(true)
            .no_proxy();
        if let Some(proxy) = &config.proxy {
            http = http.proxy(reqwest::Proxy::all(proxy).map_err(|error| invalid("proxy", error))?);
        }
        Ok(Self {
            http: http
                .build()
                .map_err(|error| invalid("endpoint", error.without_url()))?,
            url,
            authorization,
            dialect: Mutex::new(Dialect::default()),
            places: Semaphore::new(config.requests_at_once.min(Semaphore::MAX_PERMITS)),
            config: config.clone(),
        })
    }

    /// Host and port, for the identity.
    pub(super) fn host(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        match self.url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }

    /// What the model says to these two messages.
    pub(super) async fn complete(
        &self,
        system: &str,
        user: &str,
        demand_canary: bool,
    ) -> Result<String, LlmError> {
        let limit = self.config.timeout;
        let deadline = Instant::now() + limit;
        let Ok(Ok(_place)) = timeout_at(deadline, self.places.acquire()).await else {
            return Err(LlmError::Busy(self.config.requests_at_once));
        };
        let attempts = self.attempts((system, user), demand_canary, deadline);
        let answered = timeout_at(deadline, attempts).await;
        answered.unwrap_or(Err(LlmError::Timeout(limit)))
    }

    async fn attempts(
        &self,
        messages: (&str, &str),
        demand_canary: bool,
        deadline: Instant,
    ) -> Result<String, LlmError> {
        let config = &self.config;
        let mut dialect = *self.dialect.lock().unwrap_or_else(PoisonError::into_inner);
        let mut attempt = 1;
        loop {
            let (model, tokens) = (config.model.as_str(), config.max_tokens);
            let body = request::body(messages, model, tokens, demand_canary, dialect);
            let error = match self.once(body).await {
                Ok(content) => {
                    *self.dialect.lock().unwrap_or_else(PoisonError::into_inner) = dialect;
                    return Ok(content);
                }
                Err(error) => error,
            };
            if let LlmError::Status {
                status: 400 | 422,
                said,
                ..
            } = &error
                && let Some(less) = dialect.after_refusal(&said.0)
            {
                tracing::debug!(
                    ?less,
                    "the model's server refused the request: asking for less"
                );
                dialect = less;
                continue;
            }
            let delay = error.retry_after().unwrap_or_else(|| self.delay(attempt));
            let late = Instant::now() + delay >= deadline;
            if !error.is_passing() || attempt >= config.attempts || late {
                return Err(error);
            }
            tracing::debug!(%error, attempt, ?delay, "asking the model again");
            sleep(delay).await;
            attempt += 1;
        }
    }

    fn delay(&self, attempt: u32) -> Duration {
        let doubled = self.config.retry_delay * 2_u32.saturating_pow((attempt - 1).min(16));
        doubled + doubled.mul_f64(fastrand::f64())
    }

    async fn once(&self, body: String) -> Result<String, LlmError> {
        let mut request = self
            .http
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json")
            .body(body);
        if let Some(value) = &self.authorization {
            request = request.header(AUTHORIZATION, value.clone());
        }
        let response = request.send().await.map_err(|error| {
            if error.is_connect() {
                LlmError::Connect(error)
            } else {
                LlmError::Interrupted(error)
            }
        })?;
        if response.status() != StatusCode::OK {
            return Err(refusal(response).await);
        }
        let most = self.config.answer_bytes;
        let (body, whole) = read(response, most).await?;
        if !whole {
            return Err(LlmError::TooLong(most));
        }
        answer::parse_completion(&body)
    }
}

/// Reads at most so many bytes, and says whether that was all.
async fn read(mut response: Response, most: usize) -> Result<(Vec<u8>, bool), LlmError> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(LlmError::Interrupted)? {
        let room = most - body.len();
        if piece.len() > room {
            body.extend_from_slice(&piece[..room]);
            return Ok((body, false));
        }
        body.extend_from_slice(&piece);
    }
    Ok((body, true))
}

async fn refusal(response: Response) -> LlmError {
    let status = response.status().as_u16();
    let retry_after = retry_after(response.headers(), Timestamp::now());
    // What the server says helps, and is not needed.
    let body = read(response, REFUSAL_BYTES).await.map(|(body, _)| body);
    let body = body.unwrap_or_default();
    let said = Said(said(&body));
    let text = said.0.to_lowercase();
    let too_long = status == 413
        || (status == 400
            && (String::from_utf8_lossy(&body).contains("exceed_context_size_error")
                || text.contains("context_length_exceeded")
                || text.contains("maximum context length")
                || text.contains("context size")));
    if too_long {
        return LlmError::Context(said);
    }
    LlmError::Status {
        status,
        retry_after,
        said,
    }
}

/// What a refusal says: its `error.message` with `param` and `code`, or its beginning. No more of it is
/// looked at, since a server may repeat what it was sent.
fn said(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Refusal {
        error: Detail,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Detail {
        message: Option<String>,
        param: Option<String>,
        code: Option<serde_json::Value>,
    }
    let text = match serde_json::from_slice::<Refusal>(body) {
        Ok(Refusal { error }) => {
            let code = error.code.map(|code| code.to_string());
            let parts = [error.param, code, error.message];
            let parts: Vec<_> = parts.into_iter().flatten().collect();
            parts.join(" ")
        }
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    };
    let visible = text.chars().filter(|c| !is_hidden(*c));
    visible.take(SAID_CHARS).collect()
}

/// `Retry-After` as seconds or as a date (RFC 9110, 10.2.3).
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
}

/// The address of the chat completions.
fn completions_url(endpoint: &str) -> Result<Url, LlmError> {
    let expected = "expected an address such as http://127.0.0.1:8000 or https://host/v1";
    let mut url = Url::parse(endpoint)
        .map_err(|error| invalid("endpoint", format!("`{endpoint}`: {error}; {expected}")))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(invalid("endpoint", format!("`{endpoint}`: {expected}")));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("endpoint", "the key goes into api_key, not here"));
    }
    let path = url.path().trim_end_matches('/').to_owned();
    if path.is_empty() {
        url.set_path("/v1/chat/completions");
    } else if !path.ends_with("/chat/completions") {
        url.set_path(&format!("{path}/chat/completions"));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_taken_in_three_forms() {
        for (given, url) in [
            ("http://h:1", "http://h:1/v1/chat/completions"),
            ("http://h:1/", "http://h:1/v1/chat/completions"),
            ("https://h/v1/", "https://h/v1/chat/completions"),
            ("https://h/api/v3", "https://h/api/v3/chat/completions"),
            (
                "https://h/d/x/chat/completions?api-version=1",
                "https://h/d/x/chat/completions?api-version=1",
            ),
        ] {
            assert_eq!(completions_url(given).expect(given).as_str(), url);
        }
        for wrong in ["", "h:1", "ftp://h", "https://key@h/v1"] {
            assert!(completions_url(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        let after = |text: &'static str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(text))]);
            retry_after(&headers, now)
        };
        assert_eq!(after("7"), Some(Duration::from_secs(7)));
        assert_eq!(
            after("Thu, 01 Jan 2026 00:00:30 GMT"),
            Some(Duration::from_secs(30))
        );
        assert_eq!(after("Wed, 31 Dec 2025 23:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(after("soon"), None);
    }

    #[test]
    fn a_refusal_is_told_without_what_was_sent() {
        let long = format!(
            "{{\"error\":{{\"message\":\"no\\u0000 {}\",\"code\":400}}}}",
            "x".repeat(9999)
        );
        let told = said(long.as_bytes());
        assert!(told.starts_with("400 no x") && told.chars().count() == SAID_CHARS);
        assert_eq!(said(b"oops"), "oops");
    }
}
