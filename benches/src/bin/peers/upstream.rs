//! What stands behind every proxy: a server that answers what it is sent, once it has all of it, since
//! proxies in Go break off what is answered while it is still sent.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use sless_benches::{cores::Cores, http::Connection};
use tokio::net::TcpListener;

use crate::process::Group;

/// The word that makes this program one.
pub(crate) const WORD: &str = "upstream";
/// The port of a function's pod, where sless calls it.
const PORT: u16 = 8080;
const PATIENCE: Duration = Duration::from_secs(10);

/// Serves for ever.
pub(crate) fn serve(address: SocketAddr) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let echo = |request: Request<Incoming>| async {
                let body = request.into_body().collect().await?.to_bytes();
                Ok::<_, hyper::Error>(Response::new(Full::new(body)))
            };
            let serving =
                http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(echo));
            // A client that breaks off is nothing to tell.
            tokio::spawn(serving);
        }
    })
}

/// A running one.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) group: Group,
    pub(crate) address: SocketAddr,
}

impl Upstream {
    /// Starts this program as one, at the cores of what is measured: it takes the same from all.
    pub(crate) async fn start(folder: &Path, cores: &Cores) -> Result<Self> {
        let address = free_address()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args([WORD, &address.to_string()]);
        let mut group = Group::start(command, &folder.join("upstream.log"), cores)?;
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE && !group.has_ended()? {
            if let Ok(mut connection) = Connection::open(address).await
                && connection.post("/", Bytes::new()).await.is_ok()
            {
                return Ok(Self { group, address });
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        bail!("the server behind the proxies did not start on {address}")
    }
}

/// The port is given; which of this machine's own addresses is free there is not.
fn free_address() -> Result<SocketAddr> {
    for last in 2..=99 {
        let address = SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), PORT));
        if std::net::TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    bail!("port {PORT} is taken on all of 127.0.0.2 to 127.0.0.99")
}
