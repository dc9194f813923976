//! One event in, one result out.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;

use crate::config::HostConfig;
use crate::error::{CallError, HandlerError, StartError};
use crate::host::{CallContext, Host};
use crate::log::LogSink;

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobOutcome {
    /// The handler returned.
    Succeeded {
        /// What it returned, as it would stand in a response's body.
        result: Bytes,
        /// The result's media type.
        content_type: Option<String>,
    },
    /// The handler raised, returned a status of 400 or above, or what it returned is no result.
    Failed {
        /// The error's type and message. `ResultTooLarge` and `Status` are the host's own types.
        error: HandlerError,
        /// The newest log lines, the trace included.
        log_tail: String,
    },
    /// The time was over.
    TimedOut {
        /// The time that the job had.
        after: Duration,
        /// The newest log lines.
        log_tail: String,
    },
    /// The worker ended before the handler returned.
    Died {
        /// How, for example `killed by signal 9`.
        message: String,
        /// The newest log lines.
        log_tail: String,
    },
    /// The worker did not become ready; the handler did not run.
    NotStarted(StartError),
}

impl JobOutcome {
    /// The exit code of `sless-runtime once`: 0 succeeded, 1 failed, 3 not started, 124 out of
    /// time, 137 died. (2 is a wrong command line.)
    pub fn exit_code(&self) -> u8 {
        match self {
            JobOutcome::Succeeded { .. } => 0,
            JobOutcome::Failed { .. } => 1,
            JobOutcome::NotStarted(_) => 3,
            JobOutcome::TimedOut { .. } => 124,
            JobOutcome::Died { .. } => 137,
        }
    }
}

/// Runs the handler once with `event`, a JSON text, and ends the worker.
///
/// The whole run, the start included, takes at most the start timeout, the call's timeout and the
/// stop grace. Dropping the future kills the worker.
///
/// The request that the handler's context shows is a `POST` to `/` with `content-type:
/// application/json`.
pub async fn run_once(
    config: HostConfig,
    event: Bytes,
    context: CallContext,
    sink: Arc<dyn LogSink>,
) -> JobOutcome {
    let limit = config.limits.max_result_bytes;
    let grace = config.stop_grace;
    let host = match Host::start(config, sink).await {
        Ok(host) => host,
        Err(error) => return JobOutcome::NotStarted(error),
    };
    let outcome = call(&host, event, context, limit).await;
    // What the outcome needs of the log is written before the worker ends.
    host.drain(grace).await;
    outcome.with_tail(host.log_tail())
}

async fn call(host: &Host, event: Bytes, context: CallContext, limit: usize) -> JobOutcome {
    let mut request = http::Request::new(crate::Body::full(event));
    *request.method_mut() = http::Method::POST;
    request.headers_mut().insert(
        CONTENT_TYPE,
        http::HeaderValue::from_static("application/json"),
    );
    let response = match host.call(request, context).await {
        Ok(response) => response,
        Err(error) => return JobOutcome::from_error(error),
    };
    let (parts, body) = response.into_parts();
    let result = match collect(body, limit).await {
        Ok(Some(result)) => result,
        Ok(None) => {
            return JobOutcome::failed(
                "ResultTooLarge",
                format!("the result exceeds the limit max_result_bytes of {limit} bytes"),
            );
        }
        Err(error) => return JobOutcome::from_error(error),
    };
    if let Some(error) = parts.extensions.get::<HandlerError>() {
        return JobOutcome::Failed {
            error: error.clone(),
            log_tail: String::new(),
        };
    }
    if parts.status.as_u16() >= 400 {
        let body = String::from_utf8_lossy(&result);
        return JobOutcome::failed(
            "Status",
            format!("the handler answered {}: {body}", parts.status),
        );
    }
    let content_type = parts
        .headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned);
    JobOutcome::Succeeded {
        result,
        content_type,
    }
}

impl JobOutcome {
    fn failed(kind: &str, message: String) -> Self {
        let error = HandlerError {
            kind: kind.to_owned(),
            message,
        };
        JobOutcome::Failed {
            error,
            log_tail: String::new(),
        }
    }

    fn from_error(error: CallError) -> Self {
        let log_tail = String::new();
        match error {
            CallError::Timeout { after } => JobOutcome::TimedOut { after, log_tail },
            CallError::WorkerDied { message, .. } => JobOutcome::Died { message, log_tail },
            CallError::Handler(error) => JobOutcome::Failed { error, log_tail },
            other => JobOutcome::failed(other.word(), other.to_string()),
        }
    }

    fn with_tail(mut self, tail: String) -> Self {
        match &mut self {
            JobOutcome::Failed { log_tail, .. }
            | JobOutcome::TimedOut { log_tail, .. }
            | JobOutcome::Died { log_tail, .. } => *log_tail = tail,
            JobOutcome::Succeeded { .. } | JobOutcome::NotStarted(_) => {}
        }
        self
    }
}

/// The whole body, or `None` where it is longer than `limit`.
async fn collect(body: crate::Body, limit: usize) -> Result<Option<Bytes>, CallError> {
    use http_body::Body as _;
    let mut whole = bytes::BytesMut::new();
    let mut body = std::pin::pin!(body);
    while let Some(frame) = std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        if whole.len() + data.len() > limit {
            return Ok(None);
        }
        whole.extend_from_slice(&data);
    }
    Ok(Some(whole.freeze()))
}
