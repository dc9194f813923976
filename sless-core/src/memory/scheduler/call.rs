//! One call of a function.

use std::{
    fmt,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::{Body as _, Frame, SizeHint};

use super::{
    super::{BACKEND, lock},
    Shared,
    gate::{NoPlace, Place},
    handler::{self, HandlerContext, HandlerError, Written},
    workload::{Revision, Target},
};
use crate::{
    Body, CallContext, Error, ErrorKind, Invoke, Result, Retry, clock::timeout,
    resource::FunctionId,
};

/// Calls one function, for as long as it and its scheduler are there.
#[derive(Debug)]
pub(super) struct MemoryInvoker {
    pub(super) shared: Weak<Shared>,
    pub(super) function: FunctionId,
}

pub(super) fn removed(function: &FunctionId) -> Error {
    Error::not_found(format!("function {function} is not there"))
        .on(function)
        .at(BACKEND)
}

#[async_trait]
impl Invoke for MemoryInvoker {
    async fn invoke(
        &self,
        request: Request<Body>,
        context: &CallContext,
    ) -> Result<Response<Body>> {
        let call = async {
            let shared = self.shared.upgrade().ok_or_else(shut_down)?;
            // Time runs from here, waiting and waking included.
            let deadline = shared.clock.elapsed().saturating_add(context.timeout);
            let work = self.call(&shared, request, context, deadline);
            timeout(&*shared.clock, context.timeout, work).await?
        };
        call.await.map_err(|error: Error| {
            error
                .during("scheduler.invoke")
                .on(&self.function)
                .at(BACKEND)
        })
    }
}

fn shut_down() -> Error {
    Error::unavailable("the scheduler is shut down").with_reason("shut_down")
}

impl MemoryInvoker {
    async fn call(
        &self,
        shared: &Arc<Shared>,
        request: Request<Body>,
        context: &CallContext,
        deadline: Duration,
    ) -> Result<Response<Body>> {
        let revision = self.revision(shared)?;
        let wake = revision.wake(shared);
        if !wake.is_zero() {
            shared.clock.sleep(wake).await;
        }
        let place = self.enter(shared, &revision).await?;
        let left = deadline.saturating_sub(shared.clock.elapsed());
        let limit = left.min(revision.workload.timeout);
        let end = shared.clock.elapsed().saturating_add(limit);
        let used = Used {
            shared: Arc::clone(shared),
            revision: Arc::clone(&revision),
            written: Written::of(&context.log_tail),
            _place: place,
        };
        let handler_context = HandlerContext {
            function: self.function.clone(),
            artifact: revision.workload.artifact.clone(),
            env: Arc::clone(&revision.env),
            request_id: Arc::clone(&context.request_id),
            timeout: limit,
            run_id: None,
            clock: Arc::clone(&shared.clock),
            log: Arc::clone(&revision.log),
            written: used.written.clone(),
        };
        let run = handler::run(&*revision.handler, request, handler_context);
        let run = revision.cut.run_until_cancelled(run);
        let answer = timeout(&*shared.clock, limit, run)
            .await?
            .ok_or_else(cut_off)?;
        Ok(guarded(
            answer.unwrap_or_else(HandlerError::into_response),
            used,
            end,
        ))
    }

    /// What serves now.
    fn revision(&self, shared: &Shared) -> Result<Arc<Revision>> {
        let functions = lock(&shared.functions);
        let entry = functions
            .get(&self.function)
            .ok_or_else(|| removed(&self.function))?;
        match entry.target() {
            Target::Revision(revision) => Ok(revision),
            Target::None(failure) => {
                Err(Error::unavailable(failure.message).with_reason(failure.reason))
            }
        }
    }

    async fn enter(&self, shared: &Shared, revision: &Revision) -> Result<Place> {
        let queue = shared.config.queued_calls;
        match revision.gate.enter(queue).await {
            Ok(place) => Ok(place),
            Err(NoPlace::Full) => Err(Error::new(
                ErrorKind::Overloaded,
                format!("limit queued_calls of {queue} calls reached"),
            )
            .with_reason("limit_queued_calls")
            .with_retry(Retry::After(shared.config.retry_after))),
            // It went off or away in between; what is there now says why.
            Err(NoPlace::Closed) => match self.revision(shared) {
                Err(error) => Err(error),
                Ok(_) => Err(cut_off()),
            },
        }
    }
}

fn cut_off() -> Error {
    Error::new(
        ErrorKind::Interrupted,
        "the function was ended during the call",
    )
}

/// Held while a call runs, until the body of its response has ended.
struct Used {
    shared: Arc<Shared>,
    revision: Arc<Revision>,
    written: Option<Arc<Written>>,
    _place: Place,
}

impl Drop for Used {
    fn drop(&mut self) {
        if let Some(written) = &self.written {
            written.give();
        }
        self.revision.used(&self.shared);
    }
}

/// Wraps the body so that the call's place is taken until it ends, and it ends in time.
fn guarded(response: Response<Body>, used: Used, end: Duration) -> Response<Body> {
    response.map(|inner| {
        if inner.is_end_stream() {
            return inner;
        }
        let (clock, cut) = (Arc::clone(&used.shared.clock), used.revision.cut.clone());
        let over = async move {
            tokio::select! {
                biased;
                () = cut.cancelled() => cut_off(),
                () = clock.sleep(end.saturating_sub(clock.elapsed())) => {
                    Error::new(ErrorKind::Timeout, "the response did not end in time")
                }
            }
        };
        Body::wrap(Guarded {
            inner,
            over: Some(Box::pin(over)),
            used: Some(used),
        })
    })
}

struct Guarded {
    inner: Body,
    /// Why the body ends early, when it does; `None` once it has ended.
    over: Option<BoxFuture<'static, Error>>,
    used: Option<Used>,
}

impl fmt::Debug for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Guarded").field(&self.inner).finish()
    }
}

impl http_body::Body for Guarded {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>>>> {
        let Some(over) = &mut self.over else {
            return Poll::Ready(None);
        };
        let frame = match over.as_mut().poll(cx) {
            Poll::Ready(error) => Some(Err(error)),
            Poll::Pending => match Pin::new(&mut self.inner).poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(frame) => frame,
            },
        };
        if !matches!(frame, Some(Ok(_))) {
            self.over = None;
            self.used = None;
            self.inner = Body::empty();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.over.is_none() || self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
