//! The body of an answer.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::call::{Ended, Exchange, died};
use crate::error::CallError;

/// The body of a handler's answer: whole, or a stream.
///
/// A stream ends with [`CallError::Timeout`] when the call's time is over, however fast or slowly it
/// is read. Dropping it before its end tells the handler that the client has left, and frees the
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
            Kind::Stream(streaming) => streaming.is_over(),
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
    state: Arc<Mutex<State>>,
    first: Bytes,
    /// Bytes that are still to come, where that is known.
    left: Option<u64>,
    /// Ends the call when its time is over, whether somebody reads or not: who does not read must
    /// not keep the slot.
    clock: JoinHandle<()>,
}

enum State {
    Open {
        exchange: Exchange,
        reader: Option<Waker>,
    },
    /// The worker has ended; how is found out.
    Dying(Pin<Box<dyn Future<Output = CallError> + Send + Sync>>),
    /// The time is over, and nobody has been told yet.
    Late(CallError),
    Over,
}

/// Nobody is interrupted while the state is held.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn end_at(deadline: Instant, state: Arc<Mutex<State>>) {
    sleep_until(deadline).await;
    let mut state = lock(&state);
    let State::Open { exchange, reader } = &mut *state else {
        return;
    };
    let (error, reader) = (exchange.time_is_over(), reader.take());
    // Gives the slot back.
    *state = State::Late(error);
    drop(state);
    if let Some(reader) = reader {
        reader.wake();
    }
}

impl Streaming {
    pub(crate) fn new(exchange: Exchange, first: Bytes, length: Option<u64>) -> Self {
        let deadline = exchange.deadline();
        let reader = None;
        let state = Arc::new(Mutex::new(State::Open { exchange, reader }));
        Self {
            clock: tokio::spawn(end_at(deadline, Arc::clone(&state))),
            state,
            first,
            left: length,
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, CallError>>> {
        if !self.first.is_empty() {
            let first = std::mem::take(&mut self.first);
            return Poll::Ready(Some(Ok(self.count(first))));
        }
        let result = ready!(poll_state(&mut lock(&self.state), cx));
        Poll::Ready(result.map(|data| data.map(|data| self.count(data))))
    }

    fn is_over(&self) -> bool {
        self.first.is_empty() && matches!(*lock(&self.state), State::Over)
    }

    fn count(&mut self, data: Bytes) -> Bytes {
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(data.len() as u64);
        }
        data
    }
}

fn poll_state(state: &mut State, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, CallError>>> {
    loop {
        let result = match state {
            State::Over => return Poll::Ready(None),
            State::Late(_) => match std::mem::replace(state, State::Over) {
                State::Late(error) => Some(Err(error)),
                _ => None,
            },
            State::Dying(error) => Some(Err(ready!(error.as_mut().poll(cx)))),
            State::Open { exchange, reader } => match exchange.poll_data(cx) {
                Poll::Ready(None) => None,
                Poll::Ready(Some(Ok(data))) => return Poll::Ready(Some(Ok(data))),
                Poll::Ready(Some(Err(Ended::Call(error)))) => Some(Err(error)),
                Poll::Ready(Some(Err(Ended::Died(worker)))) => {
                    *state = State::Dying(Box::pin(async move { died(&worker).await }));
                    continue;
                }
                Poll::Pending => {
                    *reader = Some(cx.waker().clone());
                    return Poll::Pending;
                }
            },
        };
        // Gives the slot back, or tells the worker that nobody listens any more.
        *state = State::Over;
        return Poll::Ready(result);
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        self.clock.abort();
        // The clock may still hold the state for a moment; the slot is given back now.
        *lock(&self.state) = State::Over;
    }
}

impl fmt::Debug for Streaming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streaming")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}
