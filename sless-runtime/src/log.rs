//! Log lines of a worker: where they go, and how raw output becomes lines.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use crate::pace::Pace;

/// Where a line was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error, and the traces of handler errors.
    Stderr,
}

impl LogStream {
    /// `stdout` or `stderr`.
    pub fn name(self) -> &'static str {
        match self {
            LogStream::Stdout => "stdout",
            LogStream::Stderr => "stderr",
        }
    }
}

/// One line of a function's log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogLine {
    /// When the host received it.
    pub time: SystemTime,
    /// Where it was written.
    pub stream: LogStream,
    /// The call that wrote it. `None` for output during the import, from threads that belong to
    /// no call, and from subprocesses, which write to the inherited descriptors.
    pub request_id: Option<String>,
    /// The line without its end. Bytes that are no UTF-8 are replaced.
    pub text: String,
    /// Whether the line was longer than
    /// [`Limits::max_log_line_bytes`](crate::Limits::max_log_line_bytes) and is cut.
    pub truncated: bool,
}

/// Takes a worker's log lines.
///
/// It is called on the host's tasks: `write` must return at once. A sink that is slower than its
/// function has to drop lines, and to count them.
pub trait LogSink: fmt::Debug + Send + Sync + 'static {
    /// Takes one line.
    fn write(&self, line: LogLine);
}

/// A sink that keeps nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiscardLogs;

impl LogSink for DiscardLogs {
    fn write(&self, _line: LogLine) {}
}

/// A sink in front of another one that remembers the newest lines.
#[derive(Debug)]
pub(crate) struct Tail {
    sink: Arc<dyn LogSink>,
    limit: usize,
    kept: Mutex<Kept>,
    pub(crate) pace: Pace,
}

/// The newest lines within a number of bytes, each with its line end.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    lines: VecDeque<String>,
    bytes: usize,
}

impl Kept {
    pub(crate) fn add(&mut self, line: &str, limit: usize) {
        let text = end_of(line, limit.saturating_sub(1));
        self.bytes += text.len() + 1;
        self.lines.push_back(text.to_owned());
        while self.bytes > limit {
            let Some(oldest) = self.lines.pop_front() else {
                break;
            };
            self.bytes -= oldest.len() + 1;
        }
    }

    /// The lines, oldest first.
    pub(crate) fn text(&self) -> String {
        let mut text = String::with_capacity(self.bytes);
        for line in &self.lines {
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}

impl Tail {
    pub(crate) fn new(sink: Arc<dyn LogSink>, limit: usize) -> Self {
        Self {
            sink,
            limit,
            kept: Mutex::default(),
            pace: Pace::new(0, 0),
        }
    }

    /// With a limit of what is written in a second, and of what is written at once.
    pub(crate) fn paced(mut self, rate: u64, burst: u64) -> Self {
        self.pace = Pace::new(rate, burst);
        self
    }

    pub(crate) fn write(&self, line: LogLine) {
        self.pace.spend_line();
        {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.add(&line.text, self.limit);
        }
        self.sink.write(line);
    }

    /// The newest lines, oldest first, each with its line end.
    pub(crate) fn text(&self) -> String {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.text()
    }
}

/// The last `limit` bytes of a text, moved on to the next character's start.
fn end_of(text: &str, limit: usize) -> &str {
    let mut start = text.len().saturating_sub(limit);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// Cuts raw output into lines of bounded length.
///
/// What is longer than the limit is given once, cut and marked, and the rest of that line is
/// dropped; so a line without end costs no more memory than the limit.
#[derive(Debug)]
pub(crate) struct LineCutter {
    limit: usize,
    line: Vec<u8>,
    skipping: bool,
}

impl LineCutter {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit: limit.max(1),
            line: Vec::new(),
            skipping: false,
        }
    }

    /// Takes the next bytes and gives each line that they end.
    pub(crate) fn push(&mut self, mut bytes: &[u8], mut give: impl FnMut(String, bool)) {
        while !bytes.is_empty() {
            let end = bytes.iter().position(|&byte| byte == b'\n');
            let part = &bytes[..end.unwrap_or(bytes.len())];
            if !self.skipping {
                let room = self.limit - self.line.len();
                self.line.extend_from_slice(&part[..part.len().min(room)]);
                if part.len() > room {
                    // Given at once: the line's end may never come.
                    self.give(true, &mut give);
                    self.skipping = true;
                }
            }
            let Some(end) = end else { return };
            if !self.skipping {
                self.give(false, &mut give);
            }
            self.skipping = false;
            bytes = &bytes[end + 1..];
        }
    }

    /// Gives what is left when the output ends without a line end.
    pub(crate) fn finish(&mut self, mut give: impl FnMut(String, bool)) {
        if !self.line.is_empty() {
            self.give(false, &mut give);
        }
    }

    fn give(&mut self, truncated: bool, give: &mut impl FnMut(String, bool)) {
        if !truncated && self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        if truncated {
            drop_cut_character(&mut self.line);
        }
        give(String::from_utf8_lossy(&self.line).into_owned(), truncated);
        self.line.clear();
    }
}

/// Takes off the bytes of a UTF-8 character that the cut went through.
fn drop_cut_character(line: &mut Vec<u8>) {
    if let Err(error) = std::str::from_utf8(line)
        && error.error_len().is_none()
    {
        line.truncate(error.valid_up_to());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cut(limit: usize, parts: &[&[u8]]) -> Vec<(String, bool)> {
        let mut cutter = LineCutter::new(limit);
        let mut lines = Vec::new();
        for part in parts {
            cutter.push(part, |text, cut| lines.push((text, cut)));
        }
        cutter.finish(|text, cut| lines.push((text, cut)));
        lines
    }

    #[test]
    fn a_long_line_is_cut_once_and_the_next_one_is_whole() {
        let lines = cut(5, &[b"abc", b"defg", b"hi\nnext\r\n", b"end"]);
        let shown: Vec<_> = lines
            .iter()
            .map(|(text, cut)| (text.as_str(), *cut))
            .collect();
        assert_eq!(shown, [("abcde", true), ("next", false), ("end", false)]);
    }

    #[test]
    fn a_cut_spares_whole_characters() {
        assert_eq!(cut(4, &["aöäü\n".as_bytes()]), [("aö".to_owned(), true)]);
    }

    #[test]
    fn the_tail_is_bounded() {
        let tail = Tail::new(Arc::new(DiscardLogs), 16);
        for number in 0..100 {
            tail.write(LogLine {
                time: SystemTime::now(),
                stream: LogStream::Stdout,
                request_id: None,
                text: format!("line {number}"),
                truncated: false,
            });
        }
        assert_eq!(tail.text(), "line 98\nline 99\n");
    }

    proptest! {
        #[test]
        fn how_output_arrives_does_not_matter(
            text in "[a-z\n\r]{0,200}", at in 0usize..200, limit in 1usize..40,
        ) {
            let bytes = text.as_bytes();
            let at = at.min(bytes.len());
            prop_assert_eq!(cut(limit, &[bytes]), cut(limit, &[&bytes[..at], &bytes[at..]]));
        }

        #[test]
        fn short_lines_come_out_as_they_went_in(lines in prop::collection::vec("[a-zäöü]{1,20}", 0..20)) {
            let text = lines.join("\n");
            let out: Vec<String> = cut(64, &[text.as_bytes()]).into_iter().map(|(text, _)| text).collect();
            prop_assert_eq!(out, lines);
        }
    }
}
