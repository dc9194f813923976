//! The log of one build, in memory while it runs.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use sless_core::{LogLine, LogOptions, LogSource, LogStream};
use tokio::sync::watch;

/// The most lines of one log.
const LINES_MAX: usize = 10_000;
/// The most bytes of text in one log: it is kept in the registry, as one blob that is read whole.
const BYTES_MAX: usize = 1 << 20;
/// The most bytes of one line.
const LINE_BYTES_MAX: usize = 16 << 10;

/// Lines, and whether more come. Clones are the same log.
#[derive(Clone, Debug, Default)]
pub(super) struct BuildLog(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    lines: Mutex<Vec<LogLine>>,
    bytes: AtomicUsize,
    /// How many lines there are, and whether that is all.
    progress: watch::Sender<(usize, bool)>,
}

impl BuildLog {
    /// One that is over.
    pub(super) fn ended(lines: Vec<LogLine>) -> Self {
        let log = Self::default();
        let count = lines.len();
        *log.lines() = lines;
        log.0.progress.send_replace((count, true));
        log
    }

    pub(super) fn add(&self, at: Timestamp, text: impl Into<String>) {
        let mut text = text.into();
        let truncated = text.len() > LINE_BYTES_MAX;
        if truncated {
            let fits = |at: &usize| text.is_char_boundary(*at);
            let end = (0..=LINE_BYTES_MAX).rev().find(fits).unwrap_or_default();
            text.truncate(end);
        }
        let mut lines = self.lines();
        // Only changed here, under the lock of the lines.
        let bytes = self.0.bytes.load(Ordering::Relaxed);
        if bytes > BYTES_MAX || lines.len() > LINES_MAX {
            return;
        }
        self.0.bytes.store(bytes + text.len(), Ordering::Relaxed);
        if bytes + text.len() > BYTES_MAX || lines.len() == LINES_MAX {
            text = format!("limit build_log of {LINES_MAX} lines or {BYTES_MAX} bytes reached");
        }
        // Times of a log never go back, whatever the clock does.
        let at = lines.last().map_or(at, |last| last.at.max(at));
        lines.push(LogLine {
            at,
            source: LogSource::Build,
            request_id: None,
            text,
            truncated,
        });
        self.0.progress.send_replace((lines.len(), false));
    }

    /// No more lines come.
    pub(super) fn close(&self) {
        self.0.progress.send_modify(|(_, over)| *over = true);
    }

    pub(super) fn all(&self) -> Vec<LogLine> {
        self.lines().clone()
    }

    /// The lines that are wanted, and, where they are followed, those that come until its end.
    pub(super) fn read(&self, options: &LogOptions) -> LogStream {
        let progress = self.0.progress.subscribe();
        let lines = self.all();
        let seen = lines.len();
        let since = |line: &LogLine| options.since.is_none_or(|since| line.at >= since);
        let mut wanted: Vec<_> = lines.into_iter().filter(since).collect();
        if let Some(tail) = options.tail {
            wanted.drain(..wanted.len().saturating_sub(tail));
        }
        let past = stream::iter(wanted.into_iter().map(Ok));
        if !options.follow {
            return past.boxed();
        }
        let later = stream::unfold(
            (self.clone(), progress, seen),
            async |(log, mut progress, seen)| {
                loop {
                    let (count, over) = *progress.borrow_and_update();
                    if count > seen {
                        let next = log.lines().get(seen).cloned()?;
                        return Some((Ok(next), (log, progress, seen + 1)));
                    }
                    if over || progress.changed().await.is_err() {
                        return None;
                    }
                }
            },
        );
        past.chain(later).boxed()
    }

    fn lines(&self) -> std::sync::MutexGuard<'_, Vec<LogLine>> {
        self.0.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
