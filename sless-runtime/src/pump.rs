//! Sends a request's body while its handler runs.

use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use crate::error::CallError;
use crate::slot::Slot;

/// The largest piece that goes into one frame; a larger one of the caller's is divided.
const MAX_PIECE: usize = 1 << 20;

/// A body of any type, without its trailers: a handler has no place for them.
trait Source: Send {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, CallError>>>;
    fn is_end(&self) -> bool;
}

impl<B> Source for Pin<Box<B>>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, CallError>>> {
        loop {
            let frame = match ready!(self.as_mut().poll_frame(cx)) {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => {
                    return Poll::Ready(Some(Err(CallError::BodyRead(error.into()))));
                }
                None => return Poll::Ready(None),
            };
            if let Ok(data) = frame.into_data() {
                return Poll::Ready(Some(Ok(data)));
            }
        }
    }

    fn is_end(&self) -> bool {
        self.is_end_stream()
    }
}

pub(crate) struct Pump {
    source: Box<dyn Source>,
    /// Read and not yet queued.
    ahead: Bytes,
    ended: bool,
    taken: u64,
    limit: u64,
}

impl fmt::Debug for Pump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pump")
            .field("taken", &self.taken)
            .finish_non_exhaustive()
    }
}

impl Pump {
    pub(crate) fn new<B>(body: Pin<Box<B>>, limit: u64) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn StdError + Send + Sync>>,
    {
        Self {
            source: Box::new(body),
            ahead: Bytes::new(),
            ended: false,
            taken: 0,
            limit,
        }
    }

    /// Reads what is there at once, up to `size` bytes, so that a small body travels in the
    /// call's own frame. Never waits.
    pub(crate) fn poll_ahead(
        &mut self,
        cx: &mut Context<'_>,
        size: usize,
    ) -> Result<(), CallError> {
        if self.source.is_end() {
            self.ended = true;
        }
        let mut joined: Option<bytes::BytesMut> = None;
        while !self.ended {
            let so_far = joined
                .as_ref()
                .map_or(self.ahead.len(), bytes::BytesMut::len);
            if so_far >= size {
                break;
            }
            let Poll::Ready(piece) = self.poll_piece(cx) else {
                break;
            };
            let piece = piece?;
            if so_far == 0 {
                self.ahead = piece;
            } else {
                let joined = joined.get_or_insert_with(|| bytes::BytesMut::from(&self.ahead[..]));
                joined.extend_from_slice(&piece);
            }
        }
        if let Some(joined) = joined {
            self.ahead = joined.freeze();
        }
        Ok(())
    }

    /// What was read ahead and fits a frame of this size, and whether it is all.
    pub(crate) fn first(&self, size: usize) -> (&[u8], bool) {
        let piece = &self.ahead[..self.ahead.len().min(size)];
        (piece, self.ended && piece.len() == self.ahead.len())
    }

    /// The first `size` bytes have been queued with the call.
    pub(crate) fn queued_first(&mut self, size: usize) {
        let _ = self.ahead.split_to(size);
    }

    /// The next piece; an empty one at the end.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, CallError>> {
        let piece = match ready!(self.source.poll_data(cx)) {
            Some(piece) => piece?,
            None => {
                self.ended = true;
                return Poll::Ready(Ok(Bytes::new()));
            }
        };
        self.ended = self.source.is_end();
        self.taken += piece.len() as u64;
        if self.taken > self.limit {
            let limit = "max_request_body_bytes";
            return Poll::Ready(Err(CallError::TooLarge {
                limit,
                value: self.limit,
            }));
        }
        Poll::Ready(Ok(piece))
    }

    /// Sends on; ready when the whole body has been written. A worker that has gone is not its
    /// matter: whoever reads the answer sees that.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        slot: &mut Slot,
    ) -> Poll<Result<(), CallError>> {
        loop {
            match ready!(slot.poll_flush(cx)) {
                Ok(()) if !slot.sent_end => {}
                Ok(()) | Err(_) => return Poll::Ready(Ok(())),
            }
            if self.ahead.is_empty() && !self.ended {
                self.ahead = ready!(self.poll_piece(cx))?;
            }
            let piece = self.ahead.split_to(self.ahead.len().min(MAX_PIECE));
            let end = self.ended && self.ahead.is_empty();
            if end || !piece.is_empty() {
                slot.queue_data(piece, end);
            }
        }
    }
}
