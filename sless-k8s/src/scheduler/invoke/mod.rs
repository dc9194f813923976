//! The way of a call to a pod.
//!
//! Calls go to the pods themselves, not through the Service: the watch tells at once which are ready and
//! which end, so that a call goes to the one with the fewest calls, and none begins on one that ends. A
//! request that was not sent is sent to another one; one that was is never repeated.

mod answer;
mod endpoint;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use http::{HeaderName, HeaderValue, Request, Response, Uri, header::HOST};
use sless_core::{
    Body, CallContext, Error, ErrorKind, FunctionId, Invoke, Result, Retry, WorkloadPhase, reason,
};
use tokio::time::Instant;

pub(super) use self::endpoint::Endpoint;
use self::{
    answer::{Counted, Held, late},
    endpoint::{Hold, Unanswered},
};
use super::{
    Inner,
    cache::{FunctionEntry, View},
    manifest, not_found, status,
};
use crate::error::BACKEND;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-sless-request-id");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const TIMEOUT_MS: HeaderName = HeaderName::from_static("x-sless-timeout-ms");

/// How much longer than the call's time the runtime's own word on it is waited for.
const GRACE: Duration = Duration::from_millis(500);

/// Calls one function, whichever revision serves and whether it sleeps or not.
#[derive(Debug)]
pub(super) struct KubeInvoker {
    inner: Arc<Inner>,
    function: FunctionId,
}

impl KubeInvoker {
    pub(super) const fn new(inner: Arc<Inner>, function: FunctionId) -> Self {
        Self { inner, function }
    }
}

/// What is to be done with a call now.
enum Way {
    To(Arc<Endpoint>),
    /// All pods are left alone for a moment.
    Pause,
    /// Somebody has to see to it that a pod is there.
    Wake,
    Refuse(Error),
}

#[async_trait]
impl Invoke for KubeInvoker {
    async fn invoke(
        &self,
        request: Request<Body>,
        context: &CallContext,
    ) -> Result<Response<Body>> {
        let deadline = Instant::now() + context.timeout;
        let entry = self
            .inner
            .cache
            .function(&self.function.uid)
            .ok_or_else(|| not_found(&self.function))?;
        let counted = Counted::new(&entry.in_flight);
        let mut request = prepared(request, context)?;
        loop {
            let hold = self.inner.endpoint(&entry, deadline).await?;
            let endpoint = hold.0.clone();
            self.inner.address(&entry, &mut request)?;
            let left = deadline.saturating_duration_since(Instant::now());
            let left_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1);
            request.headers_mut().insert(TIMEOUT_MS, left_ms.into());
            let sent = endpoint.send(&self.inner.config, request);
            match tokio::time::timeout(left + GRACE, sent).await {
                Err(_) => return Err(late()),
                Ok(Ok((response, sender))) => {
                    let config = self.inner.config.clone();
                    let deadline = deadline + GRACE;
                    let held = Held {
                        sender: Some(sender),
                        hold,
                        _counted: counted,
                        config,
                        deadline,
                    };
                    return answer::read(response, held, &context.log_tail).await;
                }
                Ok(Err(Unanswered::Unsent(unsent, error))) => {
                    tracing::debug!(function = %self.function, %error, "a pod could not be reached");
                    endpoint.avoid();
                    request = *unsent;
                }
                Ok(Err(Unanswered::Broken(source))) => {
                    let message = "the pod broke off before it answered";
                    return Err(Error::new(ErrorKind::Interrupted, message)
                        .at(BACKEND)
                        .with_source(source));
                }
            }
        }
    }
}

