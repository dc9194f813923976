//! Keys of an identity provider: fetched, cached, rotated.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, Instant},
};

use super::{
    AuthError,
    keys::{KeySet, PUBLIC_ALGORITHMS, is_public},
    token::Token,
};

/// Where keys come from, and how long they are believed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JwksConfig {
    /// The address of the key set.
    pub url: String,
    /// After how long keys are fetched again.
    pub refresh: Duration,
    /// How much time lies between two fetches at least, whatever tokens come: an unknown `kid`
    /// asks for a fetch, and anybody can make one up.
    pub min_interval: Duration,
    /// How long keys are still believed where they cannot be fetched again.
    pub stale_for: Duration,
    /// How long one fetch may take.
    pub timeout: Duration,
    /// The largest key set, in bytes.
    pub max_bytes: usize,
    /// The most keys.
    pub max_keys: usize,
}

impl JwksConfig {
    /// The defaults, for this address: refreshed every 5 minutes, at most once in 10 seconds, and
    /// believed for a day without an answer.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            refresh: Duration::from_secs(300),
            min_interval: Duration::from_secs(10),
            stale_for: Duration::from_secs(24 * 3600),
            timeout: Duration::from_secs(5),
            max_bytes: 256 * 1024,
            max_keys: 100,
        }
    }
}

/// Why a key set could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JwksError {
    /// The client could not be made.
    #[error("no HTTP client for the key set")]
    Client(#[source] reqwest::Error),
    /// No answer, or one that broke off.
    #[error("the key set at {url} cannot be fetched")]
    Fetch {
        /// The address.
        url: String,
        /// Why.
        source: reqwest::Error,
    },
    /// An answer that is no key set.
    #[error("the answer of {url} cannot be used: {problem}")]
    Answer {
        /// The address.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// The cached keys of an identity provider.
#[derive(Debug)]
pub struct Jwks {
    config: JwksConfig,
    http: reqwest::Client,
    cached: RwLock<Cached>,
    /// Held during a fetch, so that there is never more than one.
    fetching: tokio::sync::Mutex<()>,
}

#[derive(Clone, Debug, Default)]
struct Cached {
    keys: Option<(Arc<KeySet>, Instant)>,
    tried: Option<Instant>,
}

impl Jwks {
    /// A cache that is still empty.
    ///
    /// # Errors
    /// [`JwksError::Client`] where no HTTP client can be made.
    pub fn new(config: JwksConfig) -> Result<Self, JwksError> {
        let http = reqwest::Client::builder()
            .timeout(config.timeout)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .user_agent(concat!("sless-server/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(JwksError::Client)?;
        Ok(Self {
            config,
            http,
            cached: RwLock::default(),
            fetching: tokio::sync::Mutex::default(),
        })
    }

    /// Fetches the keys for the first time. A failure is logged and tried again with a token.
    pub(super) async fn prepare(&self) {
        let _only = self.fetching.lock().await;
        self.fetch().await;
    }

    pub(super) async fn verify(&self, token: &Token<'_>) -> Result<(), AuthError> {
        if !is_public(token.algorithm()) {
            return Err(AuthError::Algorithm(PUBLIC_ALGORITHMS));
        }
        let Some(key_id) = token.key_id() else {
            return Err(AuthError::UnknownKey("its header has no `kid`"));
        };
        let keys = self.keys(key_id).await?;
        let key = keys.find(key_id, token.algorithm());
        key.ok_or(AuthError::UnknownKey("no key with its `kid`"))?
            .verify(token)
    }

    /// The keys to look this `kid` up in: the cached ones, or fetched ones where those are old, or
    /// do not have it.
    async fn keys(&self, key_id: &str) -> Result<Arc<KeySet>, AuthError> {
        let cached = self.cached();
        let known = cached
            .keys
            .as_ref()
            .filter(|(keys, _)| keys.find(key_id, "").is_some());
        match known {
            Some((keys, fetched)) if fetched.elapsed() < self.config.refresh => {
                return Ok(keys.clone());
            }
            // Old, and it is there: one caller fetches, the others go on with what there is.
            Some(_) => {
                if self.may_fetch()
                    && let Ok(_only) = self.fetching.try_lock()
                    && self.may_fetch()
                {
                    self.fetch().await;
                }
            }
            None => {
                if self.may_fetch() {
                    let _only = self.fetching.lock().await;
                    if self.may_fetch() {
                        self.fetch().await;
                    }
                }
            }
        }
        let believed = self.config.refresh.saturating_add(self.config.stale_for);
        match self.cached().keys {
            Some((keys, fetched)) if fetched.elapsed() < believed => Ok(keys),
            _ => Err(AuthError::KeysUnavailable),
        }
    }

    fn may_fetch(&self) -> bool {
        let tried = self.cached().tried;
        tried.is_none_or(|tried| tried.elapsed() >= self.config.min_interval)
    }

    async fn fetch(&self) {
        let answer = self.fetched().await;
        let now = Instant::now();
        let mut cached = self.cached.write().unwrap_or_else(PoisonError::into_inner);
        cached.tried = Some(now);
        match answer {
            Ok(keys) => {
                tracing::debug!(keys = keys.len(), "fetched the keys that check tokens");
                cached.keys = Some((Arc::new(keys), now));
            }
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::warn!(%error, cause, "tokens are checked with the keys fetched before");
            }
        }
    }

    async fn fetched(&self) -> Result<KeySet, JwksError> {
        let url = self.config.url.clone();
        let fetch = |source: reqwest::Error| JwksError::Fetch {
            url: url.clone(),
            source: source.without_url(),
        };
        let answer = |problem| JwksError::Answer {
            url: url.clone(),
            problem,
        };
        let mut response = self
            .http
            .get(&self.config.url)
            .send()
            .await
            .map_err(fetch)?;
        if !response.status().is_success() {
            return Err(answer(format!("status {}", response.status().as_u16())));
        }
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(fetch)? {
            let limit = self.config.max_bytes;
            if body.len() + piece.len() > limit {
                return Err(answer(format!(
                    "above the limit jwks_bytes of {limit} bytes"
                )));
            }
            body.extend_from_slice(&piece);
        }
        KeySet::parse(&body, self.config.max_keys).map_err(answer)
    }

    fn cached(&self) -> Cached {
        let cached = self.cached.read().unwrap_or_else(PoisonError::into_inner);
        cached.clone()
    }
}
