//! Clients by the thousand that take as long as they can.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    task::JoinSet,
};

/// How long one waits between two bytes, and before it comes again when it was sent away.
const BYTE: Duration = Duration::from_millis(500);
const AGAIN: Duration = Duration::from_secs(3);

/// What a client does.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Sends a head, byte by byte.
    SlowHead,
    /// Says that a body comes, and sends it byte by byte.
    SlowBody,
    /// Asks for much, and takes it byte by byte.
    SlowReader,
    /// Asks, and resets the connection.
    Reset,
}

/// Clients that are connected until this is dropped.
#[derive(Debug)]
pub(super) struct Crowd {
    clients: JoinSet<()>,
    connected: Arc<AtomicUsize>,
}

impl Crowd {
    /// This many of them, on this function.
    pub(super) fn gather(address: SocketAddr, function: &str, count: usize) -> Self {
        let connected = Arc::new(AtomicUsize::new(0));
        let mut clients = JoinSet::new();
        for number in 0..count {
            let way = match number % 10 {
                0..3 => Way::SlowHead,
                3..6 => Way::SlowBody,
                6..9 => Way::SlowReader,
                _ => Way::Reset,
            };
            let (function, connected) = (function.to_owned(), connected.clone());
            clients.spawn(async move {
                // Not all in one moment.
                tokio::time::sleep(BYTE * u32::try_from(number % 100).unwrap() / 100).await;
                connected.fetch_add(1, Ordering::Relaxed);
                loop {
                    // Whoever is sent away comes again.
                    if let Ok(stream) = connect(address).await {
                        let _ = misbehave(way, stream, &function).await;
                    }
                    let again = if matches!(way, Way::Reset) {
                        BYTE
                    } else {
                        AGAIN
                    };
                    tokio::time::sleep(again).await;
                }
            });
        }
        Self { clients, connected }
    }

    /// Waits until all have begun.
    pub(super) async fn is_there(&self) {
        while self.connected.load(Ordering::Relaxed) < self.clients.len() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(super) async fn leave(mut self) {
        self.clients.shutdown().await;
    }
}

/// With little room for what it does not read, as those have it that mean harm.
async fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4096)?;
    socket.connect(address).await
}

async fn misbehave(way: Way, mut stream: TcpStream, function: &str) -> std::io::Result<()> {
    match way {
        Way::SlowHead => {
            let head = format!(
                "GET {function} HTTP/1.1\r\nhost: x\r\nx: {}",
                "y".repeat(4096)
            );
            for byte in head.bytes() {
                stream.write_all(&[byte]).await?;
                tokio::time::sleep(BYTE).await;
            }
        }
        Way::SlowBody => {
            let head =
                format!("POST {function} HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            loop {
                stream.write_all(b"x").await?;
                tokio::time::sleep(BYTE).await;
            }
        }
        Way::SlowReader => {
            let head = format!("GET {function}/much HTTP/1.1\r\nhost: x\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            let mut byte = [0];
            while stream.read(&mut byte).await? > 0 {
                tokio::time::sleep(BYTE).await;
            }
        }
        Way::Reset => {
            let head = format!("GET {function} HTTP/1.1\r\nhost: x\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            // Closes with a reset, whatever is on its way.
            stream.set_zero_linger()?;
        }
    }
    Ok(())
}
