//! The one path of every call: from the proxy, from cron, from a queue, from the embedding program.

use std::{sync::Arc, time::Duration};

use super::{
    Engine,
    entry::Entry,
    routes::{Route, Target},
};
use crate::{
    Body, CallContext, CatalogExt as _, Error, ErrorKind, Function, FunctionId, FunctionPhase,
    LogTail, Name, Namespace, Origin, Result, Retry, clock, reason,
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
    /// Who calls, as far as that is known; at most [`Invocation::CALLER_MAX`](crate::Invocation::CALLER_MAX) bytes are kept.
    pub caller: Option<String>,
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
            caller: None,
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

    /// Says who calls, for the record of the call.
    #[must_use]
    pub fn with_caller(mut self, caller: impl Into<String>) -> Self {
        self.caller = Some(caller.into());
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

/// The longest delay between two looks at a function that is not ready.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

impl Engine {
    /// Calls a function and answers as soon as the head of its response is there.
    pub(super) async fn call(&self, call: Call) -> Result<http::Response<Body>> {
        let request_id = call
            .request_id
            .unwrap_or_else(|| self.new_name().as_str().into());
        let (request, request_size) = self.recorder.measure(call.request);
        let entry = Entry {
            request_id: request_id.clone(),
            namespace: call.namespace.clone(),
            function: call.function.clone(),
            origin: call.origin,
            cause: call.cause,
            caller: call.caller,
            attempt: call.attempt,
            started_at: self.backends.clock.now(),
            began: self.backends.clock.elapsed(),
            request_size,
            log_tail: self.recorder.log_tail(),
        };
        let _under_way = self.calls.token();
        let log_tail = entry.log_tail.clone();
        let answered = self
            .answer(
                &call.namespace,
                &call.function,
                request,
                request_id,
                log_tail,
            )
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
        log_tail: LogTail,
    ) -> Result<http::Response<Body>> {
        let route = match self.routes.find(namespace, function) {
            Some(route) => route,
            None => self.find_route(namespace, function).await?,
        };
        let invoker = match &route.target {
            Target::Open(invoker) => invoker,
            Target::Stopped { reason, message } => return Err(off(reason, message)),
        };
        let context = CallContext::new(request_id, route.timeout).with_log_tail(log_tail);
        let invoked = invoker.invoke(request, &context);
        let response = clock::timeout(&*self.backends.clock, route.timeout, invoked).await?;
        match &response {
            Err(error) if error.is_not_found() => self.routes.forget(namespace, function),
            // The scheduler knows it before this route does; why it is off, only the catalog knows.
            Err(error) if error.reason() == reason::SCALED_TO_ZERO => {
                self.routes.forget(namespace, function);
                let found = self.find_route(namespace, function).await;
                if let Ok(Target::Stopped { reason, message }) =
                    found.as_deref().map(|route| &route.target)
                {
                    return Err(off(reason, message));
                }
            }
            _ => {}
        }
        response
    }

    /// Waits until calls of a function have somewhere to go, for at most so long; what stands in their way
    /// then, the call tells. `false` where the process is to end before.
    pub(super) async fn until_callable(
        &self,
        namespace: &Namespace,
        function: &Name,
        limit: Duration,
    ) -> bool {
        let clock = &self.backends.clock;
        let until = clock.elapsed().saturating_add(limit);
        let mut looks = 0;
        while self.routes.find(namespace, function).is_none() {
            match self.find_route(namespace, function).await {
                Err(error) if error.retry() != Retry::Never && clock.elapsed() < until => {
                    looks += 1
                }
                _ => break,
            }
            let delay = super::backoff(self.options.backoff_min, LOOK_AGAIN, looks);
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return false,
                () = clock.sleep(delay) => {}
            }
        }
        true
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

/// The error of a call to a function that is off.
fn off(reason: &str, message: &str) -> Error {
    Error::unavailable(message.to_owned())
        .with_reason(reason.to_owned())
        .with_retry(Retry::Never)
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
            reason::FUNCTION_NOT_READY.to_owned(),
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
