//! Bodies: bytes, files and streams.

use std::{io, path::Path};

use futures::{Stream, TryStreamExt, stream::BoxStream};
use tokio_util::io::ReaderStream;

pub use bytes::Bytes;

use super::{ClientError, Result};

/// A body that arrives piece by piece.
pub type ByteStream = BoxStream<'static, Result<Bytes>>;

/// What is sent as a body.
pub struct Content {
    pub(super) body: reqwest::Body,
    pub(super) length: Option<u64>,
}

impl Content {
    /// A body that is in memory.
    pub fn bytes(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self {
            length: Some(bytes.len() as u64),
            body: bytes.into(),
        }
    }

    /// A file, read while it is sent.
    ///
    /// # Errors
    /// [`ClientError::File`] where the file cannot be opened.
    pub async fn file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let open = async {
            let file = tokio::fs::File::open(path).await?;
            let length = file.metadata().await?.len();
            io::Result::Ok((file, length))
        };
        let (file, length) = open.await.map_err(|source| ClientError::File {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            body: reqwest::Body::wrap_stream(ReaderStream::with_capacity(file, 64 << 10)),
            length: Some(length),
        })
    }

    /// Says how long the body is, where that is known of a stream: it is sent with that length then,
    /// which lets a server refuse it before a byte of it is read.
    #[must_use]
    pub fn with_length(mut self, length: u64) -> Self {
        self.length = Some(length);
        self
    }

    /// A stream of unknown length, sent in chunks.
    pub fn stream(stream: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Self {
        Self {
            body: reqwest::Body::wrap_stream(stream.into_stream()),
            length: None,
        }
    }
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Content")
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}
