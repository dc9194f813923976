//! Bodies that stream: of HTTP messages, and of stored objects.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream::BoxStream};
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt as _, Empty, Full, StreamBody, combinators::UnsyncBoxBody};

use crate::{Error, Result};

/// A stream of bytes out of, or into, a [`Storage`](crate::Storage).
pub type ByteStream = BoxStream<'static, Result<Bytes>>;

/// A [`ByteStream`] of one chunk.
pub fn bytes_stream(bytes: impl Into<Bytes>) -> ByteStream {
    let bytes = bytes.into();
    futures::stream::iter((!bytes.is_empty()).then_some(Ok(bytes))).boxed()
}

/// Reads a whole stream, at most `limit` bytes of it.
///
/// # Errors
/// What the stream says, or [`ErrorKind::LimitExceeded`](crate::ErrorKind::LimitExceeded) with the
/// limit's `name`.
pub async fn collect_bytes(
    mut stream: impl Stream<Item = Result<Bytes>> + Unpin,
    name: &str,
    limit: usize,
) -> Result<Bytes> {
    let mut whole = Vec::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk?;
        if whole.len() + chunk.len() > limit {
            return Err(Error::limit(name, limit, "bytes"));
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole.into())
}

/// The body of a request to a function or of its response: a stream of data and trailers.
pub struct Body(UnsyncBoxBody<Bytes, Error>);

impl Body {
    /// No bytes at all.
    pub fn empty() -> Self {
        Self(Empty::new().map_err(|never| match never {}).boxed_unsync())
    }

    /// Wraps another body. Its errors become [`ErrorKind::Interrupted`](crate::ErrorKind::Interrupted),
    /// save for those that are an [`Error`] already.
    pub fn wrap<B>(body: B) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        Self(
            body.map_err(|cause| match cause.into().downcast::<Error>() {
                Ok(error) => *error,
                Err(cause) => Error::new(crate::ErrorKind::Interrupted, "the body broke off")
                    .with_source(cause),
            })
            .boxed_unsync(),
        )
    }

    /// A body from a stream of chunks.
    pub fn from_stream(stream: impl Stream<Item = Result<Bytes>> + Send + 'static) -> Self {
        Self(StreamBody::new(stream.map(|chunk| chunk.map(Frame::data))).boxed_unsync())
    }

    /// Reads the whole body, at most `limit` bytes of it. Trailers are dropped.
    ///
    /// # Errors
    /// What the body says, or [`ErrorKind::LimitExceeded`](crate::ErrorKind::LimitExceeded) naming
    /// `body_bytes`.
    pub async fn bytes(self, limit: usize) -> Result<Bytes> {
        collect_bytes(self.0.into_data_stream(), "body_bytes", limit).await
    }

    /// The data of the body as a stream. Trailers are dropped.
    pub fn into_stream(self) -> ByteStream {
        self.0.into_data_stream().boxed()
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::empty()
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Body")
            .field(&http_body::Body::size_hint(&self.0))
            .finish()
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self(
            Full::new(bytes)
                .map_err(|never| match never {})
                .boxed_unsync(),
        )
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Bytes::from(text).into()
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Bytes::from_static(text.as_bytes()).into()
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>>>> {
        Pin::new(&mut self.0).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}
