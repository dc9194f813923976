//! One connection of the load: HTTP/1.1, kept open.

use std::net::SocketAddr;

use anyhow::Result;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// An answer, read to its end.
#[derive(Debug)]
pub struct Answer {
    /// Its status code.
    pub status: u16,
    /// Its whole body.
    pub body: Bytes,
}

/// One connection to a server.
#[derive(Debug)]
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// Whatever the system says.
    pub async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // It ends with the sender; its errors are seen there.
        tokio::spawn(connection);
        Ok(Self {
            sender,
            host: address.to_string(),
        })
    }

    /// Asks for a path.
    ///
    /// # Errors
    /// If the connection ends before the whole answer was read.
    pub async fn get(&mut self, path: &str) -> Result<Answer> {
        self.send(http::Request::get(path), Bytes::new()).await
    }

    /// Sends bytes to a path, as `application/octet-stream`.
    ///
    /// # Errors
    /// If the connection ends before the whole answer was read.
    pub async fn post(&mut self, path: &str, body: Bytes) -> Result<Answer> {
        let request = http::Request::post(path).header("content-type", "application/octet-stream");
        self.send(request, body).await
    }

    async fn send(&mut self, request: http::request::Builder, body: Bytes) -> Result<Answer> {
        let request = request.header("host", &self.host).body(Full::new(body))?;
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await?.to_bytes();
        Ok(Answer { status, body })
    }
}
