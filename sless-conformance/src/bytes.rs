//! Bodies to store and send.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use sha2::{Digest as _, Sha256};
use sless_core::{ByteStream, Digest, Error, ErrorKind};

/// Bytes without a short period, the same for the same seed.
pub(crate) fn pattern(length: usize, seed: u64) -> Bytes {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes.into()
}

/// A body in chunks of this size. Others get a turn between them, as they do while a body comes over
/// a network.
pub(crate) fn chunked(bytes: &Bytes, chunk: usize) -> ByteStream {
    let bytes = bytes.clone();
    let starts = (0..bytes.len()).step_by(chunk.max(1));
    futures::stream::iter(starts)
        .then(move |at| {
            let part = bytes.slice(at..(at + chunk).min(bytes.len()));
            async move {
                tokio::task::yield_now().await;
                Ok(part)
            }
        })
        .boxed()
}

/// A body that gives these chunks and then fails.
pub(crate) fn failing(bytes: &Bytes, chunk: usize) -> ByteStream {
    let failure = Error::new(
        ErrorKind::Interrupted,
        "the body of this test breaks off here",
    );
    chunked(bytes, chunk)
        .chain(futures::stream::iter([Err(failure)]))
        .boxed()
}

/// A body that gives these chunks and then neither ends nor goes on. The receiver hears when the
/// chunks are taken.
pub(crate) fn stuck(
    bytes: &Bytes,
    chunk: usize,
) -> (ByteStream, tokio::sync::oneshot::Receiver<()>) {
    let (taken, all_taken) = tokio::sync::oneshot::channel();
    let end = futures::stream::once(async move {
        // Nobody may be listening any more.
        let _ = taken.send(());
        std::future::pending().await
    });
    (chunked(bytes, chunk).chain(end).boxed(), all_taken)
}

/// A long body that is made while it is read, and how much of it was alive at once.
pub(crate) struct Made {
    alive: Arc<AtomicU64>,
    peak: Arc<AtomicU64>,
}

/// A chunk that counts as long as it is kept.
struct Counted {
    bytes: Vec<u8>,
    alive: Arc<AtomicU64>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.alive
            .fetch_sub(self.bytes.len() as u64, Ordering::Relaxed);
    }
}

impl Made {
    /// `count` chunks of `chunk` bytes, with their digest.
    pub(crate) fn new(count: u64, chunk: usize) -> (Self, ByteStream, Digest) {
        let mut hash = Sha256::new();
        for seed in 0..count {
            hash.update(pattern(chunk, seed));
        }
        let made = Self {
            alive: Arc::default(),
            peak: Arc::default(),
        };
        let (alive, peak) = (made.alive.clone(), made.peak.clone());
        let chunks = (0..count).map(move |seed| {
            let bytes = pattern(chunk, seed).to_vec();
            let now = alive.fetch_add(chunk as u64, Ordering::Relaxed) + chunk as u64;
            peak.fetch_max(now, Ordering::Relaxed);
            Ok(Bytes::from_owner(Counted {
                bytes,
                alive: alive.clone(),
            }))
        });
        (
            made,
            futures::stream::iter(chunks).boxed(),
            Digest::from_bytes(hash.finalize().into()),
        )
    }

    /// The most bytes that were alive at once.
    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }
}

/// What a body was, when it was read in pieces.
pub(crate) struct Measured {
    pub(crate) digest: Digest,
    pub(crate) bytes: u64,
    pub(crate) largest_chunk: usize,
}

/// Reads a body without keeping it.
pub(crate) async fn measure(
    mut body: impl Stream<Item = sless_core::Result<Bytes>> + Unpin,
) -> sless_core::Result<Measured> {
    let mut hash = Sha256::new();
    let (mut bytes, mut largest_chunk) = (0, 0);
    while let Some(chunk) = body.next().await {
        let chunk = chunk?;
        hash.update(&chunk);
        bytes += chunk.len() as u64;
        largest_chunk = largest_chunk.max(chunk.len());
    }
    Ok(Measured {
        digest: Digest::from_bytes(hash.finalize().into()),
        bytes,
        largest_chunk,
    })
}
