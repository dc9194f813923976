//! How the client talks to its server.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::WireDuration;

/// How the client talks to its server. `Debug` hides the token.
#[derive(Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ClientConfig {
    /// The server's address, such as `https://sless.example.com`.
    pub endpoint: String,
    /// The bearer token; without one only the public routes answer.
    pub token: Option<String>,
    /// An HTTP proxy for all requests. The client reads no environment by itself.
    pub proxy: Option<String>,
    /// What the `User-Agent` field says.
    pub user_agent: String,
    /// How long a connection may take to come about.
    pub connect_timeout: WireDuration,
    /// How long a call with a small body may take as a whole.
    pub request_timeout: WireDuration,
    /// How long an upload may take as a whole.
    pub upload_timeout: WireDuration,
    /// How long a streamed answer may be silent; none means for ever, as following a log needs.
    pub idle_timeout: Option<WireDuration>,
    /// How often a call that may be repeated is repeated.
    pub max_retries: u32,
    /// The delay before the first repetition; it doubles with each one after.
    pub min_backoff: WireDuration,
    /// The longest delay, also where the server asks for a longer one.
    pub max_backoff: WireDuration,
    /// The largest answer that is read into memory.
    pub max_answer_bytes: usize,
    /// The longest log line that is read into memory.
    pub max_log_line_bytes: usize,
}

impl ClientConfig {
    /// The defaults, for this server.
    pub fn new(endpoint: impl Into<String>) -> Self {
        Self {
            endpoint: endpoint.into(),
            ..Self::default()
        }
    }

    /// Sends this bearer token.
    #[must_use]
    pub fn with_token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }
}

impl Default for ClientConfig {
    fn default() -> Self {
        let seconds = |count| WireDuration(Duration::from_secs(count));
        Self {
            endpoint: "http://127.0.0.1:8080".to_owned(),
            token: None,
            proxy: None,
            user_agent: concat!("sless-api/", env!("CARGO_PKG_VERSION")).to_owned(),
            connect_timeout: seconds(10),
            request_timeout: seconds(60),
            upload_timeout: seconds(600),
            idle_timeout: None,
            max_retries: 4,
            min_backoff: WireDuration(Duration::from_millis(100)),
            max_backoff: seconds(5),
            max_answer_bytes: 16 << 20,
            max_log_line_bytes: 1 << 20,
        }
    }
}

impl fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientConfig")
            .field("endpoint", &self.endpoint)
            .field("token", &self.token.as_ref().map(|_| "…"))
            .field("request_timeout", &self.request_timeout)
            .field("max_retries", &self.max_retries)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_hides_the_token() {
        let config = ClientConfig::new("http://x").with_token("hunter2");
        assert!(!format!("{config:?}").contains("hunter2"));
    }
}
