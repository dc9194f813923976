//! Operations.

use std::collections::BTreeMap;

use jiff::{Timestamp, fmt::rfc2822};
use reqwest::{Method, header::DATE};
use serde::{Deserialize, Serialize};

use super::{Client, ClientError, Result};

/// The answer of `GET /readyz`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Readiness {
    /// Whether all parts are ready.
    pub ready: bool,
    /// `ok`, or what is wrong, per part.
    pub parts: BTreeMap<String, String>,
}

impl Client {
    /// Whether the server is alive.
    ///
    /// # Errors
    /// As every call: [`ClientError`].
    pub async fn health(&self) -> Result<()> {
        let url = self.url(&["healthz"])?;
        self.once(self.request(Method::GET, url)).await.map(drop)
    }

    /// What the server's clock says, to the second: the field `Date` of an answer. None where the
    /// answer has none.
    ///
    /// # Errors
    /// As every call: [`ClientError`].
    pub async fn server_time(&self) -> Result<Option<Timestamp>> {
        let url = self.url(&["healthz"])?;
        let answer = self.once(self.request(Method::GET, url)).await?;
        let date = answer.headers().get(DATE);
        let date = date.and_then(|value| value.to_str().ok());
        // RFC 9110, section 5.6.7: a date is written as in mail, in GMT.
        Ok(date.and_then(|text| Some(rfc2822::parse(text).ok()?.timestamp())))
    }

    /// Whether the server can do its work. Not being ready is an answer, not an error.
    ///
    /// # Errors
    /// As every call: [`ClientError`].
    pub async fn readiness(&self) -> Result<Readiness> {
        let url = self.url(&["readyz"])?;
        let answer = self.unchecked(self.request(Method::GET, url)).await?;
        if !matches!(answer.status().as_u16(), 200 | 503) {
            return Err(ClientError::Answer {
                message: format!("status {} from /readyz", answer.status().as_u16()),
            });
        }
        self.json(answer).await
    }

    /// The server's metrics, in the text format of Prometheus.
    ///
    /// # Errors
    /// As every call: [`ClientError`].
    pub async fn metrics(&self) -> Result<String> {
        let url = self.url(&["metrics"])?;
        let answer = self.repeated(self.request(Method::GET, url)).await?;
        self.text(answer).await
    }

    /// The server's OpenAPI document, as JSON text.
    ///
    /// # Errors
    /// As every call: [`ClientError`].
    pub async fn openapi(&self) -> Result<String> {
        let url = self.url(&["openapi.json"])?;
        let answer = self.repeated(self.request(Method::GET, url)).await?;
        self.text(answer).await
    }
}
