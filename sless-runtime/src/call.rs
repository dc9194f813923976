//! One call: from a request to the head of its answer.

use std::error::Error as StdError;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Request, Response, StatusCode, request};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout_at};

use crate::body::{Body, Streaming};
use crate::error::{CallError, HandlerError};
use crate::frame::{self, BadHead, EventKind, ResponseHead};
use crate::host::{CallContext, LogTail};
use crate::pool::{Lease, Unleased};
use crate::pump::Pump;
use crate::slot::{Broken, Said};
use crate::supervise::Shared;
use crate::worker::Worker;

/// A body up to this size travels in the call's own frame.
const INLINE: usize = 64 * 1024;
/// An answer up to this size is read to its end before it is given, which frees the slot.
const WHOLE: usize = 64 * 1024;

pub(crate) async fn call<B>(
    shared: &Arc<Shared>,
    request: Request<B>,
    context: CallContext,
) -> Result<Response<Body>, CallError>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    let config = &shared.config;
    let time = context
        .timeout
        .map_or(config.timeout, |timeout| timeout.min(config.timeout));
    let deadline = Instant::now() + time;
    let (parts, body) = request.into_parts();
    let limits = &config.limits;
    let length = body.size_hint();
    if length.lower() > limits.max_request_body_bytes {
        let value = limits.max_request_body_bytes;
        return Err(CallError::TooLarge {
            limit: "max_request_body_bytes",
            value,
        });
    }
    let mut pump =
        (!body.is_end_stream()).then(|| Pump::new(Box::pin(body), limits.max_request_body_bytes));
    if head(&parts, &context, length.exact(), 0).head_length() > limits.max_request_head_bytes {
        let value = limits.max_request_head_bytes as u64;
        return Err(CallError::TooLarge {
            limit: "max_request_head_bytes",
            value,
        });
    }

    loop {
        let mut lease = match shared.pool.lease(deadline).await {
            Ok(lease) => lease,
            Err(Unleased::Refused(error)) => return Err(error),
            Err(Unleased::OutOfTime) => return Err(CallError::Timeout { after: time }),
        };
        if let Some(pump) = &mut pump {
            poll_fn(|cx| Poll::Ready(pump.poll_ahead(cx, INLINE))).await?;
        }
        let whole = pump.as_ref().is_none_or(|pump| pump.first(INLINE).1);
        if !begin(
            &mut lease,
            &parts,
            &context,
            length.exact(),
            deadline,
            pump.as_mut(),
        )
        .await
        {
            // The worker has ended unnoticed and saw nothing of this call: the next one gets it.
            lease.lost();
            continue;
        }
        // A body that went along whole stays here, in case the worker dies before it reads it.
        let rest = if whole { None } else { pump.take() };
        let mut exchange = Exchange {
            lease,
            pump: rest,
            time,
            deadline,
            log_tail: context.log_tail.clone(),
        };
        let result = match timeout_at(deadline, exchange.answer()).await {
            Ok(result) => result,
            Err(_) => return Err(exchange.out_of_time()),
        };
        // Of a worker that ended there is nothing to tell but what it wrote before.
        if whole && matches!(result, Err(Stopped::Broken(Broken::Unread))) {
            exchange.lease.lost();
            continue;
        }
        return exchange.finish(result).await;
    }
}

fn head<'a>(
    parts: &'a request::Parts,
    context: &'a CallContext,
    body_length: Option<u64>,
    timeout_ms: u32,
) -> frame::Call<'a> {
    let (event, charset) = match body_length {
        Some(0) => (EventKind::Empty, ""),
        _ => EventKind::of(parts.headers.get(CONTENT_TYPE)),
    };
    frame::Call {
        event,
        request_id: &context.request_id,
        charset,
        method: parts.method.as_str(),
        path: parts.uri.path(),
        query: parts.uri.query().unwrap_or_default(),
        headers: &parts.headers,
        timeout_ms,
        body_length,
    }
}

/// Writes the CALL frame; false when the worker is gone and nothing was written.
async fn begin(
    lease: &mut Lease,
    parts: &request::Parts,
    context: &CallContext,
    body_length: Option<u64>,
    deadline: Instant,
    pump: Option<&mut Pump>,
) -> bool {
    let Some(slot) = lease.slot() else {
        return false;
    };
    let left = deadline
        .saturating_duration_since(Instant::now())
        .as_millis();
    let call = head(
        parts,
        context,
        body_length,
        u32::try_from(left).unwrap_or(u32::MAX),
    );
    let (first, end) = pump
        .as_ref()
        .map_or((&[][..], true), |pump| pump.first(INLINE));
    let log_bytes = context.log_tail.as_ref().map_or(0, |tail| tail.limit);
    slot.queue_call(&call, first, end, log_bytes);
    let size = slot.unsent();
    let wrote = poll_fn(|cx| match slot.poll_flush(cx) {
        Poll::Ready(result) => Poll::Ready(result.is_ok()),
        // The rest is written along with the body.
        Poll::Pending => Poll::Ready(true),
    })
    .await;
    if !wrote && slot.unsent() == size {
        slot.forget_call();
        return false;
    }
    let first = first.len();
    if let Some(pump) = pump
        && !end
    {
        pump.queued_first(first);
    }
    true
}

