//! The body of an answer.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::{Sleep, sleep_until};

use crate::call::{Ended, Exchange, died};
use crate::error::CallError;

/// The body of a handler's answer: whole, or a stream.
///
/// Dropping a stream before its end tells the handler that the client has left, and frees the
/// call's slot as soon as the handler lets go of it.
#[derive(Debug)]
pub struct Body(Kind);

#[derive(Debug)]
enum Kind {
    Full(Option<Bytes>),
    Stream(Box<Streaming>),
}

impl Body {
    /// A body that is whole already.
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self(Kind::Full((!bytes.is_empty()).then_some(bytes)))
    }

    /// A body without bytes.
    pub fn empty() -> Self {
        Self(Kind::Full(None))
    }

    pub(crate) fn stream(streaming: Streaming) -> Self {
        Self(Kind::Stream(Box::new(streaming)))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = CallError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CallError>>> {
        match &mut self.0 {
            Kind::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Stream(streaming) => streaming
                .poll(cx)
                .map(|data| data.map(|data| data.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Full(bytes) => bytes.is_none(),
            Kind::Stream(streaming) => matches!(streaming.state, State::Over),
        }
    }

    fn size_hint(&self) -> SizeHint {
        let exact = match &self.0 {
            Kind::Full(bytes) => Some(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Kind::Stream(streaming) => streaming.left,
        };
        exact.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// An answer that is still being sent.
pub(crate) struct Streaming {
    state: State,
    first: Bytes,
    /// Bytes that are still to come, where that is known.
    left: Option<u64>,
}

enum State {
    Open {
        exchange: Exchange,
        deadline: Pin<Box<Sleep>>,
    },
    /// The worker has ended; how is found out.
    Dying(Pin<Box<dyn Future<Output = CallError> + Send + Sync>>),
    Over,
}

impl Streaming {
    pub(crate) fn new(exchange: Exchange, first: Bytes, length: Option<u64>) -> Self {
        let deadline = Box::pin(sleep_until(exchange.deadline()));
        Self {
            state: State::Open { exchange, deadline },
            first,
            left: length,
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, CallError>>> {
        if !self.first.is_empty() {
            let first = std::mem::take(&mut self.first);
            return Poll::Ready(Some(Ok(self.count(first))));
        }
        loop {
            let result = match &mut self.state {
                State::Over => return Poll::Ready(None),
                State::Dying(error) => Some(Err(ready!(error.as_mut().poll(cx)))),
                State::Open { exchange, deadline } => match exchange.poll_data(cx) {
                    Poll::Ready(None) => None,
                    Poll::Ready(Some(Ok(data))) => return Poll::Ready(Some(Ok(self.count(data)))),
                    Poll::Ready(Some(Err(Ended::Call(error)))) => Some(Err(error)),
                    Poll::Ready(Some(Err(Ended::Died(worker)))) => {
                        self.state = State::Dying(Box::pin(async move { died(&worker).await }));
                        continue;
                    }
                    Poll::Pending => {
                        ready!(deadline.as_mut().poll(cx));
                        Some(Err(exchange.time_is_over()))
                    }
                },
            };
            // Gives the slot back, or tells the worker that nobody listens any more.
            self.state = State::Over;
            return Poll::Ready(result);
        }
    }

    fn count(&mut self, data: Bytes) -> Bytes {
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(data.len() as u64);
        }
        data
    }
}

impl fmt::Debug for Streaming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streaming")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}
