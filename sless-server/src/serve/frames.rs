//! Frames of HTTP/2 that ask for nothing, of which a client may send only so many.
//!
//! h2 answers pings and settings as fast as they come, and each window that opens by one byte is work
//! (CVE-2019-9511 and its kin). So a connection has credit, which such frames use up, and which time, requests
//! and what is sent to the client bring.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Instant,
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The credit at the beginning, and the most there is.
const CREDIT: u64 = 1000;

/// What a second brings, what a request does, and how many bytes to the client bring one: windows are
/// opened again as they are used.
const OF_A_SECOND: u64 = 20;
const OF_A_REQUEST: u64 = 10;
const BYTES: u64 = 1024;

/// A connection whose client's frames are counted, where they are of HTTP/2.
#[derive(Debug)]
pub(super) struct Counted<S> {
    stream: S,
    reads: Reads,
    credit: u64,
    written: u64,
    since: Instant,
}

/// Where in the bytes of the client the next one is.
#[derive(Clone, Copy, Debug)]
enum Reads {
    /// In what HTTP/2 begins with, after so many bytes.
    Preface(usize),
    /// It is HTTP/1.
    Other,
    /// In the head of a frame, of which so much is there.
    Head([u8; 9], usize),
    /// So many bytes before the next frame.
    Payload(usize),
}

impl<S> Counted<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream,
            reads: Reads::Preface(0),
            credit: CREDIT,
            written: 0,
            since: Instant::now(),
        }
    }

    /// Looks at what was read; false once there was too much of nothing.
    fn look(&mut self, mut bytes: &[u8]) -> bool {
        while let Some((first, rest)) = bytes.split_first() {
            self.reads = match self.reads {
                Reads::Other => return true,
                Reads::Preface(at) if PREFACE[at] != *first => Reads::Other,
                Reads::Preface(at) if at + 1 == PREFACE.len() => Reads::Head([0; 9], 0),
                Reads::Preface(at) => Reads::Preface(at + 1),
                Reads::Payload(left) => {
                    let taken = left.min(bytes.len());
                    bytes = &bytes[taken..];
                    self.reads = match left - taken {
                        0 => Reads::Head([0; 9], 0),
                        left => Reads::Payload(left),
                    };
                    continue;
                }
                Reads::Head(mut head, at) => {
                    head[at] = *first;
                    if at + 1 < head.len() {
                        Reads::Head(head, at + 1)
                    } else if self.take(&head) {
                        match u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize {
                            0 => Reads::Head([0; 9], 0),
                            length => Reads::Payload(length),
                        }
                    } else {
                        return false;
                    }
                }
            };
            bytes = rest;
        }
        true
    }

    /// Whether there is credit for a frame with this head (RFC 9113, section 4.1).
    fn take(&mut self, head: &[u8; 9]) -> bool {
        const DATA: u8 = 0;
        const HEADERS: u8 = 1;
        let is_empty = head[..3] == [0; 3];
        match head[3] {
            DATA if !is_empty => return true,
            HEADERS => {
                self.credit = CREDIT.min(self.credit + OF_A_REQUEST);
                return true;
            }
            _ => {}
        }
        let seconds = self.since.elapsed().as_secs();
        if seconds > 0 {
            self.since = Instant::now();
            self.credit = CREDIT.min(self.credit + seconds.saturating_mul(OF_A_SECOND));
        }
        match self.credit.checked_sub(1) {
            Some(left) => {
                self.credit = left;
                true
            }
            None => false,
        }
    }

    fn wrote(&mut self, polled: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(count)) = polled {
            self.written += *count as u64;
            self.credit = CREDIT.min(self.credit + self.written / BYTES);
            self.written %= BYTES;
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if polled.is_ready() && !self.look(&buffer.filled()[before..]) {
            let text = "the client sends too many frames that ask for nothing";
            return Poll::Ready(Err(io::Error::other(text)));
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wrote(&polled);
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.wrote(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn frame(kind: u8, payload: usize) -> Vec<u8> {
        let length = u32::try_from(payload).unwrap().to_be_bytes();
        let mut bytes = vec![length[1], length[2], length[3], kind, 0, 0, 0, 0, 1];
        bytes.resize(9 + payload, 7);
        bytes
    }

    #[test]
    fn frames_that_ask_for_nothing_use_credit_up_however_they_are_cut() {
        for size in [1, 7, 4096] {
            let mut counted = Counted::new(());
            assert!(counted.look(PREFACE));
            let pings = frame(6, 8).repeat(usize::try_from(CREDIT).unwrap());
            assert!(
                pings.chunks(size).all(|piece| counted.look(piece)),
                "{size}"
            );
            assert!(!counted.look(&frame(6, 8)), "{size}");
        }
    }

    #[test]
    fn bodies_requests_and_answers_cost_nothing() {
        let mut counted = Counted::new(());
        assert!(counted.look(PREFACE));
        for _ in 0..10_000 {
            assert!(counted.look(&frame(0, 100)) && counted.look(&frame(1, 20)));
            // Opening the windows for what was sent.
            counted.wrote(&Poll::Ready(Ok(16 << 10)));
            assert!(counted.look(&frame(8, 4).repeat(2)));
        }
    }

    #[test]
    fn http1_is_left_alone() {
        let mut counted = Counted::new(());
        assert!(counted.look(b"PRINT / HTTP/1.1\r\n"));
        assert!(counted.look(&frame(6, 8).repeat(5000)));
    }
}