/// The request as it goes to a pod: with a target in origin form (RFC 9112 section 3.2.1), and nothing
/// of ours but what is set here.
fn prepared(request: Request<Body>, context: &CallContext) -> Result<Request<Body>> {
    let (mut parts, body) = request.into_parts();
    let is_origin_form = parts.uri.authority().is_none() && parts.uri.scheme().is_none();
    if !is_origin_form || parts.uri.path().is_empty() {
        let target = parts
            .uri
            .path_and_query()
            .map_or("/", |target| target.as_str());
        let target = if target.is_empty() { "/" } else { target };
        parts.uri = target.parse::<Uri>().map_err(|source| {
            Error::invalid("the request's target cannot be sent on").with_source(source)
        })?;
    }
    parts.version = http::Version::HTTP_11;
    remove_controls(&mut parts.headers);
    context.log_tail.ask(&mut parts.headers);
    if context.log_tail.is_wanted() {
        let trailers = HeaderValue::from_static("trailers");
        parts.headers.insert(http::header::TE, trailers);
    }
    if let Ok(id) = HeaderValue::from_str(&context.request_id) {
        parts.headers.insert(REQUEST_ID, id);
    }
    let host = HeaderValue::from_static("function");
    parts.headers.entry(HOST).or_insert(host);
    Ok(Request::from_parts(parts, body))
}

/// Takes off what tells the runtime how to run a call. What the engine says about an event (its trigger,
/// queue, message and attempt) is for the handler; clients cannot say it, since the server takes it off
/// their requests.
fn remove_controls(headers: &mut http::HeaderMap) {
    for name in [&REQUEST_ID, &TIMEOUT_MS, &sless_core::LogTail::FIELD] {
        headers.remove(name);
    }
}

impl Inner {
    /// Names the function to KEDA's interceptor, which tells it by the host.
    fn address(&self, entry: &FunctionEntry, request: &mut Request<Body>) -> Result<()> {
        let (Some(config), Some(_)) = (&self.config.keda, &self.interceptor) else {
            return Ok(());
        };
        let view = entry.view();
        let deployment = view.deployment.as_ref();
        if !deployment.is_some_and(|deployment| self.leaves_to_keda(deployment)) {
            return Ok(());
        }
        let host = HeaderValue::try_from(manifest::host(config, &entry.function));
        let host = host.map_err(|source| {
            Error::invalid("the setting keda.domain is no part of a host name").with_source(source)
        })?;
        let headers = request.headers_mut();
        if let Some(before) = headers.insert(HOST, host) {
            headers.entry(FORWARDED_HOST).or_insert(before);
        }
        Ok(())
    }

    /// A place for a call in a pod, waited for and woken where it must be.
    ///
    /// Calls that waited for a pod to come up are more than it may take at once. They go on as it has
    /// room, and those that come meanwhile go behind them.
    async fn endpoint(
        self: &Arc<Self>,
        entry: &Arc<FunctionEntry>,
        deadline: Instant,
    ) -> Result<Hold> {
        match self.way(entry, &entry.view()) {
            Way::To(endpoint) if entry.waiting.load(Ordering::Acquire) == 0 => {
                return Ok(endpoint.hold());
            }
            Way::Refuse(error) => return Err(error),
            Way::To(_) | Way::Pause | Way::Wake => {}
        }
        let _waiting = self.place(entry)?;
        let mut view = entry.watch();
        loop {
            let now = view.borrow_and_update().clone();
            let mut full = None;
            match self.way(entry, &now) {
                Way::To(endpoint) => match endpoint.hold_below(self.room(&now)) {
                    Some(hold) => return Ok(hold),
                    None => full = Some(endpoint),
                },
                Way::Refuse(error) => return Err(error),
                Way::Pause => {}
                Way::Wake => self.wake(entry),
            }
            let freed = async {
                match &full {
                    Some(endpoint) => endpoint.freed.notified().await,
                    None => std::future::pending().await,
                }
            };
            // The pause is for pods that were left alone for a moment; nobody tells when that is over.
            let pause = tokio::time::sleep(Duration::from_millis(250));
            tokio::select! {
                changed = view.changed() => if changed.is_err() {
                    return Err(not_found(&entry.function));
                },
                () = freed => {}
                () = pause => {}
                () = tokio::time::sleep_until(deadline) => {
                    let message = "the function was not up in time";
                    return Err(Error::new(ErrorKind::Timeout, message)
                        .with_reason(reason::START_TIMEOUT)
                        .at(BACKEND));
                }
            }
        }
    }

