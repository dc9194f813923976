//! The closures that functions are.

use std::{
    any::Any,
    collections::BTreeMap,
    fmt,
    future::Future,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, PoisonError, RwLockReadGuard, RwLockWriteGuard},
    time::Duration,
};

use futures::{FutureExt as _, future::BoxFuture};
use http::{HeaderValue, Response, StatusCode, header::CONTENT_TYPE};

use super::{
    super::{builder::code_of, lock, log::LogRing},
    Shared,
};
use crate::{
    Artifact, Body, Clock, Digest, Invocation, LogSource, LogTail, Workload, log_tail::end_of,
    resource::FunctionId,
};

/// What a handler answers.
pub type HandlerResult = Result<Response<Body>, HandlerError>;

/// What runs a function: a closure behind a pointer.
pub(super) trait Handler: Send + Sync + 'static {
    /// Handles one request.
    fn handle(
        &self,
        request: http::Request<Body>,
        context: HandlerContext,
    ) -> BoxFuture<'static, HandlerResult>;
}

impl<F, Fut> Handler for F
where
    F: Fn(http::Request<Body>, HandlerContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = HandlerResult> + Send + 'static,
{
    fn handle(
        &self,
        request: http::Request<Body>,
        context: HandlerContext,
    ) -> BoxFuture<'static, HandlerResult> {
        self(request, context).boxed()
    }
}

/// What a handler knows beside the request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HandlerContext {
    /// The function.
    pub function: FunctionId,
    /// The artifact that the running revision was made of.
    pub artifact: Artifact,
    /// The function's environment.
    pub env: Arc<BTreeMap<String, String>>,
    /// Names the call in every log.
    pub request_id: Arc<str>,
    /// How long the call may take.
    pub timeout: Duration,
    /// The run that this is, for a job.
    pub run_id: Option<i64>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) log: Arc<LogRing>,
    pub(super) written: Option<Arc<Written>>,
}

/// The end of what one call has written, for whoever records the call.
#[derive(Debug)]
pub(super) struct Written {
    tail: LogTail,
    text: Mutex<String>,
}

impl Written {
    /// `None` where nobody wants to know.
    pub(super) fn of(tail: &LogTail) -> Option<Arc<Self>> {
        let written = || Self {
            tail: tail.clone(),
            text: Mutex::default(),
        };
        tail.is_wanted().then(|| Arc::new(written()))
    }

    fn add(&self, lines: &str) {
        let mut text = lock(&self.text);
        for line in lines.lines() {
            text.push_str(line);
            text.push('\n');
        }
        if text.len() > 4 * Invocation::LOG_TAIL_MAX {
            let end = end_of(&text).to_owned();
            *text = end;
        }
    }

    /// The call is over.
    pub(super) fn give(&self) {
        self.tail.fill(&lock(&self.text));
    }
}

impl HandlerContext {
    /// The digest of the source of the running revision, where a
    /// [`MemoryBuilder`](crate::memory::MemoryBuilder) made its artifact.
    pub fn code(&self) -> Option<Digest> {
        code_of(&self.artifact)
    }

    /// The scheduler's clock: a handler that waits, waits on this.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Writes to the function's standard output.
    pub fn log(&self, text: impl AsRef<str>) {
        self.write(LogSource::Stdout, text.as_ref());
    }

    /// Writes to the function's standard error.
    pub fn log_error(&self, text: impl AsRef<str>) {
        self.write(LogSource::Stderr, text.as_ref());
    }

    fn write(&self, source: LogSource, text: &str) {
        self.log
            .write(self.clock.now(), source, Some(&self.request_id), text);
        if let Some(written) = &self.written {
            written.add(text);
        }
    }
}

/// An error that a handler raises.
///
/// The caller gets a response with status 500 and the body
/// `{"error":{"type":"…","message":"…"}}`, which carries this value among its extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerError {
    /// The name of the error's type, for example `ValueError`.
    pub kind: String,
    /// Its message.
    pub message: String,
}

impl HandlerError {
    /// An error of its two parts.
    pub fn new(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            message: message.into(),
        }
    }

    fn of_panic(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Self::new(
            "Panic",
            text.unwrap_or_else(|| "the handler panicked".to_owned()),
        )
    }

    pub(super) fn into_response(self) -> Response<Body> {
        let error = serde_json::json!({ "error": { "type": self.kind, "message": self.message } });
        let mut response = Response::new(Body::from(error.to_string()));
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        response.extensions_mut().insert(self);
        response
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.message)
    }
}

impl std::error::Error for HandlerError {}

#[derive(Clone, Default)]
pub(super) struct Handlers {
    pub(super) by_function: BTreeMap<String, Arc<dyn Handler>>,
    pub(super) by_entrypoint: BTreeMap<String, Arc<dyn Handler>>,
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers")
            .field("by_function", &self.by_function.keys())
            .field("by_entrypoint", &self.by_entrypoint.keys())
            .finish()
    }
}

impl Shared {
    pub(super) fn handlers(&self) -> RwLockReadGuard<'_, Handlers> {
        self.handlers.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn handlers_mut(&self) -> RwLockWriteGuard<'_, Handlers> {
        self.handlers
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn handler(&self, workload: &Workload) -> Option<Arc<dyn Handler>> {
        let handlers = self.handlers();
        let by_function = handlers.by_function.get(workload.function.name.as_str());
        by_function
            .or_else(|| handlers.by_entrypoint.get(workload.entrypoint.as_str()))
            .cloned()
    }
}

/// Runs a handler. A panic is an error of the handler, and what it raises stands in its log.
pub(super) async fn run(
    handler: &dyn Handler,
    request: http::Request<Body>,
    context: HandlerContext,
) -> HandlerResult {
    let writer = context.clone();
    let called = AssertUnwindSafe(async { handler.handle(request, context).await });
    let answer = called.catch_unwind().await;
    answer
        .unwrap_or_else(|panic| Err(HandlerError::of_panic(&*panic)))
        .inspect_err(|error| writer.log_error(error.to_string()))
}
