//! One pod as a place to call: its address, its idle connections, how much goes on there.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use sless_core::Body;
use tokio::{net::TcpStream, sync::Notify};

use crate::{SchedulerConfig, scheduler::manifest::PORT_NUMBER};

/// How long a pod is left alone after a connection to it failed.
const AVOID: Duration = Duration::from_millis(500);
/// The longest answer to a question of ours, in bytes.
const ANSWER_BYTES: usize = 64 << 10;

/// A connection that takes one request at a time.
pub(super) type Sender = http1::SendRequest<Body>;

#[derive(Debug)]
enum Address {
    Pod(SocketAddr),
    /// Host and port.
    Named(Box<str>),
}

/// A pod's address and what is known of it.
#[derive(Debug)]
pub(in crate::scheduler) struct Endpoint {
    address: Address,
    idle: Mutex<Vec<(Sender, Instant)>>,
    in_flight: AtomicUsize,
    /// Tells one who waits that a call has ended.
    pub(super) freed: Notify,
    /// Whether it said itself that it is ready, before Kubernetes did.
    proven: AtomicBool,
    avoid_until: Mutex<Option<Instant>>,
}

/// Why a request was not answered.
pub(super) enum Unanswered {
    /// Nothing of it was sent: it can be sent to another one.
    Unsent(Box<Request<Body>>, Box<dyn std::error::Error + Send + Sync>),
    /// Nobody knows how far it came.
    Broken(hyper::Error),
}

impl Endpoint {
    pub(in crate::scheduler) fn new(ip: IpAddr) -> Self {
        Self::at(Address::Pod(SocketAddr::new(ip, PORT_NUMBER)))
    }

    /// What is at this host and port.
    pub(in crate::scheduler) fn named(address: &str) -> Self {
        Self::at(Address::Named(address.into()))
    }

    fn at(address: Address) -> Self {
        Self {
            address,
            idle: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            freed: Notify::new(),
            proven: AtomicBool::new(false),
            avoid_until: Mutex::default(),
        }
    }

    /// The address of a pod.
    pub(in crate::scheduler) const fn ip(&self) -> Option<IpAddr> {
        match &self.address {
            Address::Pod(address) => Some(address.ip()),
            Address::Named(_) => None,
        }
    }

    pub(in crate::scheduler) fn is_proven(&self) -> bool {
        self.proven.load(Ordering::Acquire)
    }

    /// Takes note of whether it said itself that it is ready.
    pub(in crate::scheduler) fn prove(&self, proven: bool) {
        self.proven.store(proven, Ordering::Release);
    }

    /// How much goes on here; more where it is better left alone for a moment.
    pub(super) fn load(&self) -> (bool, usize) {
        let avoid = *self
            .avoid_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let avoided = avoid.is_some_and(|until| Instant::now() < until);
        (avoided, self.in_flight.load(Ordering::Relaxed))
    }

    /// Leaves it alone for a moment.
    pub(super) fn avoid(&self) {
        let mut avoid = self
            .avoid_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *avoid = Some(Instant::now() + AVOID);
    }

    /// Counts a call as long as the answer lives.
    pub(super) fn hold(self: &Arc<Self>) -> Hold {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        Hold(self.clone())
    }

    /// The same, unless so many go on here already.
    pub(super) fn hold_below(self: &Arc<Self>, limit: usize) -> Option<Hold> {
        let more = |count: usize| (count < limit).then_some(count + 1);
        self.in_flight
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, more)
            .ok()
            .map(|_| Hold(self.clone()))
    }

    /// Sends a request on an idle connection, or on a new one.
    pub(super) async fn send(
        &self,
        config: &SchedulerConfig,
        request: Request<Body>,
    ) -> Result<(Response<Incoming>, Sender), Unanswered> {
        let mut request = request;
        loop {
            let (mut sender, fresh) = match self.idle(config) {
                Some(sender) => (sender, false),
                None => match self.connect(config).await {
                    Ok(sender) => (sender, true),
                    Err(error) => return Err(Unanswered::Unsent(Box::new(request), error)),
                },
            };
            match sender.try_send_request(request).await {
                Ok(response) => return Ok((response, sender)),
                Err(mut failed) => match failed.take_message() {
                    // An idle connection that was closed meanwhile; nothing was sent on it.
                    Some(unsent) if !fresh => request = unsent,
                    Some(unsent) => {
                        let error = failed.into_error().into();
                        return Err(Unanswered::Unsent(Box::new(unsent), error));
                    }
                    None => return Err(Unanswered::Broken(failed.into_error())),
                },
            }
        }
    }

    /// Keeps a connection for the next call.
    pub(super) fn keep(&self, config: &SchedulerConfig, sender: Sender) {
        if sender.is_closed() {
            return;
        }
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < config.idle_connections {
            idle.push((sender, Instant::now()));
        }
    }

    /// The connection that was used last, so that the others may grow old.
    fn idle(&self, config: &SchedulerConfig) -> Option<Sender> {
        let most = Duration::from_millis(config.idle_connection_ms);
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((sender, since)) = idle.pop() {
            if since.elapsed() > most {
                idle.clear();
                return None;
            }
            if sender.is_ready() {
                return Some(sender);
            }
        }
        None
    }

    async fn connect(
        &self,
        config: &SchedulerConfig,
    ) -> Result<Sender, Box<dyn std::error::Error + Send + Sync>> {
        let wait = Duration::from_millis(config.connect_ms);
        let connected = async {
            match &self.address {
                Address::Pod(address) => TcpStream::connect(address).await,
                Address::Named(address) => TcpStream::connect(&**address).await,
            }
        };
        let stream = tokio::time::timeout(wait, connected).await??;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // It ends with its sender, or when the pod closes it.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to a pod broke off");
            }
        });
        Ok(sender)
    }

    /// Asks the runtime something of its own; `None` where it does not answer with success in time.
    pub(in crate::scheduler) async fn ask(
        &self,
        config: &SchedulerConfig,
        path: &'static str,
        wait: Duration,
    ) -> Option<bytes::Bytes> {
        let answered = async {
            let mut request = Request::new(Body::empty());
            *request.uri_mut() = http::Uri::from_static(path);
            let host = http::HeaderValue::from_static("function");
            request.headers_mut().insert(http::header::HOST, host);
            let (response, sender) = self.send(config, request).await.ok()?;
            let success = response.status() == StatusCode::OK;
            let body = http_body_util::Limited::new(response.into_body(), ANSWER_BYTES);
            let body = body.collect().await.ok()?.to_bytes();
            self.keep(config, sender);
            success.then_some(body)
        };
        tokio::time::timeout(wait, answered).await.ok().flatten()
    }
}

/// A call's hold on a pod.
#[derive(Debug)]
pub(super) struct Hold(pub(super) Arc<Endpoint>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
        self.0.freed.notify_one();
    }
}
