//! Calling.

use std::{
    fmt,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use async_trait::async_trait;
use futures::StreamExt as _;
use http::{Request, Response, StatusCode, header::CONTENT_TYPE};
use sless_core::{
    Body, CallContext, Error, ErrorKind, FunctionId, Invocation, Invoke, LogTail, Result, Retry,
    WorkloadPhase, reason,
};
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, timeout_at},
};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::{BACKEND, Call, Raised, Revision, Shared, gone, lock, log::Log};

pub(crate) struct Invoker {
    pub(crate) shared: Weak<Shared>,
    pub(crate) function: FunctionId,
}

impl fmt::Debug for Invoker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Invoker")
            .field("function", &self.function)
            .finish_non_exhaustive()
    }
}

/// What serves a call, for as long as it lasts.
struct Target {
    revision: Arc<Revision>,
    log: Arc<Log>,
    counted: TaskTrackerToken,
}

impl Invoker {
    fn target(&self) -> Result<Target> {
        let shared = self.shared.upgrade().ok_or_else(|| gone(&self.function))?;
        let entries = lock(&shared.entries);
        let entry = entries
            .get(&self.function)
            .ok_or_else(|| gone(&self.function))?;
        if let Some(revision) = &entry.serving {
            let counted = entry.calls.token();
            return Ok(Target {
                revision: revision.clone(),
                log: entry.log.clone(),
                counted,
            });
        }
        let status = entry.status();
        let (reason, message) = match status.failure {
            Some(failure) => (failure.reason, failure.message),
            None if status.phase == WorkloadPhase::Stopped => (
                reason::SCALED_TO_ZERO.into(),
                "the function is off".to_owned(),
            ),
            None => ("starting".into(), "the function is not up yet".to_owned()),
        };
        Err(Error::unavailable(message).with_reason(reason))
    }
}

/// Takes a place, or waits for one where the queue has room.
async fn place(revision: &Revision) -> Result<OwnedSemaphorePermit> {
    // Neither semaphore is ever closed.
    let closed = |_| Error::internal("a semaphore was closed");
    if let Ok(place) = revision.places.clone().try_acquire_owned() {
        return Ok(place);
    }
    let Ok(_waiting) = revision.queue.try_acquire() else {
        let message = "limit queued_calls reached: too many calls wait for the function";
        return Err(Error::new(ErrorKind::Overloaded, message)
            .with_reason("limit_queued_calls")
            .with_retry(Retry::After(Duration::from_secs(1))));
    };
    revision
        .places
        .clone()
        .acquire_owned()
        .await
        .map_err(closed)
}

#[async_trait]
impl Invoke for Invoker {
    async fn invoke(
        &self,
        request: Request<Body>,
        context: &CallContext,
    ) -> Result<Response<Body>> {
        let call = async {
            let Target {
                revision,
                log,
                counted,
            } = self.target()?;
            let written = Written {
                lines: Arc::default(),
                tail: context.log_tail.clone(),
            };
            let end = Instant::now() + context.timeout.min(revision.workload.timeout);
            let in_time = async {
                let place = place(&revision).await?;
                let id = context.request_id.clone();
                let lines = written.lines.clone();
                let call = Call {
                    request,
                    request_id: id.clone(),
                    env: revision.env.clone(),
                    log: Arc::new(move |source, text| {
                        lines.add(text);
                        log.write(source, Some(&id), text);
                    }),
                };
                let answer = (revision.function)(call).await;
                Ok((answer.unwrap_or_else(raised), place))
            };
            let late = |_| Error::new(ErrorKind::Timeout, "no answer in time");
            let (response, place) = timeout_at(end, in_time).await.map_err(late)??;
            Ok(response.map(|body| held(body, end, (place, counted, written))))
        };
        call.await.map_err(|error: Error| {
            error
                .during("scheduler.invoke")
                .on(&self.function)
                .at(BACKEND)
        })
    }
}

/// What one call has written, as far as anybody may want to read it.
#[derive(Default)]
struct Lines(Mutex<String>);

impl Lines {
    fn add(&self, text: &str) {
        let mut lines = lock(&self.0);
        for line in text.lines() {
            lines.push_str(line);
            lines.push('\n');
        }
        let mut surplus = lines.len().saturating_sub(Invocation::LOG_TAIL_MAX + 1);
        while !lines.is_char_boundary(surplus) {
            surplus += 1;
        }
        lines.drain(..surplus);
    }
}

/// Tells what a call has written when it has ended, in whatever way.
struct Written {
    lines: Arc<Lines>,
    tail: LogTail,
}

impl Drop for Written {
    fn drop(&mut self) {
        self.tail.fill(&lock(&self.lines.0));
    }
}

fn raised((kind, message): Raised) -> Response<Body> {
    let text = serde_json::json!({ "error": { "type": kind, "message": message } }).to_string();
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

/// A body that keeps what its call holds until it ends, and that ends in time.
fn held<T: Send + 'static>(body: Body, end: Instant, holding: T) -> Body {
    let state = Some((body.into_stream(), holding));
    Body::from_stream(futures::stream::unfold(state, move |state| async move {
        let (mut stream, holding) = state?;
        match timeout_at(end, stream.next()).await {
            Ok(Some(Ok(chunk))) => Some((Ok(chunk), Some((stream, holding)))),
            Ok(Some(Err(error))) => Some((Err(error), None)),
            Ok(None) => None,
            Err(_) => Some((
                Err(Error::new(
                    ErrorKind::Timeout,
                    "the response did not end in time",
                )),
                None,
            )),
        }
    }))
}
