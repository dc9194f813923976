//! The routes behind a listener: with limits on what a client may do, and an end that drains.

mod connection;
mod frames;
mod http2;
mod pace;
mod settle;

use std::{
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
};

use crate::{metrics::Metrics, routes::Routes, settings::Limits};
use connection::Front;

/// How long to wait after the system refused a connection, as it does where no file can be opened
/// any more.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a server is held to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServeConfig {
    /// How long the head of a request may take to arrive, from the first byte of the connection or
    /// the end of the request before; on HTTP/2, how long a connection may be without a request.
    pub header_timeout: Duration,
    /// The largest head of a request, in bytes.
    pub header_bytes: usize,
    /// The most fields in the head of a request.
    pub headers: usize,
    /// The most connections at once; more wait in the system's queue.
    pub connections: usize,
    /// The most requests at once on one connection of HTTP/2.
    pub streams: usize,
    /// How long a client may send nothing of a body that is wanted, or take nothing of an answer that
    /// is there.
    pub stall_timeout: Duration,
    /// How long requests under way may take to end, once the server is told to stop.
    pub drain_timeout: Duration,
}

impl ServeConfig {
    /// The configuration of these limits.
    pub fn new(limits: &Limits, drain_timeout: Duration) -> Self {
        Self {
            header_timeout: limits.header_timeout,
            header_bytes: limits.header_bytes,
            headers: limits.headers,
            connections: limits.connections,
            streams: limits.streams,
            stall_timeout: limits.stall_timeout,
            drain_timeout,
        }
    }
}

/// What became of the requests that were under way at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// All ended.
    All,
    /// Some were cut off after [`ServeConfig::drain_timeout`].
    CutOff,
}

/// Serves until `stop` is done, then takes no new connection, lets requests under way end, and
/// answers how that went. Dropping the future cuts everything off.
///
/// Speaks HTTP/1.1, and HTTP/2 with those who begin with it (RFC 9113, section 3.3).
///
/// A request whose client leaves is dropped, and with it what was done for it.
///
/// # Errors
/// If the system does not give the listener back at the end. A connection that fails is the loss of its
/// client only.
pub async fn serve(
    listener: TcpListener,
    routes: impl Into<Routes>,
    config: &ServeConfig,
    metrics: Metrics,
    stop: impl Future<Output = ()>,
) -> io::Result<Drained> {
    let front = Front::new(routes.into(), config);
    let places = Arc::new(Semaphore::new(
        config.connections.min(Semaphore::MAX_PERMITS),
    ));
    let (stopping, stopped) = watch::channel(false);
    let mut connections = tokio::task::JoinSet::new();
    let connection = |stream: TcpStream, address: SocketAddr, place: OwnedSemaphorePermit| {
        let peer = Peer(address.ip().to_canonical());
        prepare(&stream);
        let (served, guard) = (
            front.serve(stream, peer, stopped.clone()),
            metrics.connection(),
        );
        async move {
            let _held = (place, guard);
            served.await;
        }
    };
    tokio::pin!(stop);
    loop {
        let accepted = async {
            let place = places.clone().acquire_owned().await;
            (listener.accept().await, place)
        };
        let accepted = tokio::select! {
            biased;
            () = &mut stop => break,
            accepted = accepted => accepted,
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            (Ok((stream, address)), Ok(place)) => {
                connections.spawn(connection(stream, address, place));
            }
            (Err(error), _) => {
                tracing::warn!(%error, "no connection can be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
            // The semaphore is never closed.
            (_, Err(_)) => break,
        }
    }
    // Who has connected already and waits in the system's queue would be cut off by the end of it. The
    // system itself is asked, since the runtime may not have heard of them yet.
    let listener = listener.into_std()?;
    while let Ok(place) = places.clone().try_acquire_owned()
        && let Ok((stream, address)) = listener.accept()
        && stream.set_nonblocking(true).is_ok()
        && let Ok(stream) = TcpStream::from_std(stream)
    {
        connections.spawn(connection(stream, address, place));
    }
    drop(listener);
    stopping.send_replace(true);
    let all = async { while connections.join_next().await.is_some() {} };
    Ok(
        match tokio::time::timeout(config.drain_timeout, all).await {
            Ok(()) => Drained::All,
            Err(_) => Drained::CutOff,
        },
    )
}

/// Where a request came from: the other end of its connection. Behind a proxy that is the proxy; what
/// one says of its own clients in a header field, anybody can say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

fn prepare(stream: &TcpStream) {
    // Small answers go out at once. Where the system refuses, it is only slower.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no nodelay");
    }
}
