//! `sless-runtime serve`: HTTP/1.1 in front of a host.
//!
//! Fields that start with `x-sless-` are the platform's own; they are taken off a request before
//! the handler sees it, and off an answer that the handler made. Those that say which event a call is
//! for reach the handler, unless the request came from outside, through an Ingress.
//!
//! | field | in | means |
//! |---|---|---|
//! | `x-sless-request-id` | request | names the call in context and log; else `x-request-id`, else a new one |
//! | `x-sless-timeout-ms` | request | the call's time, when it is shorter than the configured one |
//! | `x-sless-log-tail` | request | asks for the end of the call's log, at most so many bytes |
//! | `x-sless-trigger`, `x-sless-queue`, `x-sless-message-id`, `x-sless-attempt` | request | the event, for the handler |
//! | `x-sless-log-tail` | answer | that, as a JSON string; in the trailers where the answer is streamed and the request says `te: trailers` |
//! | `x-sless-error` | answer | the error's word, on every answer that the handler did not choose |

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use sless_runtime::{Body, CallContext, CallError, HandlerError, Host, HostState};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use super::log_tail::{Answer, Asked};
use super::logs::LineWriter;
use super::settings::Settings;
use super::termination;

/// A connection that sends no whole head for so long is closed.
const HEAD_PATIENCE: Duration = Duration::from_secs(60);
/// What the platform says about the event that a call is for.
const EVENT: [&str; 4] = [
    "x-sless-trigger",
    "x-sless-queue",
    "x-sless-message-id",
    "x-sless-attempt",
];

const ERROR: HeaderName = HeaderName::from_static("x-sless-error");

/// Serves until SIGTERM or SIGINT; gives the exit code.
pub(crate) async fn serve(settings: &Settings) -> Result<u8, Box<dyn std::error::Error>> {
    let config = settings.host()?;
    let (address, patience) = (settings.listen()?, settings.drain_timeout()?);
    let places = Arc::new(Semaphore::new(settings.max_connections()?));
    let (sink, writing) = LineWriter::start(io::stdout(), settings.logs_as_json()?)?;
    let sink = Arc::new(sink);
    let (mut term, mut int) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    // The port is open before the handler is imported, so that readiness can be asked for.
    let listener = TcpListener::bind(address).await?;
    let function: Arc<OnceLock<Host>> = Arc::default();
    let (stop, stopping) = watch::channel(false);
    let base_path: Arc<str> = settings.text("BASE_PATH").unwrap_or_default().into();
    let accepting = tokio::spawn(accept(
        listener,
        Arc::clone(&function),
        base_path,
        places.clone(),
        stopping,
    ));

    let started = tokio::select! {
        started = Host::start(config, sink.clone()) => started,
        _ = term.recv() => return Ok(0),
        _ = int.recv() => return Ok(0),
    };
    let code = match started {
        Ok(host) => {
            let host = function.get_or_init(|| host);
            let failing = settings.exit_when_failing()?;
            let mut state = host.changes();
            let failed = async {
                match state
                    .wait_for(|state| failing && termination::failing(state).is_some())
                    .await
                {
                    Ok(state) => termination::failing(&state),
                    Err(_) => std::future::pending().await,
                }
            };
            let failed = tokio::select! {
                _ = term.recv() => None,
                _ = int.recv() => None,
                failed = failed => failed,
            };
            if let Some(failed) = failed {
                report(&format!("the function fails: {}", failed["message"]));
                termination::write(settings, &failed)?;
                sink.close();
                let _ = writing.join();
                return Ok(4);
            }
            stop.send_replace(true);
            // Connections end after the call that they carry; then nobody is left to call.
            let all = u32::try_from(settings.max_connections()?)?;
            let _ = timeout(patience, async {
                let _ = accepting.await;
                let _ = places.acquire_many(all).await;
            })
            .await;
            host.drain(Duration::ZERO).await;
            0
        }
        Err(error) => {
            report(&format!(
                "the function did not start ({}): {error}",
                error.reason
            ));
            termination::write(settings, &termination::not_started(&error))?;
            3
        }
    };
    sink.close();
    // A panic there has been reported by its own thread.
    let _ = writing.join();
    Ok(code)
}

