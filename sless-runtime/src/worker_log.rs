//! The log socket of a worker: lines go to the sink, and to the call that wrote them.
//!
//! A worker writes the lines of a call before the end of its answer, on another socket. Whoever reads
//! that end and wants the call's lines reads the log socket empty first, so that none is missing; it
//! need not wait for the task that does so otherwise.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use bytes::BytesMut;
use tokio::io::Interest;

use crate::frame;
use crate::log::{Kept, LogLine, LogStream, Tail};
use crate::system::{Stream, receive};

/// What is read at once. Each line of it is made a record of before anybody else gets this thread, and a
/// flood of short lines is hundreds of them.
const READ: usize = 4 * 1024;
/// A LOG frame's own fields and the request id, beside the line.
const LOG_OVERHEAD: usize = 12 + 1024;
/// What is read at most to find a call's last lines. The kernel holds less for one socket, so this is
/// reached only where other calls go on writing meanwhile.
const SETTLE_BYTES_MAX: usize = 1 << 20;

/// The log of one worker.
#[derive(Debug)]
pub(crate) struct WorkerLog {
    socket: Stream,
    sink: Arc<Tail>,
    /// The longest line.
    limit: usize,
    reading: Mutex<Reading>,
    /// What the call on each slot has written.
    slots: Vec<Mutex<SlotLog>>,
}

#[derive(Debug)]
struct Reading {
    scratch: Box<[u8]>,
    buffer: BytesMut,
    /// The worker broke the protocol: it is read on and ignored, so that it does not hang.
    broken: bool,
}

#[derive(Debug, Default)]
struct SlotLog {
    ticket: u64,
    /// How many bytes somebody wants; 0 is nobody.
    limit: usize,
    kept: Kept,
}

impl WorkerLog {
    pub(crate) fn new(socket: Stream, sink: Arc<Tail>, limit: usize, slots: usize) -> Self {
        Self {
            socket,
            sink,
            limit,
            reading: Mutex::new(Reading {
                scratch: vec![0; READ].into_boxed_slice(),
                buffer: BytesMut::new(),
                broken: false,
            }),
            slots: (0..slots).map(|_| Mutex::default()).collect(),
        }
    }

