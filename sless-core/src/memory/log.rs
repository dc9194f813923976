//! A bounded log that can be followed.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use futures::StreamExt as _;
use jiff::Timestamp;
use tokio::sync::watch;

use super::lock;
use crate::{LogLine, LogOptions, LogSource, LogStream};

/// How many lines a reader takes at a time.
const BATCH: usize = 256;

/// The newest lines of one build, function or job.
#[derive(Debug)]
pub(super) struct LogRing {
    ring: Mutex<Ring>,
    tick: watch::Sender<()>,
    lines_max: usize,
    line_bytes_max: usize,
}

#[derive(Debug, Default)]
struct Ring {
    /// How many lines came before the first one that is kept.
    dropped: u64,
    lines: VecDeque<LogLine>,
    closed: bool,
}

impl LogRing {
    pub(super) fn new(lines_max: usize, line_bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            ring: Mutex::default(),
            tick: watch::Sender::new(()),
            lines_max: lines_max.max(1),
            line_bytes_max: line_bytes_max.max(1),
        })
    }

    /// Appends text, line by line.
    pub(super) fn write(
        &self,
        at: Timestamp,
        source: LogSource,
        request_id: Option<&str>,
        text: &str,
    ) {
        {
            let mut ring = lock(&self.ring);
            for line in text.lines() {
                let mut end = line.len().min(self.line_bytes_max);
                while !line.is_char_boundary(end) {
                    end -= 1;
                }
                if ring.lines.len() == self.lines_max {
                    ring.lines.pop_front();
                    ring.dropped += 1;
                }
                ring.lines.push_back(LogLine {
                    at,
                    source,
                    request_id: request_id.map(str::to_owned),
                    text: line[..end].to_owned(),
                    truncated: end < line.len(),
                });
            }
        }
        self.tick.send_replace(());
    }

    /// Says that no line follows. Readers that follow end behind the last one.
    pub(super) fn close(&self) {
        lock(&self.ring).closed = true;
        self.tick.send_replace(());
    }

    /// All lines as one text.
    pub(super) fn text(&self) -> String {
        let ring = lock(&self.ring);
        let lines: Vec<_> = ring.lines.iter().map(|line| line.text.as_str()).collect();
        lines.join("\n")
    }

    /// Reads what was written, and what will be where the options say so. A reader that falls behind
    /// by more than the ring holds is told how many lines it missed.
    pub(super) fn read(self: &Arc<Self>, options: &LogOptions) -> LogStream {
        let tick = self.tick.subscribe();
        let (past, next) = {
            let ring = lock(&self.ring);
            let since = options.since.unwrap_or(Timestamp::MIN);
            let wanted: Vec<_> = ring.lines.iter().filter(|line| line.at >= since).collect();
            let skipped = wanted
                .len()
                .saturating_sub(options.tail.unwrap_or(usize::MAX));
            let past: VecDeque<LogLine> = wanted[skipped..].iter().copied().cloned().collect();
            (past, ring.dropped + ring.lines.len() as u64)
        };
        let past = futures::stream::iter(past).map(Ok);
        if !options.follow {
            return past.boxed();
        }
        let reader = Reader {
            ring: Arc::clone(self),
            tick,
            next,
            batch: VecDeque::new(),
        };
        let following = futures::stream::unfold(reader, |mut reader| async {
            let line = reader.next().await?;
            Some((Ok(line), reader))
        });
        past.chain(following).boxed()
    }
}

struct Reader {
    ring: Arc<LogRing>,
    tick: watch::Receiver<()>,
    next: u64,
    batch: VecDeque<LogLine>,
}

impl Reader {
    async fn next(&mut self) -> Option<LogLine> {
        loop {
            if let Some(line) = self.batch.pop_front() {
                return Some(line);
            }
            self.tick.mark_unchanged();
            if self.fill() {
                return None;
            }
            // The ring holds the sender, so an error cannot come.
            if self.batch.is_empty() && self.tick.changed().await.is_err() {
                return None;
            }
        }
    }

    /// Takes what is there, and answers whether nothing more will be.
    fn fill(&mut self) -> bool {
        let ring = lock(&self.ring.ring);
        if self.next < ring.dropped {
            let missed = ring.dropped - self.next;
            self.next = ring.dropped;
            self.batch.push_back(LogLine {
                at: ring.lines.front().map_or(Timestamp::MIN, |line| line.at),
                source: LogSource::System,
                request_id: None,
                text: format!("{missed} lines were dropped: the reader is too slow"),
                truncated: false,
            });
        }
        let from = usize::try_from(self.next - ring.dropped).unwrap_or(usize::MAX);
        let lines = ring.lines.iter().skip(from).take(BATCH);
        let before = self.batch.len();
        self.batch.extend(lines.cloned());
        self.next += (self.batch.len() - before) as u64;
        self.batch.is_empty() && ring.closed
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn texts(lines: Vec<crate::Result<LogLine>>) -> Vec<String> {
        lines
            .into_iter()
            .map(|line| line.expect("a line").text)
            .collect()
    }

    #[tokio::test]
    async fn a_reader_that_follows_gets_every_line_and_ends_with_the_log() {
        let ring = LogRing::new(10, 100);
        ring.write(Timestamp::MIN, LogSource::Stdout, None, "a\nb");
        let mut stream = ring.read(&LogOptions::default().following().with_tail(1));
        assert_eq!(stream.next().await.expect("b").expect("a line").text, "b");
        assert!(stream.next().now_or_never().is_none());
        ring.write(Timestamp::MIN, LogSource::Stdout, None, "c");
        ring.close();
        assert_eq!(texts(stream.collect().await), ["c"]);
    }

    #[tokio::test]
    async fn old_lines_go_and_a_slow_reader_is_told() {
        let ring = LogRing::new(2, 3);
        let stream = ring.read(&LogOptions::default().following());
        ring.write(Timestamp::MIN, LogSource::Stdout, None, "1\n2\n3\nlong é");
        ring.close();
        let lines = texts(stream.collect().await);
        assert_eq!(
            lines,
            ["2 lines were dropped: the reader is too slow", "3", "lon"]
        );
        assert_eq!(ring.text(), "3\nlon");
    }
}