/// A message of the binary itself.
pub(crate) fn report(message: &str) {
    use io::Write;
    // There is nobody else to tell when standard error is closed.
    let _ = writeln!(io::stderr(), "sless-runtime: {message}");
}

async fn accept(
    listener: TcpListener,
    function: Arc<OnceLock<Host>>,
    base_path: Arc<str>,
    places: Arc<Semaphore>,
    stopping: watch::Receiver<bool>,
) {
    loop {
        let mut stop = stopping.clone();
        let accepted = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, stream) = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            accepted = accepted => accepted,
        };
        let stream = match stream {
            Ok((stream, _)) => stream,
            Err(error) => {
                report(&format!("a connection could not be accepted: {error}"));
                // Usually out of descriptors; connections that end free some.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        // It fails where the socket is gone already, and then serving it fails as well.
        let _ = stream.set_nodelay(true);
        let (function, base_path) = (Arc::clone(&function), Arc::clone(&base_path));
        tokio::spawn(async move {
            let _place = place;
            let service = service_fn(|mut request| {
                let function = Arc::clone(&function);
                if take_base_path(&mut request, &base_path) {
                    // Whoever calls from outside could say anything.
                    for name in EVENT {
                        request.headers_mut().remove(name);
                    }
                }
                async move { Ok::<_, std::convert::Infallible>(answer(&function, request).await) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_PATIENCE)
                .serve_connection(TokioIo::new(stream), service);
            let mut connection = std::pin::pin!(connection);
            tokio::select! {
                // A client that breaks off is no event for an operator.
                _ = connection.as_mut() => return,
                _ = stop.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
            }
            let _ = connection.await;
        });
    }
}

async fn answer(function: &OnceLock<Host>, mut request: Request<Incoming>) -> Response<Answer> {
    match request.uri().path() {
        "/_sless/healthz" => return plain(StatusCode::OK, "ok").map(Answer::from),
        "/_sless/readyz" => return ready(function.get()).map(Answer::from),
        "/_sless/activity" => return activity(function.get()).map(Answer::from),
        _ => {}
    }
    let Some(host) = function.get() else {
        return refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            "starting",
            "the handler is being imported",
            Some(1),
        )
        .map(Answer::from);
    };
    let mut context = context(request.headers());
    let tail = Asked::take(request.headers(), &mut context);
    take_internal(request.headers_mut(), &EVENT);
    match host.call(request, context).await {
        Ok(mut response) => {
            take_internal(response.headers_mut(), &[]);
            if response.extensions().get::<HandlerError>().is_some() {
                response
                    .headers_mut()
                    .insert(ERROR, HeaderValue::from_static("handler_error"));
            }
            match tail {
                Some(tail) => tail.into_answer(response),
                None => response.map(Answer::from),
            }
        }
        Err(error) => {
            let mut response = failure(&error);
            if let Some(tail) = tail {
                tail.put(response.headers_mut());
            }
            response.map(Answer::from)
        }
    }
}

/// What this copy is at, over all who call it: how a scheduler sees that it may go to sleep.
fn activity(host: Option<&Host>) -> Response<Body> {
    let (in_flight, queued, idle) = host.map_or((0, 0, Duration::ZERO), |host| {
        let idle = host.last_activity().elapsed();
        (host.in_flight(), host.queued(), idle)
    });
    let idle_ms = u64::try_from(idle.as_millis()).unwrap_or(u64::MAX);
    let body = serde_json::json!({"in_flight": in_flight, "queued": queued, "idle_ms": idle_ms});
    let mut response = Response::new(Body::full(body.to_string()));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

fn ready(host: Option<&Host>) -> Response<Body> {
    let Some(host) = host else {
        return refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            "starting",
            "the handler is being imported",
            None,
        );
    };
    let unavailable =
        |word: &str, message: &str| refusal(StatusCode::SERVICE_UNAVAILABLE, word, message, None);
    match host.state() {
        HostState::Ready => plain(StatusCode::OK, "ready"),
        HostState::Restarting { reason, message } => unavailable(reason.word(), &message),
        HostState::Failing {
            reason, message, ..
        } => unavailable(reason.word(), &message),
        _ => unavailable("stopped", "the host has stopped"),
    }
}

/// Takes whole segments off the beginning of a path, and answers whether they were there; what does not
/// begin with them stays as it is.
fn take_base_path<B>(request: &mut Request<B>, base: &str) -> bool {
    let target = request.uri().path_and_query();
    let Some(rest) = target.and_then(|target| target.as_str().strip_prefix(base)) else {
        return false;
    };
    if base.is_empty() || !(rest.is_empty() || rest.starts_with(['/', '?'])) {
        return false;
    }
    let slash = if rest.starts_with('/') { "" } else { "/" };
    if let Ok(shorter) = format!("{slash}{rest}").parse() {
        *request.uri_mut() = shorter;
    }
    true
}

fn context(headers: &HeaderMap) -> CallContext {
    let text = |name| {
        headers
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
    };
    let id = text("x-sless-request-id").or_else(|| text("x-request-id"));
    let context = CallContext::new(id.map_or_else(new_id, str::to_owned));
    match text("x-sless-timeout-ms").and_then(|text| text.parse().ok()) {
        Some(milliseconds) => context.with_timeout(Duration::from_millis(milliseconds)),
        None => context,
    }
}

/// Unique here and, by the random part, all but surely elsewhere.
fn new_id() -> String {
    static PROCESS: OnceLock<u64> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let process = PROCESS.get_or_init(|| RandomState::new().hash_one(std::process::id()));
    format!("{process:016x}{:08x}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Takes off all internal fields, save these.
fn take_internal(headers: &mut HeaderMap, save: &[&str]) {
    let internal = |name: &&HeaderName| {
        name.as_str().starts_with("x-sless-") && !save.contains(&name.as_str())
    };
    let names: Vec<HeaderName> = headers.keys().filter(internal).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

fn plain(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::full(text));
    *response.status_mut() = status;
    response.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

fn failure(error: &CallError) -> Response<Body> {
    let seconds = error
        .retry_after()
        .map(|time| time.as_secs_f64().ceil() as u64);
    refusal(
        error.status(),
        error.word(),
        &error.to_string(),
        seconds.map(|seconds| seconds.max(1)),
    )
}

fn refusal(status: StatusCode, word: &str, message: &str, retry: Option<u64>) -> Response<Body> {
    let body = serde_json::json!({"error": message, "code": word});
    let mut response = Response::new(Body::full(body.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Ok(word) = HeaderValue::from_str(word) {
        headers.insert(ERROR, word);
    }
    if let Some(seconds) = retry {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_segments_are_taken_off() {
        for (target, left) in [
            ("/fn/a/b", "/"),
            ("/fn/a/b/", "/"),
            ("/fn/a/b?x=1&x=2", "/?x=1&x=2"),
            ("/fn/a/b/c%2Fd//e?", "/c%2Fd//e?"),
            ("/fn/a/bc", "/fn/a/bc"),
            ("/other", "/other"),
        ] {
            let mut request = Request::get(target).body(()).expect("a request");
            let taken = take_base_path(&mut request, "/fn/a/b");
            assert_eq!(taken, left != target, "{target}");
            assert_eq!(request.uri().to_string(), left, "{target}");
            let mut request = Request::get(target).body(()).expect("a request");
            assert!(!take_base_path(&mut request, ""));
            assert_eq!(request.uri().to_string(), target);
        }
    }
}
