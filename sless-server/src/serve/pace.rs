//! Clients that stop in the middle: of a body that they send, or of an answer that they take.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::body::{Body, Bytes};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep};

use super::connection::UnderWay;

/// What a client did wrong with a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is no body as HTTP has them, or broke off.
    Broken,
    /// Nothing more of it came in time.
    Stalled,
}

/// A request's body whose client may be silent for a time and no longer, while somebody reads it.
#[derive(Debug)]
pub(super) struct Sent {
    body: Incoming,
    limit: Duration,
    waits: Option<Pin<Box<Sleep>>>,
    fault: Arc<OnceLock<Fault>>,
}

impl Sent {
    /// `fault` says why the body ended, where that is the client's doing.
    pub(super) const fn new(body: Incoming, limit: Duration, fault: Arc<OnceLock<Fault>>) -> Self {
        Self {
            body,
            limit,
            waits: None,
            fault,
        }
    }
}

impl HttpBody for Sent {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            this.waits = None;
            if let Some(Err(_)) = frame {
                // What was first counts.
                let _ = this.fault.set(Fault::Broken);
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let limit = this.limit;
        let waits = this
            .waits
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        ready!(waits.as_mut().poll(context));
        let _ = this.fault.set(Fault::Stalled);
        Poll::Ready(Some(Err("nothing more of the body came in time".into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

tokio::task_local! {
    /// The pace of the stream of HTTP/2 whose task this is.
    pub(super) static PACE: Arc<Pace>;
}

/// Since when a piece of an answer is there that the client does not take.
///
/// On HTTP/1.1 the socket tells; on HTTP/2 the socket may be fine while a stream's window stays shut.
#[derive(Debug, Default)]
pub(super) struct Pace(Mutex<Option<Instant>>);

impl Pace {
    fn note(&self, since: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    /// Answers once a piece was not taken for so long.
    pub(super) async fn stalled(&self, limit: Duration) {
        loop {
            let since = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match since {
                Some(since) if since.elapsed() >= limit => return,
                Some(since) => tokio::time::sleep_until(since + limit).await,
                None => tokio::time::sleep(limit).await,
            }
        }
    }
}

/// The body of an answer on HTTP/2: its request is under way until it is dropped.
#[derive(Debug)]
pub(super) struct Taken {
    body: Body,
    pace: Option<Arc<Pace>>,
    _under_way: UnderWay,
}

impl Taken {
    /// Belongs to the stream whose task this is called in.
    pub(super) fn new(body: Body, under_way: UnderWay) -> Self {
        Self {
            body,
            pace: PACE.try_with(Arc::clone).ok(),
            _under_way: under_way,
        }
    }
}

impl HttpBody for Taken {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Some(pace) = &self.pace {
            let handed_out = matches!(polled, Poll::Ready(Some(Ok(_))));
            pace.note(handed_out.then(Instant::now));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
