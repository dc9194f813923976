//! One socket of a worker, on which one call runs at a time.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWrite};

use crate::answer::Answer;
pub(crate) use crate::answer::Said;
use crate::frame::{self, Header, Malformed};
use crate::system::Stream;
use crate::worker::Worker;
use crate::worker_log::{WorkerLog, ticket};

/// The largest buffer that is kept from one frame to the next.
const KEPT: usize = 128 * 1024;

#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) worker: Arc<Worker>,
    stream: Stream,
    /// What the worker says.
    pub(crate) answer: Answer,
    /// Encoded frames, and after them the payload of the last one, that are still to be written.
    output: BytesMut,
    payload: Bytes,
    /// The request's body has been ended, by END or by CANCEL.
    pub(crate) sent_end: bool,
    /// The worker's log, and this slot's number in it.
    log: (Arc<WorkerLog>, usize),
    /// How many calls began here.
    calls: u32,
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
            answer: Answer::new(max_head),
            output: BytesMut::new(),
            payload: Bytes::new(),
            sent_end: true,
            log,
            calls: 0,
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
        self.answer.begin();
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
        self.answer.got_end = true;
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
        self.sent_end && self.output.is_empty() && self.payload.is_empty() && self.answer.is_clean()
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
        if self.output.capacity() > KEPT {
            self.output = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }

    /// Reads what the worker says next.
    pub(crate) fn poll_said(&mut self, cx: &mut Context<'_>) -> Poll<Result<Said, Broken>> {
        loop {
            if let Some(said) = self.answer.take()? {
                return Poll::Ready(Ok(said));
            }
            let read = pin!(self.stream.read_buf(self.answer.room()));
            if ready!(read.poll(cx))? == 0 {
                return Poll::Ready(Err(Broken::Closed));
            }
        }
    }

    /// The whole body of the answer, if it has already been read.
    pub(crate) fn take_whole_body(&mut self) -> Option<Bytes> {
        self.answer.take_whole_body()
    }
}
