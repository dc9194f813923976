//! The record of a call, from its begin to the end of its response.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use jiff::Timestamp;

use super::record::Recorder;
use crate::{Body, Error, Invocation, LogTail, Name, Namespace, Origin, Result, Uid};

/// A record of a call that has not ended.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) request_id: Arc<str>,
    pub(super) namespace: Namespace,
    pub(super) function: Name,
    pub(super) origin: Origin,
    pub(super) cause: Option<Name>,
    pub(super) caller: Option<String>,
    pub(super) attempt: u32,
    pub(super) started_at: Timestamp,
    pub(super) began: Duration,
    pub(super) request_size: RequestSize,
    pub(super) log_tail: LogTail,
}

/// How long a request's body is.
#[derive(Debug)]
pub(super) enum RequestSize {
    /// Known from its head.
    Known(u64),
    /// Counted as it is read.
    Counted(Arc<AtomicU64>),
}

impl Entry {
    pub(super) fn failed(self, error: &Error, now: Duration) -> Invocation {
        let word = error.reason().to_owned();
        self.ended(error.kind().status().as_u16(), Some(word), 0, now)
    }

    fn ended(
        self,
        status: u16,
        error: Option<String>,
        response_bytes: u64,
        now: Duration,
    ) -> Invocation {
        Invocation {
            id: Uid::random(),
            request_id: self.request_id.as_ref().to_owned(),
            namespace: self.namespace,
            function: self.function,
            origin: self.origin,
            cause: self.cause,
            caller: self.caller.map(cut_caller),
            attempt: self.attempt,
            started_at: self.started_at,
            duration: now.saturating_sub(self.began),
            status,
            error,
            request_bytes: match &self.request_size {
                RequestSize::Known(bytes) => *bytes,
                RequestSize::Counted(bytes) => bytes.load(Ordering::Relaxed),
            },
            response_bytes,
            log_tail: self.log_tail.text().map(str::to_owned),
        }
    }
}

fn cut_caller(mut caller: String) -> String {
    let mut end = caller.len().min(Invocation::CALLER_MAX);
    while !caller.is_char_boundary(end) {
        end -= 1;
    }
    caller.truncate(end);
    caller
}

impl Recorder {
    /// How long a request is. Only a body whose length its head does not tell is counted.
    pub(super) fn measure(
        &self,
        request: http::Request<Body>,
    ) -> (http::Request<Body>, RequestSize) {
        let known = request.body().size_hint().exact();
        if let Some(bytes) = known.or(self.is_idle().then_some(0)) {
            return (request, RequestSize::Known(bytes));
        }
        let bytes = Arc::new(AtomicU64::new(0));
        let counted = RequestSize::Counted(bytes.clone());
        let request = request.map(|body| Body::wrap(Counted { body, bytes }));
        (request, counted)
    }

    /// Lets a response through and records the call when its body has ended or was dropped.
    pub(super) fn follow(
        &self,
        response: http::Response<Body>,
        entry: Entry,
    ) -> http::Response<Body> {
        let (head, body) = response.into_parts();
        let followed = Followed {
            body,
            open: Some(Open {
                recorder: self.clone(),
                entry,
                status: head.status.as_u16(),
            }),
            bytes: 0,
        };
        http::Response::from_parts(head, Body::wrap(followed))
    }
}

/// A request's body that counts what is read of it.
struct Counted {
    body: Body,
    bytes: Arc<AtomicU64>,
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            self.bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A response's body, and the record that is made at its end.
struct Followed {
    body: Body,
    open: Option<Open>,
    bytes: u64,
}

struct Open {
    recorder: Recorder,
    entry: Entry,
    status: u16,
}

impl Followed {
    fn close(&mut self, error: Option<&str>) {
        let Some(Open {
            recorder,
            entry,
            status,
        }) = self.open.take()
        else {
            return;
        };
        let now = recorder.elapsed();
        recorder.put(entry.ended(status, error.map(str::to_owned), self.bytes, now));
    }
}

impl http_body::Body for Followed {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                self.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
            }
            Some(Err(error)) => {
                let word = error.reason().to_owned();
                self.close(Some(&word));
            }
            None => self.close(None),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        let left = (!self.body.is_end_stream()).then_some("caller_left");
        // Its end is what tells the backend that the call is over, and what it has written by then.
        drop(std::mem::take(&mut self.body));
        self.close(left);
    }
}
