//! The way of a call to a worker.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use async_trait::async_trait;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use sless_core::{Body, CallContext, Error, ErrorKind, Invocation, Invoke, Result, Retry, reason};
use sless_runtime::CallError;

use super::{
    Inner,
    crew::Hold,
    not_found,
    runner::{Asleep, Runner},
};
use crate::error::BACKEND;

/// Calls one function, whichever revision serves and whether it sleeps or not.
#[derive(Debug)]
pub(super) struct LocalInvoker {
    inner: Arc<Inner>,
    runner: Arc<Runner>,
}

impl LocalInvoker {
    pub(super) const fn new(inner: Arc<Inner>, runner: Arc<Runner>) -> Self {
        Self { inner, runner }
    }

    fn asleep(&self, why: Asleep) -> Error {
        match why {
            Asleep::Gone => not_found(&self.runner.function),
            Asleep::Off => Error::unavailable("the function is stopped: no copies are wanted")
                .with_reason(reason::SCALED_TO_ZERO)
                .with_retry(Retry::Never)
                .at(BACKEND),
            Asleep::Failed(failure) => Error::unavailable(format!(
                "the function cannot be started: {}",
                failure.message
            ))
            .with_reason(failure.reason)
            .at(BACKEND),
        }
    }
}

#[async_trait]
impl Invoke for LocalInvoker {
    async fn invoke(
        &self,
        request: http::Request<Body>,
        context: &CallContext,
    ) -> Result<http::Response<Body>> {
        let began = tokio::time::Instant::now();
        let woken = tokio::time::timeout(context.timeout, self.runner.wake(&self.inner)).await;
        let hold = woken
            .map_err(|_| {
                Error::new(ErrorKind::Timeout, "the function was not up in time")
                    .with_reason(reason::START_TIMEOUT)
                    .at(BACKEND)
            })?
            .map_err(|why| self.asleep(why))?;
        // A crew that is held has a worker until it ends.
        let host = hold
            .crew()
            .pick(&self.inner, self.runner.wanted())
            .ok_or_else(|| Error::unavailable("the function is being stopped").at(BACKEND))?;
        let left = context.timeout.saturating_sub(began.elapsed());
        let mut call =
            sless_runtime::CallContext::new(context.request_id.as_ref()).with_timeout(left);
        if let Some(cell) = context.log_tail.cell() {
            call = call.with_log_tail(Arc::clone(cell), Invocation::LOG_TAIL_MAX);
        }
        let response = host.call(request, call).await.map_err(call_error)?;
        Ok(response.map(|body| Body::wrap(Held { body, _hold: hold })))
    }
}

/// A body that keeps its worker from being ended until it is read or dropped.
struct Held {
    body: sless_runtime::Body,
    _hold: Hold,
}

impl http_body::Body for Held {
    type Data = Bytes;
    type Error = <sless_runtime::Body as http_body::Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn call_error(error: CallError) -> Error {
    let message = error.to_string();
    let mapped = match &error {
        CallError::Overloaded {
            limit, retry_after, ..
        } => Error::new(ErrorKind::Overloaded, message)
            .with_reason(format!("limit_{limit}"))
            .with_retry(Retry::After(*retry_after)),
        CallError::Timeout { .. } => Error::new(ErrorKind::Timeout, message),
        CallError::WorkerDied { reason, .. } => {
            Error::new(ErrorKind::Interrupted, message).with_reason(reason.word())
        }
        CallError::NotReady {
            reason,
            retry_after,
            ..
        } => Error::unavailable(message)
            .with_reason(reason.word())
            .with_retry(Retry::After(*retry_after)),
        CallError::Stopped => Error::unavailable(message),
        _ => Error::new(ErrorKind::Interrupted, message),
    };
    mapped.at(BACKEND).with_source(error)
}
