//! One socket of a worker, on which one call runs at a time.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWrite};

use crate::error::HandlerError;
use crate::frame::{self, BadHead, Header, Malformed, ResponseHead};
use crate::system::Stream;
use crate::worker::Worker;
use crate::worker_log::{WorkerLog, ticket};

/// Room for an answer of usual size.
const SMALL_READ: usize = 4 * 1024;
/// Room for the frames of a stream.
const LARGE_READ: usize = 128 * 1024;

#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) worker: Arc<Worker>,
    stream: Stream,
    input: BytesMut,
    /// Encoded frames, and after them the payload of the last one, that are still to be written.
    output: BytesMut,
    payload: Bytes,
    /// Bytes of the current frame that have not been given yet, and whether it is the last.
    frame_left: usize,
    frame_ends: bool,
    max_head: usize,
    /// The request's body has been ended, by END or by CANCEL.
    pub(crate) sent_end: bool,
    /// The answer has been ended.
    pub(crate) got_end: bool,
    /// The worker's log, and this slot's number in it.
    log: (Arc<WorkerLog>, usize),
    /// How many calls began here.
    calls: u32,
    /// The answer's end said that the call has written lines.
    pub(crate) logged: bool,
}

/// What the worker says on a slot.
#[derive(Debug)]
pub(crate) enum Said {
    Head {
        head: Result<ResponseHead, BadHead>,
        is_error: bool,
        /// The body's length, where the frame holds all of it.
        length: Option<usize>,
    },
    Data(Bytes),
    End,
    Fail(HandlerError),
}

/// Why a slot is of no use any more.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The worker closed it, so it has ended or is about to.
    Closed,
    /// As before, and it had not read all that was sent.
    Unread,
    Malformed(Malformed),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        // unix(7): a peer that closes with unread data in its queue resets the connection.
        match error.kind() {
            io::ErrorKind::ConnectionReset if cfg!(target_os = "linux") => Broken::Unread,
            _ => Broken::Closed,
        }
    }
}

impl From<Malformed> for Broken {
    fn from(malformed: Malformed) -> Self {
        Broken::Malformed(malformed)
    }
}

impl Slot {
    pub(crate) fn new(
        worker: Arc<Worker>,
        stream: Stream,
        log: (Arc<WorkerLog>, usize),
        max_head: usize,
    ) -> Self {
        Self {
            worker,
            stream,
            input: BytesMut::new(),
            output: BytesMut::new(),
            payload: Bytes::new(),
            frame_left: 0,
            frame_ends: false,
            max_head,
            sent_end: true,
            got_end: true,
            log,
            calls: 0,
            logged: false,
        }
    }

    /// Begins a call, of whose log so many bytes are wanted.
    pub(crate) fn queue_call(
        &mut self,
        call: &frame::Call<'_>,
        body: &[u8],
        end: bool,
        log_bytes: usize,
    ) {
        self.sent_end = end;
        self.got_end = false;
        self.frame_left = 0;
        self.frame_ends = false;
        self.logged = false;
        self.calls = self.calls.wrapping_add(1);
        let (log, number) = &self.log;
        let ticket = ticket(*number, self.calls);
        log.begin(*number, ticket, log_bytes);
        call.encode(ticket, body, end, &mut self.output);
    }

    /// Takes a CALL back of which nothing was written.
    pub(crate) fn forget_call(&mut self) {
        self.output.clear();
        self.sent_end = true;
        self.got_end = true;
    }

    /// Queues a piece of the request's body; what was queued before must be written.
    pub(crate) fn queue_data(&mut self, data: Bytes, end: bool) {
        self.sent_end = end;
        let flags = if end { frame::END } else { 0 };
        Header {
            kind: frame::DATA,
            flags,
            length: data.len(),
        }
        .encode(&mut self.output);
        self.payload = data;
    }

    /// Tells the worker that the client has left; what was queued before must be written.
    pub(crate) fn queue_cancel(&mut self) {
        self.sent_end = true;
        Header {
            kind: frame::CANCEL,
            flags: frame::END,
            length: 0,
        }
        .encode(&mut self.output);
    }

    /// The newest lines of the call.
    pub(crate) fn log_tail(&self) -> String {
        let (log, number) = &self.log;
        log.end(*number, ticket(*number, self.calls))
    }

    /// Whether the slot can take the next call.
    pub(crate) fn is_clean(&self) -> bool {
        self.sent_end
            && self.got_end
            && self.output.is_empty()
            && self.payload.is_empty()
            && self.input.is_empty()
    }

