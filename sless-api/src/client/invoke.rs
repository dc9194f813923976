//! Calling a function.

use reqwest::{
    Method,
    header::{AUTHORIZATION, CONTENT_LENGTH, HeaderName, HeaderValue},
};

use super::{ByteStream, Client, ClientError, Content, Result};

/// A call of a function.
#[derive(Debug)]
#[non_exhaustive]
pub struct Call {
    /// The method.
    pub method: String,
    /// What follows the function's name: empty, or `/…`, or `?…`, already encoded.
    pub tail: String,
    /// Header fields, in order.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Option<Content>,
}

impl Call {
    /// A call with this method, without a body.
    pub fn new(method: impl Into<String>) -> Self {
        Self {
            method: method.into(),
            tail: String::new(),
            headers: Vec::new(),
            body: None,
        }
    }

    /// Calls below the function's own path.
    #[must_use]
    pub fn with_tail(mut self, tail: impl Into<String>) -> Self {
        self.tail = tail.into();
        self
    }

    /// Adds a header field.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sends this body.
    #[must_use]
    pub fn with_body(mut self, body: Content) -> Self {
        self.body = Some(body);
        self
    }
}

/// What a function answered.
#[non_exhaustive]
pub struct CallAnswer {
    /// The status, whatever it is.
    pub status: u16,
    /// Header fields, in order. Bytes that are not UTF-8 are shown as U+FFFD.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: ByteStream,
}

impl std::fmt::Debug for CallAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallAnswer")
            .field("status", &self.status)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Calls a function through the server's public path. The token is not sent, since a function
    /// is its author's code. A status that says "error" is an answer like any other.
    ///
    /// # Errors
    /// [`ClientError`] where no answer came, or the call cannot be written.
    pub async fn call(&self, namespace: &str, name: &str, call: Call) -> Result<CallAnswer> {
        let invalid = |what: &str| ClientError::Invalid(format!("the call's {what} is not valid"));
        let mut url = self.url(&["fn", namespace, name])?;
        if !call.tail.is_empty() {
            if !call.tail.starts_with(['/', '?']) {
                return Err(invalid("tail"));
            }
            url = format!("{url}{}", call.tail)
                .parse()
                .map_err(|_| invalid("tail"))?;
        }
        let method = Method::from_bytes(call.method.as_bytes()).map_err(|_| invalid("method"))?;
        let mut outgoing = self.request(method, url).endless("*/*");
        let headers = outgoing.request.headers_mut();
        headers.remove(AUTHORIZATION);
        for (name, value) in &call.headers {
            let field = HeaderName::try_from(name).map_err(|_| invalid(name))?;
            let value = HeaderValue::try_from(value).map_err(|_| invalid(name))?;
            headers.append(field, value);
        }
        if let Some(content) = call.body {
            if let Some(length) = content.length {
                headers.insert(CONTENT_LENGTH, length.into());
            }
            *outgoing.request.body_mut() = Some(content.body);
        }
        let answer = self.unchecked(outgoing).await?;
        let headers = answer.headers().iter().map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            (name.as_str().to_owned(), value)
        });
        Ok(CallAnswer {
            status: answer.status().as_u16(),
            headers: headers.collect(),
            body: self.stream(answer),
        })
    }
}