/// A call whose frame has been written.
#[derive(Debug)]
pub(crate) struct Exchange {
    lease: Lease,
    pump: Option<Pump>,
    time: Duration,
    deadline: Instant,
    /// Where the end of the call's log goes, until it is there.
    log_tail: Option<LogTail>,
}

impl Drop for Exchange {
    /// The caller has left, or the worker.
    fn drop(&mut self) {
        self.tell_log(true);
    }
}

enum Answer {
    Whole {
        head: ResponseHead,
        body: Bytes,
        is_error: bool,
    },
    Stream {
        head: ResponseHead,
        first: Bytes,
        length: Option<u64>,
    },
    Bad(BadHead),
}

impl Exchange {
    /// Waits for the head and, if it is short, for the whole body.
    async fn answer(&mut self) -> Result<Answer, Stopped> {
        let (head, is_error, length) = match self.said().await? {
            Said::Head {
                head: Ok(head),
                is_error,
                length,
            } => (head, is_error, length),
            Said::Head { head: Err(bad), .. } => return Ok(Answer::Bad(bad)),
            Said::Fail(error) => return Err(Stopped::Call(CallError::Handler(error))),
            Said::Data(_) | Said::End => return Err(out_of_order()),
        };
        let Some(length) = length else {
            return Ok(Answer::Stream {
                head,
                first: Bytes::new(),
                length: None,
            });
        };
        if let Some(slot) = self.lease.slot()
            && let Some(body) = slot.take_whole_body()
        {
            return Ok(Answer::Whole {
                head,
                body,
                is_error,
            });
        }
        if length > WHOLE && !is_error {
            let length = Some(length as u64);
            return Ok(Answer::Stream {
                head,
                first: Bytes::new(),
                length,
            });
        }
        let mut body = BytesMut::with_capacity(length.min(WHOLE));
        loop {
            match self.said().await? {
                Said::Data(data) if body.len() + data.len() <= 4 * WHOLE => {
                    body.extend_from_slice(&data);
                }
                Said::Data(data) => {
                    body.extend_from_slice(&data);
                    let (first, length) = (body.freeze(), Some(length as u64));
                    return Ok(Answer::Stream {
                        head,
                        first,
                        length,
                    });
                }
                Said::End => {
                    return Ok(Answer::Whole {
                        head,
                        body: body.freeze(),
                        is_error,
                    });
                }
                Said::Fail(error) => return Err(Stopped::Call(CallError::Handler(error))),
                Said::Head { .. } => return Err(out_of_order()),
            }
        }
    }

    /// Gives the end of the call's log to whoever wants it; `always` where the worker's word is not
    /// there, or not to be had, that there is one.
    fn tell_log(&mut self, always: bool) {
        if let Some(tail) = self.log_tail.take()
            && let Some(slot) = self.lease.slot()
            && (always || slot.answer.logged)
        {
            let text = slot.log_tail();
            if !text.is_empty() {
                // It is empty: nobody else fills it.
                let _ = tail.cell.set(text);
            }
        }
    }

    async fn said(&mut self) -> Result<Said, Stopped> {
        poll_fn(|cx| self.poll_said(cx)).await
    }

