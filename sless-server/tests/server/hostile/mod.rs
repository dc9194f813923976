//! Clients that mean harm, against the real server: what they send is never taken for something else,
//! costs a bounded amount of memory, and does not keep others from being served.

mod crowd;
mod frames;
mod h2spec;
mod http1;
mod http2;
mod overload;
mod slow;
mod smuggling;

use std::path::Path;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    e2e::machine::Machine,
    measure::{ALONE, holds, is_long, memory, quantile, report},
};

/// How many files a process has open.
fn open_files(process: u32) -> usize {
    let folder = format!("/proc/{process}/fd");
    std::fs::read_dir(Path::new(&folder)).unwrap().count()
}

/// A client that means well: one connection that it keeps, one request after the other.
struct Good {
    stream: TcpStream,
    request: String,
}

impl Good {
    async fn connect(machine: &Machine, path: &str) -> Self {
        let stream = machine.connect().await;
        stream.set_nodelay(true).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: good\r\n\r\n");
        Self { stream, request }
    }

    /// One request, and how it was answered.
    async fn ask(&mut self) -> Answered {
        self.stream
            .write_all(self.request.as_bytes())
            .await
            .unwrap();
        let mut seen = Vec::new();
        let mut piece = [0; 4096];
        loop {
            let count = self.stream.read(&mut piece).await.unwrap();
            assert_ne!(count, 0, "closed: {}", String::from_utf8_lossy(&seen));
            seen.extend_from_slice(&piece[..count]);
            if let Some(answered) = Answered::of(&seen) {
                return answered;
            }
        }
    }
}

/// What is looked at of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answered {
    status: u16,
    /// Whether it says when to come again.
    retry: bool,
}

impl Answered {
    /// The answer, once it is there with all of its body, whose length it tells.
    fn of(bytes: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n")?;
        let head = head.to_ascii_lowercase();
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
        let length: usize = field("content-length: ")
            .unwrap_or_else(|| panic!("no length: {head}"))
            .parse()
            .unwrap();
        (body.len() >= length).then(|| Self {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            retry: field("retry-after: ").is_some(),
        })
    }
}

/// Reads whatever comes until the other side ends it.
async fn read_to_the_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut seen = Vec::new();
    // A reset is an end as well.
    let _ = stream.read_to_end(&mut seen).await;
    seen
}
