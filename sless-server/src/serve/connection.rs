//! One connection: which protocol its client speaks, and what it is held to.

use std::{
    convert::Infallible,
    future::Future,
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::{
    body::Body,
    extract::Request,
    http::{StatusCode, Version},
    response::{IntoResponse, Response},
};
use hyper::body::{Body as _, Incoming};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::{net::TcpStream, sync::watch};
use tokio_io_timeout::TimeoutStream;

use super::{
    Peer, ServeConfig,
    frames::Counted,
    http2::{self, Streams},
    pace::{Fault, Sent, Taken},
    settle::settle,
};
use crate::{error::ApiError, routes::Routes};

/// How long a client that connected just before the end may take to send its request.
const FIRST_REQUEST: Duration = Duration::from_secs(1);

/// By how many requests a client may have taken back more than it let be answered. A browser takes
/// back some; one that does little else only wants to make work (CVE-2023-44487).
const TAKEN_BACK: u64 = 100;

/// What all connections share.
#[derive(Debug)]
pub(super) struct Front {
    http: auto::Builder<Streams>,
    routes: Arc<Routes>,
    config: Arc<ServeConfig>,
}

impl Front {
    pub(super) fn new(routes: Routes, config: &ServeConfig) -> Self {
        let mut http = auto::Builder::new(Streams {
            stall_timeout: config.stall_timeout,
        });
        http.http1()
            .timer(TokioTimer::new())
            .header_read_timeout(config.header_timeout)
            .max_headers(config.headers)
            .max_buf_size(config.header_bytes);
        http2::limit(&mut http.http2(), config);
        Self {
            http,
            routes: Arc::new(routes),
            config: Arc::new(config.clone()),
        }
    }

    /// Serves one client, until it leaves, has gone too far, or `stopped` says so.
    pub(super) fn serve(
        &self,
        stream: TcpStream,
        peer: Peer,
        mut stopped: watch::Receiver<bool>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(self.config.stall_timeout));
        let (tell, seen) = watch::channel(Seen::default());
        let (routes, config) = (self.routes.clone(), self.config.clone());
        let service = hyper::service::service_fn(move |request: Request<Incoming>| {
            let under_way = UnderWay::begin(&tell, request.version());
            let (routes, config) = (routes.clone(), config.clone());
            async move {
                let response = answer(&routes, request, peer, &config).await;
                Ok::<_, Infallible>(match under_way {
                    Some(under_way) => under_way.answered(response),
                    None => response,
                })
            }
        });
        let io = TokioIo::new(Counted::new(Box::pin(stream)));
        let connection = self.http.serve_connection(io, service).into_owned();
        let config = self.config.clone();
        async move {
            let told = async {
                // The sender is there as long as connections are waited for.
                let _ = stopped.wait_for(|stopped| *stopped).await;
                // One without a request is closed at once when it is told to end, and what its client
                // has sent already is lost. So it gets a moment to be read.
                let mut seen = seen.clone();
                let first = seen.wait_for(|seen| seen.begun);
                let _ = tokio::time::timeout(FIRST_REQUEST, first).await;
            };
            let mut connection = std::pin::pin!(connection);
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = told => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
                unwanted = unwanted(seen.clone(), config.header_timeout) => {
                    if unwanted != Unwanted::Idle {
                        tracing::debug!(?unwanted, "a connection was closed");
                        return;
                    }
                    connection.as_mut().graceful_shutdown();
                    match tokio::time::timeout(config.stall_timeout, connection).await {
                        Ok(ended) => ended,
                        Err(_) => return,
                    }
                }
            };
            if let Err(error) = ended {
                // Clients leave, send nonsense, or are too slow; that is their affair.
                tracing::debug!(%error, "a connection ended early");
            }
        }
    }
}

/// What was seen on a connection so far.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// A request has begun.
    begun: bool,
    /// It speaks HTTP/2, and the rest is counted.
    http2: bool,
    /// Requests whose answer has not been taken whole.
    open: u64,
    answered: u64,
    taken_back: u64,
}

/// Why a connection is ended by the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unwanted {
    /// No request came. Those of HTTP/1.1 that had one already are hyper's to end.
    Silent,
    /// There is no request any more.
    Idle,
    /// Far more requests were taken back than answered.
    TakesBack,
}

/// Answers once the connection is not wanted any more.
async fn unwanted(mut seen: watch::Receiver<Seen>, limit: Duration) -> Unwanted {
    loop {
        let now = *seen.borrow_and_update();
        if now.taken_back > now.answered + TAKEN_BACK {
            return Unwanted::TakesBack;
        }
        let why = match now {
            Seen { begun: false, .. } => Some(Unwanted::Silent),
            Seen {
                http2: true,
                open: 0,
                ..
            } => Some(Unwanted::Idle),
            _ => None,
        };
        let changed = match why {
            Some(why) => match tokio::time::timeout(limit, seen.changed()).await {
                Ok(changed) => changed,
                Err(_) => return why,
            },
            None => seen.changed().await,
        };
        if changed.is_err() {
            // The connection is about to end by itself.
            return std::future::pending().await;
        }
    }
}

/// A request of HTTP/2 until its answer was taken whole, or it was taken back.
#[derive(Debug)]
pub(super) struct UnderWay {
    seen: watch::Sender<Seen>,
    answered: bool,
}

impl UnderWay {
    /// Notes a request; HTTP/1.1 needs no more.
    fn begin(seen: &watch::Sender<Seen>, version: Version) -> Option<Self> {
        if version != Version::HTTP_2 {
            seen.send_if_modified(|seen| !std::mem::replace(&mut seen.begun, true));
            return None;
        }
        seen.send_modify(|seen| {
            seen.begun = true;
            seen.http2 = true;
            seen.open += 1;
        });
        Some(Self {
            seen: seen.clone(),
            answered: false,
        })
    }

    fn answered(mut self, response: Response) -> Response {
        self.answered = true;
        response.map(|body| Body::new(Taken::new(body, self)))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.seen.send_modify(|seen| {
            seen.open -= 1;
            if self.answered {
                seen.answered += 1;
            } else {
                seen.taken_back += 1;
            }
        });
    }
}

async fn answer(
    routes: &Routes,
    mut request: Request<Incoming>,
    peer: Peer,
    config: &ServeConfig,
) -> Response {
    if let Err(refused) = settle(&mut request, config) {
        return refused.into_response();
    }
    let limit = config.stall_timeout;
    let mut fault = None;
    let request = request.map(|body| {
        if body.is_end_stream() {
            Body::empty()
        } else {
            let fault = fault.insert(Arc::new(OnceLock::new()));
            Body::new(Sent::new(body, limit, fault.clone()))
        }
    });
    let response = routes.answer(request, Some(peer)).await;
    // Whatever was made of it: the client is the reason.
    let refused = match fault.as_ref().and_then(|fault| fault.get()) {
        None => return response,
        Some(_) if response.status().is_success() => return response,
        Some(Fault::Broken) => {
            ApiError::bad_request("body_interrupted", "the request's body broke off")
        }
        Some(Fault::Stalled) => {
            let limit = limit.as_millis();
            let message = format!(
                "limit stall_timeout of {limit} ms exceeded: nothing more of the body came"
            );
            ApiError::new(StatusCode::REQUEST_TIMEOUT, "limit_stall_timeout", message)
        }
    };
    refused.into_response()
}
