//! Clients by the thousand that take as long as they can.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    runtime,
    sync::oneshot,
    task::JoinSet,
};

use crate::e2e::process::{DEADLINE, LOOK};

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

/// Clients that are connected until they leave, on a thread of their own: they stand for other machines, so
/// whoever measures has nothing to do with what moves them.
#[derive(Debug)]
pub(super) struct Crowd {
    count: usize,
    begun: Arc<AtomicUsize>,
    leave: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Crowd {
    /// This many of them, on this function.
    pub(super) fn gather(address: SocketAddr, function: &str, count: usize) -> Self {
        let begun = Arc::new(AtomicUsize::new(0));
        let (leave, told) = oneshot::channel();
        let (function, counted) = (function.to_owned(), begun.clone());
        let thread = std::thread::spawn(move || {
            let runtime = runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let mut clients = JoinSet::new();
                for number in 0..count {
                    clients.spawn(client(number, address, function.clone(), counted.clone()));
                }
                let _ = told.await;
                clients.shutdown().await;
            });
        });
        Self {
            count,
            begun,
            leave,
            thread,
        }
    }

    /// How many stay on their connection whatever the function does: those that never end a head.
    pub(super) const fn stay(count: usize) -> usize {
        count / 10 * 3
    }

    /// Waits until all have connected once.
    pub(super) async fn is_there(&self) {
        let began = Instant::now();
        while self.begun.load(Ordering::Relaxed) < self.count {
            assert!(began.elapsed() < DEADLINE, "{:?} have begun", self.begun);
            tokio::time::sleep(LOOK).await;
        }
    }

    pub(super) async fn leave(self) {
        let _ = self.leave.send(());
        while !self.thread.is_finished() {
            tokio::time::sleep(LOOK).await;
        }
        self.thread.join().unwrap();
    }
}

/// Misbehaves on and on.
async fn client(number: usize, address: SocketAddr, function: String, begun: Arc<AtomicUsize>) {
    let way = match number % 10 {
        0..3 => Way::SlowHead,
        3..6 => Way::SlowBody,
        6..9 => Way::SlowReader,
        _ => Way::Reset,
    };
    // Not all in one moment, and not all of those again that were sent away in one.
    let share = u32::try_from(number % 100).unwrap();
    tokio::time::sleep(BYTE * share / 100).await;
    let again = match way {
        Way::Reset => BYTE,
        _ => AGAIN * (50 + share) / 100,
    };
    let mut first = Some(begun);
    loop {
        if let Ok(stream) = connect(address).await {
            if let Some(begun) = first.take() {
                begun.fetch_add(1, Ordering::Relaxed);
            }
            let _ = misbehave(way, stream, &function).await;
        }
        tokio::time::sleep(again).await;
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
