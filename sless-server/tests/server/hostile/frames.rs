//! HTTP/2 by hand (RFC 9113), since no client would send what these tests send.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpSocket,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

/// Types of frames (section 6).
pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

/// Flags.
pub(super) const END_STREAM: u8 = 1;
pub(super) const ACK: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

/// Identifiers of settings (section 6.5.2).
pub(super) const INITIAL_WINDOW_SIZE: u16 = 4;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[derive(Debug)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

/// A frame as it is sent.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap();
    let mut bytes = length.to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// One setting.
pub(super) fn setting(name: u16, value: u32) -> Vec<u8> {
    [&name.to_be_bytes()[..], &value.to_be_bytes()].concat()
}

/// Fields as HPACK has them where nothing is indexed and nothing compressed (RFC 7541, section 6.2.2).
pub(super) fn fields(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.push(0);
        for text in [name, value] {
            length(text.len(), &mut bytes);
            bytes.extend_from_slice(text.as_bytes());
        }
    }
    bytes
}

/// A number with a prefix of seven bits (section 5.1).
fn length(mut length: usize, bytes: &mut Vec<u8>) {
    if length < 127 {
        bytes.push(u8::try_from(length).unwrap());
        return;
    }
    bytes.push(127);
    length -= 127;
    while length >= 128 {
        bytes.push(u8::try_from(length % 128).unwrap() | 128);
        length /= 128;
    }
    bytes.push(u8::try_from(length).unwrap());
}

/// What every request has.
pub(super) fn request<'a>(method: &'a str, path: &'a str) -> [(&'a str, &'a str); 4] {
    [
        (":method", method),
        (":scheme", "http"),
        (":authority", "h2.example"),
        (":path", path),
    ]
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) write: OwnedWriteHalf,
    pub(super) read: OwnedReadHalf,
    seen: Vec<u8>,
}

impl Connection {
    /// Begins one, with these settings.
    pub(super) async fn begin(address: SocketAddr, settings: &[u8]) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        // What the server does not take is soon felt.
        socket.set_send_buffer_size(64 << 10).unwrap();
        let stream = socket.connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (read, mut write) = stream.into_split();
        let begin = [PREFACE, &frame(SETTINGS, 0, 0, settings)].concat();
        write.write_all(&begin).await.unwrap();
        Self {
            write,
            read,
            seen: Vec::new(),
        }
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) {
        self.write.write_all(bytes).await.unwrap();
    }

    /// A request without a body.
    pub(super) async fn get(&mut self, stream: u32, path: &str) {
        let head = fields(&request("GET", path));
        let flags = END_HEADERS | END_STREAM;
        self.send(&frame(HEADERS, flags, stream, &head)).await;
    }

    /// The next frame; `None` once the server has closed.
    pub(super) async fn next(&mut self) -> Option<Frame> {
        let mut piece = vec![0; 16 << 10];
        loop {
            if let Some(frame) = take(&mut self.seen) {
                return Some(frame);
            }
            match self.read.read(&mut piece).await {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.seen.extend_from_slice(&piece[..count]),
            }
        }
    }

    /// Reads until a stream has ended, and answers its data; settings and pings are answered meanwhile.
    pub(super) async fn answer(&mut self, stream: u32) -> Answer {
        let mut answer = Answer::default();
        loop {
            let Some(frame) = self.next().await else {
                answer.closed = true;
                return answer;
            };
            match frame.kind {
                SETTINGS if frame.flags & ACK == 0 => self.agree().await,
                PING if frame.flags & ACK == 0 => self.pong(&frame.payload).await,
                DATA if frame.stream == stream => answer.data.extend_from_slice(&frame.payload),
                HEADERS if frame.stream == stream => answer.head.extend_from_slice(&frame.payload),
                RST_STREAM if frame.stream == stream => {
                    answer.reset = true;
                    return answer;
                }
                _ => {}
            }
            let ends = matches!(frame.kind, DATA | HEADERS) && frame.flags & END_STREAM != 0;
            if ends && frame.stream == stream {
                return answer;
            }
        }
    }

    async fn agree(&mut self) {
        self.send(&frame(SETTINGS, ACK, 0, &[])).await;
    }

    pub(super) async fn pong(&mut self, ping: &[u8]) {
        self.send(&frame(PING, ACK, 0, ping)).await;
    }

    /// Reads and drops what comes until the server closes; whether it said why.
    pub(super) async fn closed(mut self, within: Duration) -> bool {
        let closed = async {
            let mut said = false;
            while let Some(frame) = self.next().await {
                said |= frame.kind == GOAWAY;
            }
            said
        };
        tokio::time::timeout(within, closed)
            .await
            .expect("the server closes")
    }
}

/// What came on a stream.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) head: Vec<u8>,
    pub(super) data: Vec<u8>,
    pub(super) reset: bool,
    pub(super) closed: bool,
}

impl Answer {
    /// The status, which comes first: out of the static table, or written out with the name of entry 8
    /// (RFC 7541, appendix A).
    pub(super) fn status(&self) -> u16 {
        match self.head[..] {
            [0x88, ..] => 200,
            [0x8c, ..] => 400,
            [0x8d, ..] => 404,
            [0x8e, ..] => 500,
            [0x48, length, ..] if length & 128 == 0 => {
                let digits = &self.head[2..2 + usize::from(length)];
                String::from_utf8_lossy(digits).parse().unwrap()
            }
            [0x48, length, ..] => digits(&self.head[2..2 + usize::from(length & 127)]),
            _ => 0,
        }
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.data).into_owned()
    }
}

/// A number in the code of Huffman: 0 to 2 have five bits, 3 to 9 have six (RFC 7541, appendix B).
fn digits(bytes: &[u8]) -> u16 {
    let mut bits = bytes
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |bit| u16::from(byte >> bit & 1)));
    let mut number = 0;
    while number < 100 {
        let mut code = (0..5).fold(0, |code, _| code << 1 | bits.next().unwrap_or(1));
        if code > 2 {
            code = (code << 1 | bits.next().unwrap_or(1)) - 0x19 + 3;
        }
        number = number * 10 + code;
    }
    number
}

fn take(seen: &mut Vec<u8>) -> Option<Frame> {
    let head: [u8; 9] = seen.get(..9)?.try_into().unwrap();
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
    if seen.len() < 9 + length {
        return None;
    }
    let payload = seen[9..9 + length].to_vec();
    seen.drain(..9 + length);
    Some(Frame {
        kind: head[3],
        flags: head[4],
        stream: u32::from_be_bytes([head[5] & 127, head[6], head[7], head[8]]),
        payload,
    })
}
