//! Log lines on standard output or standard error.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::UNIX_EPOCH;

use serde::Serialize;
use sless_runtime::{LogLine, LogSink};

/// Lines that wait to be written. What comes while it is full is dropped and counted.
const WAITING_LINES: usize = 4096;

/// Writes lines on a thread of its own, so that a slow reader never holds a call up.
#[derive(Debug)]
pub(crate) struct LineWriter {
    lines: SyncSender<Option<LogLine>>,
    dropped: AtomicU64,
}

impl LineWriter {
    /// The sink, and the thread that ends after [`LineWriter::close`].
    pub(crate) fn start(
        mut to: impl Write + Send + 'static,
        json: bool,
    ) -> io::Result<(Self, JoinHandle<()>)> {
        let (lines, waiting) = sync_channel(WAITING_LINES);
        let thread = std::thread::Builder::new().name("sless-logs".to_owned());
        let thread = thread.spawn(move || write_all(&waiting, &mut to, json))?;
        Ok((
            Self {
                lines,
                dropped: AtomicU64::new(0),
            },
            thread,
        ))
    }

    /// Writes what waits and ends the thread.
    pub(crate) fn close(&self) {
        // It fails when the thread has ended already.
        let _ = self.lines.send(None);
    }
}

impl LogSink for LineWriter {
    fn write(&self, mut line: LogLine) {
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            line.text = format!("[{dropped} lines dropped] {}", line.text);
        }
        if let Err(TrySendError::Full(_)) = self.lines.try_send(Some(line)) {
            self.dropped.fetch_add(dropped + 1, Ordering::Relaxed);
        }
    }
}

/// One line in JSON form.
#[derive(Debug, Serialize)]
struct Record<'a> {
    /// Milliseconds since 1970.
    time_ms: u64,
    stream: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
    text: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

fn write_all(waiting: &Receiver<Option<LogLine>>, to: &mut impl Write, json: bool) {
    while let Ok(Some(line)) = waiting.recv() {
        let written = if json {
            write_json(&line, to)
        } else {
            write_text(&line, to)
        };
        // A line that waits is not held back; and when nobody reads, there is nothing to do.
        if written.and_then(|()| to.flush()).is_err() {
            return;
        }
    }
}

fn write_json(line: &LogLine, to: &mut impl Write) -> io::Result<()> {
    let time = line.time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let record = Record {
        time_ms: time.as_millis() as u64,
        stream: line.stream.name(),
        request_id: line.request_id.as_deref(),
        text: &line.text,
        truncated: line.truncated,
    };
    let mut text = serde_json::to_vec(&record)?;
    text.push(b'\n');
    to.write_all(&text)
}

fn write_text(line: &LogLine, to: &mut impl Write) -> io::Result<()> {
    let id = line.request_id.as_deref().unwrap_or("-");
    let mark = if line.truncated { " [cut]" } else { "" };
    writeln!(to, "{id} {}{mark}", line.text)
}
