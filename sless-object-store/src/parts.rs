//! Bodies on their way in.

use std::collections::VecDeque;

use bytes::Bytes;
use futures::TryStreamExt as _;
use object_store::PutPayload;
use sha2::{Digest as _, Sha256};
use sless_core::{ByteStream, Digest, Error, Result, Stored};

use crate::ObjectStoreOptions;

/// Cuts a body into parts of one size, counting and digesting it on the way.
pub(crate) struct Parts {
    body: ByteStream,
    waiting: VecDeque<Bytes>,
    part_bytes: usize,
    object_bytes: u64,
    size: u64,
    hasher: Sha256,
    /// Whether the last part was given out.
    pub(crate) ended: bool,
}

impl Parts {
    pub(crate) fn new(body: ByteStream, options: &ObjectStoreOptions) -> Self {
        Self {
            body,
            waiting: VecDeque::new(),
            part_bytes: options.part_bytes.max(1),
            object_bytes: options.object_bytes,
            size: 0,
            hasher: Sha256::new(),
            ended: false,
        }
    }

    /// The next part; `ended` is set with the last one, which may be empty.
    pub(crate) async fn next(&mut self) -> Result<PutPayload> {
        let mut held: usize = self.waiting.iter().map(Bytes::len).sum();
        while held < self.part_bytes {
            let Some(chunk) = self.body.try_next().await? else {
                self.ended = true;
                return Ok(self.waiting.drain(..).collect());
            };
            self.size += chunk.len() as u64;
            if self.size > self.object_bytes {
                return Err(Error::limit("object_bytes", self.object_bytes, "bytes"));
            }
            self.hasher.update(&chunk);
            held += chunk.len();
            self.waiting.push_back(chunk);
        }
        let mut part = Vec::new();
        let mut wanted = self.part_bytes;
        while wanted > 0
            && let Some(chunk) = self.waiting.front_mut()
        {
            let piece = chunk.split_to(wanted.min(chunk.len()));
            if chunk.is_empty() {
                self.waiting.pop_front();
            }
            wanted -= piece.len();
            part.push(piece);
        }
        Ok(part.into_iter().collect())
    }

    pub(crate) fn stored(self) -> Stored {
        Stored {
            size: self.size,
            digest: Digest::from_bytes(self.hasher.finalize().into()),
        }
    }
}
