//! The one path of every call: from the proxy, from cron, from a queue, from the embedding program.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use jiff::Timestamp;

use super::{
    Engine,
    record::Recorder,
    routes::{Route, Target},
};
use crate::{
    Body, CallContext, CatalogExt as _, Error, ErrorKind, Function, FunctionId, FunctionPhase,
    Invocation, Name, Namespace, Origin, Result, Retry, Uid, clock, reason,
};

/// One call of a function.
#[derive(Debug)]
#[non_exhaustive]
pub struct Call {
    /// The function's namespace.
    pub namespace: Namespace,
    /// The function's name.
    pub function: Name,
    /// The request.
    pub request: http::Request<Body>,
    /// What causes the call.
    pub origin: Origin,
    /// The trigger that causes the call.
    pub cause: Option<Name>,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// Names the call in every log; a random one where absent.
    pub request_id: Option<Arc<str>>,
}

impl Call {
    /// A first call by the embedding program.
    pub const fn new(namespace: Namespace, function: Name, request: http::Request<Body>) -> Self {
        Self {
            namespace,
            function,
            request,
            origin: Origin::Direct,
            cause: None,
            attempt: 1,
            request_id: None,
        }
    }

    /// Says what causes the call.
    #[must_use]
    pub fn from_origin(mut self, origin: Origin, cause: Option<Name>) -> Self {
        self.origin = origin;
        self.cause = cause;
        self
    }

    /// Says which attempt this is, from 1.
    #[must_use]
    pub const fn with_attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    /// Names the call in every log.
    #[must_use]
    pub fn with_request_id(mut self, request_id: impl Into<Arc<str>>) -> Self {
        self.request_id = Some(request_id.into());
        self
    }
}

impl Engine {
    /// Calls a function and answers as soon as the head of its response is there.
    pub(super) async fn call(&self, call: Call) -> Result<http::Response<Body>> {
        let request_id = call
            .request_id
            .unwrap_or_else(|| Uid::random().as_str().into());
        let entry = Entry {
            request_id: request_id.clone(),
            namespace: call.namespace.clone(),
            function: call.function.clone(),
            origin: call.origin,
            cause: call.cause,
            attempt: call.attempt,
            started_at: self.backends.clock.now(),
            began: self.backends.clock.elapsed(),
        };
        let _under_way = self.calls.token();
        let answered = self
            .answer(&call.namespace, &call.function, call.request, request_id)
            .await;
        match answered {
            Ok(response) if self.recorder.is_idle() => Ok(response),
            Ok(response) => Ok(self.recorder.follow(response, entry)),
            Err(error) => {
                let error = error
                    .during("function.invoke")
                    .on(format_args!("{}/{}", call.namespace, call.function));
                self.recorder
                    .put(entry.failed(&error, self.backends.clock.elapsed()));
                Err(error)
            }
        }
    }

    async fn answer(
        &self,
        namespace: &Namespace,
        function: &Name,
        request: http::Request<Body>,
        request_id: Arc<str>,
    ) -> Result<http::Response<Body>> {
        let route = match self.routes.find(namespace, function) {
            Some(route) => route,
            None => self.find_route(namespace, function).await?,
        };
        let invoker = match &route.target {
            Target::Open(invoker) => invoker,
            Target::Stopped { reason, message } => {
                return Err(Error::unavailable(message.clone())
                    .with_reason(reason.clone())
                    .with_retry(Retry::Never));
            }
        };
        let context = CallContext::new(request_id, route.timeout);
        let invoked = invoker.invoke(request, &context);
        let response = clock::timeout(&*self.backends.clock, route.timeout, invoked).await?;
        if matches!(&response, Err(error) if error.is_not_found()) {
            self.routes.forget(namespace, function);
        }
        response
    }

    /// Reads from catalog and scheduler where the calls of a function go.
    async fn find_route(&self, namespace: &Namespace, function: &Name) -> Result<Arc<Route>> {
        let position = self.routes.position();
        let function: Function = self.backends.catalog.read(namespace, function).await?;
        let id = FunctionId::of(&function.metadata);
        if function.metadata.is_deleting() {
            return Err(Error::not_found(format!("function {id} is being deleted")));
        }
        let target = match stopped(&function) {
            Some((reason, message)) => Target::Stopped { reason, message },
            None => match self.backends.scheduler.invoker(&id).await {
                Ok(invoker) => Target::Open(invoker),
                Err(error) if error.is_not_found() => return Err(not_ready(&function)),
                Err(error) => return Err(error),
            },
        };
        let timeout = Duration::from_secs(function.spec.timeout_seconds.into());
        let route = Arc::new(Route {
            function: id,
            target,
            timeout,
        });
        self.routes.keep(route.clone(), position);
        Ok(route)
    }
}

/// Why a function is off, if it is.
fn stopped(function: &Function) -> Option<(String, String)> {
    if function.spec.replicas() == 0 {
        let message = "the function is stopped: replicas is 0";
        return Some((reason::SCALED_TO_ZERO.to_owned(), message.to_owned()));
    }
    (function.status.phase == FunctionPhase::Stopped).then(|| {
        (
            function.status.reason.clone(),
            function.status.message.clone(),
        )
    })
}

/// The error of a call to a function that has never been ready.
fn not_ready(function: &Function) -> Error {
    let status = &function.status;
    let (reason, retry) = match status.phase {
        FunctionPhase::Failed => (status.reason.clone(), Retry::Never),
        _ if status.reason == reason::NO_CODE => (status.reason.clone(), Retry::Never),
        _ => (
            "function_not_ready".to_owned(),
            Retry::After(Duration::from_secs(1)),
        ),
    };
    let detail = if status.message.is_empty() { "" } else { ": " };
    let message = status.message.lines().next().unwrap_or_default();
    Error::unavailable(format!(
        "the function is not ready, its phase is {}{detail}{message}",
        status.phase.as_str()
    ))
    .with_reason(reason)
    .with_retry(retry)
}

/// A record of a call that has not ended.
#[derive(Debug)]
pub(super) struct Entry {
    request_id: Arc<str>,
    namespace: Namespace,
    function: Name,
    origin: Origin,
    cause: Option<Name>,
    attempt: u32,
    started_at: Timestamp,
    began: Duration,
}

impl Entry {
    fn failed(self, error: &Error, now: Duration) -> Invocation {
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
            attempt: self.attempt,
            started_at: self.started_at,
            duration: now.saturating_sub(self.began),
            status,
            error,
            response_bytes,
        }
    }
}

impl Recorder {
    /// Lets a response through and records the call when its body has ended or was dropped.
    fn follow(&self, response: http::Response<Body>, entry: Entry) -> http::Response<Body> {
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
        self.close(left);
    }
}

impl ErrorKind {
    /// The status code that stands for this kind in HTTP (RFC 9110, section 15; 429 is RFC 6585).
    pub const fn status(self) -> http::StatusCode {
        use http::StatusCode;
        match self {
            Self::Invalid => StatusCode::BAD_REQUEST,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::PermissionDenied => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::AlreadyExists | Self::Conflict => StatusCode::CONFLICT,
            Self::Expired => StatusCode::GONE,
            Self::LimitExceeded => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Overloaded => StatusCode::TOO_MANY_REQUESTS,
            Self::Unsupported => StatusCode::NOT_IMPLEMENTED,
            Self::Interrupted => StatusCode::BAD_GATEWAY,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Timeout => StatusCode::GATEWAY_TIMEOUT,
            Self::Corrupt | Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}