    /// Calls that one pod takes at once, those included that wait in it.
    fn room(&self, view: &View) -> usize {
        let deployment = view.deployment.as_ref();
        let at_once = deployment.map_or(1, |deployment| deployment.concurrency);
        self.config
            .queue_length
            .saturating_add(usize::try_from(at_once).unwrap_or(usize::MAX))
    }

    /// Which way a call goes now.
    fn way(&self, entry: &FunctionEntry, view: &View) -> Way {
        let deployment = view.deployment.as_ref();
        let by_keda = deployment.filter(|deployment| self.leaves_to_keda(deployment));
        match (&self.interceptor, by_keda) {
            // It knows what is up, and wakes what is not.
            (Some(interceptor), Some(_)) => match status::of(view) {
                status if status.phase == WorkloadPhase::Failed && status.serving.is_none() => {
                    way(entry, view)
                }
                _ if interceptor.load().0 => Way::Pause,
                _ => Way::To(interceptor.clone()),
            },
            _ => way(entry, view),
        }
    }

    /// A place among the calls that wait.
    fn place<'a>(&self, entry: &'a FunctionEntry) -> Result<Waiting<'a>> {
        let waiting = Waiting(&entry.waiting);
        let before = entry.waiting.fetch_add(1, Ordering::AcqRel);
        let limit = self.config.wake_queue_length;
        if before < limit {
            return Ok(waiting);
        }
        let message =
            format!("the limit wake_queue_length is reached: {before} calls wait already");
        Err(Error::new(ErrorKind::Overloaded, message)
            .with_reason("limit_wake_queue_length")
            .with_retry(Retry::After(Duration::from_secs(1)))
            .at(BACKEND))
    }
}

struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Which way a call goes now, by what the pods are.
fn way(entry: &FunctionEntry, view: &View) -> Way {
    let Some(deployment) = &view.deployment else {
        return match &view.refused {
            Some((_, failure)) => Way::Refuse(cannot_run(failure)),
            None => Way::Refuse(not_found(&entry.function)),
        };
    };
    if deployment.replicas == 0 {
        let message = "the function is stopped: no copies are wanted";
        return Way::Refuse(
            Error::unavailable(message)
                .with_reason(reason::SCALED_TO_ZERO)
                .with_retry(Retry::Never)
                .at(BACKEND),
        );
    }
    if let Some(failure) = &view.wake_failure {
        return Way::Refuse(cannot_run(failure));
    }
    // Also where its pods are still there: they are about to end.
    if deployment.asleep() {
        return Way::Wake;
    }
    let ready = view.ready().filter_map(|pod| pod.endpoint.as_ref());
    // Of equals, another one each time.
    let turn = entry.in_flight.load(Ordering::Relaxed);
    let count = view.ready().count();
    let ordered = ready
        .enumerate()
        .min_by_key(|(at, endpoint)| (endpoint.load(), (at + turn) % count.max(1)));
    if let Some((_, best)) = ordered {
        // Where all are left alone for a moment, so is the call.
        return if best.load().0 {
            Way::Pause
        } else {
            Way::To(best.clone())
        };
    }
    let status = status::of(view);
    match status.failure {
        Some(failure) if status.phase == WorkloadPhase::Failed => Way::Refuse(cannot_run(&failure)),
        _ => Way::Wake,
    }
}

fn cannot_run(failure: &sless_core::Failure) -> Error {
    Error::unavailable(format!(
        "the function cannot be started: {}",
        failure.message
    ))
    .with_reason(failure.reason.clone())
    .at(BACKEND)
}