    /// Reads until the worker closes the socket.
    pub(crate) async fn read(self: Arc<Self>) {
        loop {
            let Ok(ready) = self.socket.ready(Interest::READABLE).await else {
                return;
            };
            // What a worker wrote before its end is read at once.
            if !ready.is_read_closed()
                && let Some(pause) = self.sink.pace.pause()
            {
                tokio::time::sleep(pause).await;
            }
            match self.read_once() {
                Ok(0) => return,
                Ok(length) if length < READ => {}
                // There may be much more.
                Ok(_) => tokio::task::yield_now().await,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    /// Reads what is there, up to [`READ`] bytes; 0 is the end.
    fn read_once(&self) -> io::Result<usize> {
        let mut reading = lock(&self.reading);
        let scratch = &mut reading.scratch;
        let length = self
            .socket
            .try_io(Interest::READABLE, || receive(&self.socket, scratch))?;
        if length > 0 {
            self.take(&mut reading, length);
        }
        Ok(length)
    }

    /// A call begins on this slot, of whose lines so many bytes are wanted.
    pub(crate) fn begin(&self, slot: usize, ticket: u64, limit: usize) {
        if let Some(slot) = self.slots.get(slot) {
            let mut slot = lock(slot);
            *slot = SlotLog {
                ticket,
                limit,
                kept: Kept::default(),
            };
        }
    }

    /// The newest lines that this call has written until now.
    pub(crate) fn end(&self, slot: usize, ticket: u64) -> String {
        self.settle();
        let Some(slot) = self.slots.get(slot) else {
            return String::new();
        };
        let slot = std::mem::take(&mut *lock(slot));
        if slot.ticket == ticket {
            slot.kept.text()
        } else {
            String::new()
        }
    }

    /// Reads what the kernel holds.
    fn settle(&self) {
        let mut reading = lock(&self.reading);
        let mut left = SETTLE_BYTES_MAX;
        // A function that floods its log may miss its last lines there; they are read later.
        while left > 0 && !self.sink.pace.is_flooded() {
            let scratch = &mut reading.scratch;
            // Past the runtime, which may not know yet that there is something to read. The end of
            // the socket is left for the task.
            let Ok(length @ 1..) = receive(&self.socket, scratch) else {
                return;
            };
            self.take(&mut reading, length);
            left = left.saturating_sub(length);
        }
    }

    fn take(&self, reading: &mut Reading, length: usize) {
        self.sink.pace.spend(length);
        if reading.broken {
            return;
        }
        reading.buffer.extend_from_slice(&reading.scratch[..length]);
        loop {
            match frame::take_frame(&mut reading.buffer, self.limit + LOG_OVERHEAD) {
                Ok(Some((header, payload))) if header.kind == frame::LOG => {
                    if let Ok(log) = frame::log(&payload) {
                        self.give(log);
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(_) => {
                    reading.broken = true;
                    reading.buffer = BytesMut::new();
                    return;
                }
            }
        }
    }

    fn give(&self, log: frame::Log) {
        if let Some(slot) = self.slots.get(slot_of(log.ticket)) {
            let mut slot = lock(slot);
            if slot.limit > 0 && slot.ticket == log.ticket {
                let limit = slot.limit;
                slot.kept.add(&log.text, limit);
            }
        }
        self.sink.write(LogLine {
            time: SystemTime::now(),
            stream: if log.stream == 2 {
                LogStream::Stderr
            } else {
                LogStream::Stdout
            },
            request_id: Some(log.request_id).filter(|id| !id.is_empty()),
            text: log.text,
            truncated: log.truncated,
        });
    }
}

/// Names the call with this number on this slot; 0 is none.
pub(crate) fn ticket(slot: usize, call: u32) -> u64 {
    ((slot as u64 + 1) << 32) | u64::from(call)
}

/// The slot of a call; one that is not there for none.
fn slot_of(ticket: u64) -> usize {
    usize::try_from(ticket >> 32)
        .ok()
        .and_then(|slot| slot.checked_sub(1))
        .unwrap_or(usize::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::log::DiscardLogs;

    fn frame(ticket: u64, text: &str) -> Vec<u8> {
        let mut frame = vec![1, frame::LOG, 0, 0];
        frame.extend_from_slice(&(12 + text.len() as u32).to_be_bytes());
        frame.extend_from_slice(&[1, 0, 0, 0]);
        frame.extend_from_slice(&ticket.to_be_bytes());
        frame.extend_from_slice(text.as_bytes());
        frame
    }

    #[tokio::test]
    async fn a_call_gets_its_own_lines_all_of_them_and_no_late_ones() {
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let socket = Stream::from_std(ours).unwrap();
        let sink = Arc::new(Tail::new(Arc::new(DiscardLogs), 1024));
        let log = WorkerLog::new(socket, sink.clone(), 100, 2);
        let (first, other) = (ticket(0, 1), ticket(1, 1));
        log.begin(0, first, 20);
        log.begin(1, other, 0);
        for number in 0..9 {
            theirs
                .write_all(&frame(first, &format!("line {number}")))
                .unwrap();
            theirs.write_all(&frame(other, "another call's")).unwrap();
        }
        theirs.write_all(&frame(0, "nobody's")).unwrap();
        // Nothing but this reads the socket.
        assert_eq!(log.end(0, first), "line 7\nline 8\n");
        assert_eq!(log.end(0, first), "", "it was taken");
        assert_eq!(log.end(1, other), "", "nobody wanted it");
        assert!(sink.text().ends_with("nobody's\n"));
        // A thread of the first call writes on while the next call runs.
        let second = ticket(0, 2);
        log.begin(0, second, 20);
        theirs.write_all(&frame(first, "late")).unwrap();
        theirs.write_all(&frame(second, "mine")).unwrap();
        assert_eq!(log.end(0, second), "mine\n");
    }

    #[tokio::test]
    async fn what_is_read_at_the_end_of_a_call_does_not_stall_the_task() {
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let socket = Stream::from_std(ours).unwrap();
        let sink = Arc::new(Tail::new(Arc::new(DiscardLogs), 1024));
        let log = Arc::new(WorkerLog::new(socket, sink.clone(), 100, 1));
        let task = tokio::spawn(log.clone().read());
        theirs.write_all(&frame(0, "one")).unwrap();
        log.settle();
        assert_eq!(sink.text(), "one\n");
        tokio::task::yield_now().await;
        theirs.write_all(&frame(0, "two")).unwrap();
        drop(theirs);
        task.await.unwrap();
        assert_eq!(sink.text(), "one\ntwo\n");
    }

    #[test]
    fn tickets_name_slots() {
        assert_eq!(slot_of(0), usize::MAX);
        assert_eq!(slot_of(ticket(0, 0)), 0);
        assert_eq!(slot_of(ticket(1023, u32::MAX)), 1023);
    }
}
