//! What the runtime in a pod answers, as what a caller is told.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Response, header::RETRY_AFTER};
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use sless_core::{Body, Error, ErrorKind, LogTail, Retry};
use tokio::time::{Instant, Sleep};

use super::endpoint::{Hold, Sender};
use crate::{SchedulerConfig, error::BACKEND};

/// On every answer that the handler did not choose.
const ERROR: HeaderName = HeaderName::from_static("x-sless-error");
/// The longest such answer, in bytes.
const REFUSAL_BYTES: usize = 64 << 10;

/// The answer, or the error that the runtime tells with it. What is told of the call's log goes to
/// `tail`.
pub(super) async fn read(
    response: Response<Incoming>,
    held: Held,
    tail: &LogTail,
) -> Result<Response<Body>, Error> {
    let told = |name: &HeaderName| {
        let value = response.headers().get(name)?;
        value.to_str().ok().map(str::to_owned)
    };
    let (word, retry) = (told(&ERROR), told(&RETRY_AFTER));
    let response = response.map(|body| Body::wrap(Reader::new(body, held)));
    let (mut parts, body) = tail.take_from(response).into_parts();
    remove_internal(&mut parts.headers);
    match word {
        Some(word) if word != "handler_error" => {
            let seconds = retry.and_then(|seconds| seconds.parse().ok());
            // What the runtime says beyond the limit is no message for people.
            let text = body.bytes(REFUSAL_BYTES).await.unwrap_or_default();
            Err(refusal(&word, &text, seconds.map(Duration::from_secs)))
        }
        _ => Ok(Response::from_parts(parts, body)),
    }
}

/// Fields that are the platform's own.
pub(super) fn remove_internal(headers: &mut HeaderMap) {
    let internal = |name: &&HeaderName| name.as_str().starts_with("x-sless-");
    let names: Vec<HeaderName> = headers.keys().filter(internal).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

fn refusal(word: &str, body: &[u8], retry: Option<Duration>) -> Error {
    let said: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let said = said.as_ref().and_then(|said| said["error"].as_str());
    let message = said.unwrap_or("the runtime refused the call").to_owned();
    let retry = retry.map_or(Retry::Transient, Retry::After);
    let error = match word {
        "overloaded" => Error::new(ErrorKind::Overloaded, message)
            .with_reason("limit_queue_length")
            .with_retry(retry),
        "timeout" => Error::new(ErrorKind::Timeout, message),
        "not_ready" | "crash_loop" | "starting" | "stopped" => Error::unavailable(message)
            .with_reason(word.to_owned())
            .with_retry(retry),
        "too_large" => {
            Error::new(ErrorKind::LimitExceeded, message).with_reason("limit_request_bytes")
        }
        word => Error::new(ErrorKind::Interrupted, message).with_reason(word.to_owned()),
    };
    error.at(BACKEND)
}

/// What a call holds until its answer is read: a connection, its counts, its time.
pub(super) struct Held {
    pub(super) sender: Option<Sender>,
    pub(super) hold: Hold,
    pub(super) _counted: Counted,
    pub(super) config: Arc<SchedulerConfig>,
    pub(super) deadline: Instant,
}

/// A count that is taken back.
pub(super) struct Counted(Arc<AtomicUsize>);

impl Counted {
    pub(super) fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A body that ends at its deadline, and gives its connection back when it is read.
struct Reader {
    body: Incoming,
    held: Held,
    time: Pin<Box<Sleep>>,
}

impl Reader {
    fn new(body: Incoming, held: Held) -> Self {
        let time = Box::pin(tokio::time::sleep_until(held.deadline));
        Self { body, held, time }
    }

    fn give_back(&mut self) {
        if let Some(sender) = self.held.sender.take() {
            self.held.hold.0.keep(&self.held.config, sender);
        }
    }

    fn broken(&self, source: hyper::Error) -> Error {
        if Instant::now() >= self.held.deadline {
            return late();
        }
        Error::new(ErrorKind::Interrupted, "the response broke off")
            .at(BACKEND)
            .with_source(source)
    }
}

/// The call took longer than it may.
pub(super) fn late() -> Error {
    Error::new(ErrorKind::Timeout, "no answer within the call's time").at(BACKEND)
}

impl http_body::Body for Reader {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(None) => {
                self.give_back();
                Poll::Ready(None)
            }
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(Some(Ok(frame))),
            Poll::Ready(Some(Err(source))) => Poll::Ready(Some(Err(self.broken(source)))),
            Poll::Pending => match self.time.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(Some(Err(late()))),
                Poll::Pending => Poll::Pending,
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // Whoever sees that this is the end does not ask again.
        if self.body.is_end_stream() {
            self.give_back();
        }
    }
}