    /// How many bytes are still to be written.
    pub(crate) fn unsent(&self) -> usize {
        self.output.len() + self.payload.len()
    }

    /// Writes what is queued.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.output.is_empty() {
            let stream = Pin::new(&mut self.stream);
            let written = if self.payload.is_empty() {
                ready!(stream.poll_write(cx, &self.output))?
            } else {
                let parts = [
                    io::IoSlice::new(&self.output),
                    io::IoSlice::new(&self.payload),
                ];
                ready!(stream.poll_write_vectored(cx, &parts))?
            };
            let head = written.min(self.output.len());
            self.output.advance(head);
            self.payload.advance(written - head);
        }
        while !self.payload.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.payload))?;
            self.payload.advance(written);
        }
        // Lets go of the caller's buffer, and of a large one of our own.
        self.payload = Bytes::new();
        if self.output.capacity() > LARGE_READ {
            self.output = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }

    /// Reads what the worker says next.
    pub(crate) fn poll_said(&mut self, cx: &mut Context<'_>) -> Poll<Result<Said, Broken>> {
        loop {
            if let Some(said) = self.take_said()? {
                return Poll::Ready(Ok(said));
            }
            self.input.reserve(if self.frame_left > 0 {
                LARGE_READ
            } else {
                SMALL_READ
            });
            let read = pin!(self.stream.read_buf(&mut self.input));
            if ready!(read.poll(cx))? == 0 {
                return Poll::Ready(Err(Broken::Closed));
            }
        }
    }

    fn take_said(&mut self) -> Result<Option<Said>, Malformed> {
        if self.frame_left > 0 {
            if self.input.is_empty() {
                return Ok(None);
            }
            let length = self.frame_left.min(self.input.len());
            self.frame_left -= length;
            return Ok(Some(Said::Data(self.input.split_to(length).freeze())));
        }
        if self.frame_ends {
            self.frame_ends = false;
            self.got_end = true;
            return Ok(Some(Said::End));
        }
        let Some(header) = Header::peek(&self.input)? else {
            return Ok(None);
        };
        if header.flags & frame::LOGGED != 0 {
            self.logged = true;
        }
        match header.kind {
            frame::DATA => {
                self.input.advance(frame::HEADER);
                self.frame_left = header.length;
                self.frame_ends = header.ends();
                self.take_said()
            }
            frame::RESPONSE => self.take_head(header),
            frame::FAIL => {
                if header.length > self.max_head {
                    return Err(Malformed("an error longer than max_response_head_bytes"));
                }
                let Some((_, payload)) = frame::take_frame(&mut self.input, self.max_head)? else {
                    return Ok(None);
                };
                self.got_end = true;
                let (kind, message) = frame::word_and_rest(&payload)?;
                Ok(Some(Said::Fail(HandlerError { kind, message })))
            }
            _ => Err(Malformed("a frame of an unknown kind")),
        }
    }

    fn take_head(&mut self, header: Header) -> Result<Option<Said>, Malformed> {
        const FIXED: usize = frame::HEADER + frame::RESPONSE_FIXED;
        if header.length < frame::RESPONSE_FIXED {
            return Err(Malformed("a cut response"));
        }
        if self.input.len() < FIXED {
            return Ok(None);
        }
        let mut fixed = &self.input[frame::HEADER..FIXED];
        let (status, media, _) = (fixed.get_u16(), fixed.get_u8(), fixed.get_u8());
        let headers = fixed.get_u32() as usize;
        if headers > self.max_head {
            return Err(Malformed("headers longer than max_response_head_bytes"));
        }
        let Some(body) = (header.length - frame::RESPONSE_FIXED).checked_sub(headers) else {
            return Err(Malformed("headers longer than their frame"));
        };
        if self.input.len() < FIXED + headers {
            return Ok(None);
        }
        let head = frame::response_head(status, media, &self.input[FIXED..FIXED + headers])?;
        self.input.advance(FIXED + headers);
        self.frame_left = body;
        self.frame_ends = header.ends();
        let length = header.ends().then_some(body);
        Ok(Some(Said::Head {
            head,
            is_error: header.flags & frame::ERROR != 0,
            length,
        }))
    }

    /// The whole body of the answer, if it has already been read.
    pub(crate) fn take_whole_body(&mut self) -> Option<Bytes> {
        if !self.frame_ends || self.input.len() < self.frame_left {
            return None;
        }
        let body = self.input.split_to(self.frame_left).freeze();
        self.frame_left = 0;
        self.frame_ends = false;
        self.got_end = true;
        Some(body)
    }
}