    /// What the worker says next; the request's body is sent along.
    fn poll_said(&mut self, cx: &mut std::task::Context<'_>) -> Poll<Result<Said, Stopped>> {
        let Some(slot) = self.lease.slot() else {
            return Poll::Ready(Err(out_of_order()));
        };
        if let Some(pump) = &mut self.pump {
            match pump.poll(cx, slot) {
                Poll::Ready(Ok(())) => self.pump = None,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(Stopped::Call(error))),
                Poll::Pending => {}
            }
        } else if slot.unsent() > 0 {
            // An error shows itself when reading.
            let _ = slot.poll_flush(cx);
        }
        slot.poll_said(cx).map_err(Stopped::Broken)
    }

    async fn finish(
        mut self,
        result: Result<Answer, Stopped>,
    ) -> Result<Response<Body>, CallError> {
        match result {
            Ok(Answer::Whole {
                head,
                body,
                is_error,
            }) => {
                self.tell_log(false);
                Ok(whole(head, body, is_error))
            }
            Ok(Answer::Stream {
                head,
                first,
                length,
            }) => {
                if length.is_some() {
                    // The handler has returned: it is only the answer that is long.
                    self.tell_log(false);
                }
                let body = Body::stream(Streaming::new(self, first, length));
                Ok(respond(head, body))
            }
            Ok(Answer::Bad(BadHead(message))) => {
                let kind = "InvalidResponse".to_owned();
                Ok(error_response(HandlerError { kind, message }))
            }
            Err(stopped) => Err(self.stopped(stopped).await),
        }
    }

    async fn stopped(&mut self, stopped: Stopped) -> CallError {
        let broken = match stopped {
            Stopped::Call(error) => return error,
            Stopped::Broken(broken) => broken,
        };
        match broken {
            Broken::Malformed(error) => {
                self.lease.give_up();
                CallError::Protocol(error.to_string())
            }
            Broken::Closed | Broken::Unread => match self.lost() {
                Some(worker) => died(&worker).await,
                None => CallError::Stopped,
            },
        }
    }

    /// The worker, which has closed the slot.
    fn lost(&mut self) -> Option<Arc<Worker>> {
        let worker = self.lease.slot().map(|slot| Arc::clone(&slot.worker));
        self.tell_log(true);
        self.lease.lost();
        worker
    }

    fn out_of_time(&mut self) -> CallError {
        self.tell_log(true);
        self.lease.give_up();
        CallError::Timeout { after: self.time }
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The next piece of a streamed answer.
    pub(crate) fn poll_data(
        &mut self,
        cx: &mut std::task::Context<'_>,
    ) -> Poll<Option<Result<Bytes, Ended>>> {
        loop {
            return Poll::Ready(match std::task::ready!(self.poll_said(cx)) {
                Ok(Said::Data(data)) if data.is_empty() => continue,
                Ok(Said::Data(data)) => Some(Ok(data)),
                Ok(Said::End) => {
                    self.tell_log(false);
                    None
                }
                Ok(Said::Fail(error)) => {
                    self.tell_log(false);
                    Some(Err(Ended::Call(CallError::Handler(error))))
                }
                Ok(Said::Head { .. }) => {
                    self.lease.give_up();
                    let error = CallError::Protocol("a second head".to_owned());
                    Some(Err(Ended::Call(error)))
                }
                Err(Stopped::Call(error)) => Some(Err(Ended::Call(error))),
                Err(Stopped::Broken(Broken::Malformed(error))) => {
                    self.lease.give_up();
                    Some(Err(Ended::Call(CallError::Protocol(error.to_string()))))
                }
                Err(Stopped::Broken(Broken::Closed | Broken::Unread)) => {
                    Some(Err(match self.lost() {
                        Some(worker) => Ended::Died(worker),
                        None => Ended::Call(CallError::Stopped),
                    }))
                }
            });
        }
    }

    /// The time is over in the middle of a streamed answer. Whoever reads may be too slow, or the answer
    /// endless, so the worker is told to let go, and replaced only if it does not.
    pub(crate) fn time_is_over(&mut self) -> CallError {
        self.tell_log(true);
        self.lease.may_let_go();
        CallError::Timeout { after: self.time }
    }
}

/// Why a streamed answer broke off.
pub(crate) enum Ended {
    Call(CallError),
    /// How it ended is known a moment later.
    Died(Arc<Worker>),
}

/// Why there is no answer.
enum Stopped {
    Call(CallError),
    Broken(Broken),
}

fn out_of_order() -> Stopped {
    Stopped::Broken(Broken::Malformed(frame::Malformed("a frame out of order")))
}

pub(crate) async fn died(worker: &Worker) -> CallError {
    let exit = worker.exit_soon().await;
    CallError::WorkerDied {
        reason: exit.reason,
        message: exit.message,
    }
}

fn respond(head: ResponseHead, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers;
    response
}

fn whole(mut head: ResponseHead, body: Bytes, is_error: bool) -> Response<Body> {
    if !body.is_empty() {
        // The body's own length counts, whatever the handler says.
        head.headers.remove(CONTENT_LENGTH);
    }
    let error = is_error
        .then(|| serde_json::from_slice::<ErrorBody>(&body).ok())
        .flatten();
    let mut response = respond(head, Body::full(body));
    if let Some(ErrorBody { error }) = error {
        response.extensions_mut().insert(error);
    }
    response
}

/// The body of an answer that stands for an error.
#[derive(Debug, Serialize, Deserialize)]
struct ErrorBody {
    error: HandlerError,
}

fn error_response(error: HandlerError) -> Response<Body> {
    let body = ErrorBody { error };
    // Two strings always have a JSON form.
    let json = serde_json::to_vec(&body).unwrap_or_default();
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let head = ResponseHead {
        status: StatusCode::INTERNAL_SERVER_ERROR,
        headers,
    };
    whole(head, Bytes::from(json), true)
}
