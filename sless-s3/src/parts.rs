//! Bodies on their way in.

use bytes::{Bytes, BytesMut};
use futures::TryStreamExt as _;
use sha2::{Digest as _, Sha256};
use sless_core::{ByteStream, Digest, Error, Result, Stored};

use crate::S3Limits;

/// Cuts a body into parts of one size, counting and digesting it on the way.
pub(crate) struct Parts {
    body: ByteStream,
    /// What was read beyond the last part.
    rest: Bytes,
    part_bytes: usize,
    object_bytes: u64,
    size: u64,
    hasher: Sha256,
    /// Whether the last part was given out.
    pub(crate) ended: bool,
}

impl Parts {
    pub(crate) fn new(body: ByteStream, limits: &S3Limits) -> Self {
        Self {
            body,
            rest: Bytes::new(),
            part_bytes: limits.part_bytes,
            object_bytes: limits.object_bytes,
            size: 0,
            hasher: Sha256::new(),
            ended: false,
        }
    }

    /// The next part; `ended` is set with the last one, which may be empty. In one piece, since only
    /// then a request can be repeated and its checksum stand in its head.
    pub(crate) async fn next(&mut self) -> Result<Bytes> {
        let mut part = BytesMut::new();
        loop {
            let taken = self.rest.len().min(self.part_bytes - part.len());
            part.extend_from_slice(&self.rest.split_to(taken));
            if part.len() == self.part_bytes {
                return Ok(part.freeze());
            }
            let Some(chunk) = self.body.try_next().await? else {
                self.ended = true;
                return Ok(part.freeze());
            };
            self.size += chunk.len() as u64;
            if self.size > self.object_bytes {
                return Err(Error::limit("object_bytes", self.object_bytes, "bytes"));
            }
            self.hasher.update(&chunk);
            self.rest = chunk;
        }
    }

    pub(crate) fn stored(self) -> Stored {
        Stored {
            size: self.size,
            digest: Digest::from_bytes(self.hasher.finalize().into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt as _, executor::block_on, stream};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_are_of_one_size_and_nothing_is_lost(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8),
            part_bytes in 1..50_usize,
        ) {
            let whole = chunks.concat();
            let body = stream::iter(chunks.into_iter().map(|chunk| Ok(chunk.into()))).boxed();
            let limits = S3Limits { part_bytes, ..S3Limits::default() };
            let mut parts = Parts::new(body, &limits);
            let mut found = Vec::new();
            while !parts.ended {
                let part = block_on(parts.next()).expect("a part");
                prop_assert!(parts.ended || part.len() == part_bytes);
                prop_assert!(part.len() <= part_bytes);
                found.extend_from_slice(&part);
            }
            prop_assert_eq!(&found, &whole);
            let stored = parts.stored();
            prop_assert_eq!(stored.size, whole.len() as u64);
            prop_assert_eq!(stored.digest, Digest::of(&whole));
        }
    }
}
