//! A log that can be followed.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use futures::StreamExt as _;
use jiff::Timestamp;
use sless_core::{LogLine, LogOptions, LogSource, LogStream};
use tokio::sync::watch;

use super::lock;

/// The newest lines of a function or a job.
pub(crate) struct Log {
    lines: Mutex<VecDeque<(u64, LogLine)>>,
    most: usize,
    /// How many lines were written; `None` once no more will be.
    written: watch::Sender<Option<u64>>,
}

impl Log {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            lines: Mutex::default(),
            most,
            written: watch::Sender::new(Some(0)),
        })
    }

    pub(crate) fn write(&self, source: LogSource, request_id: Option<&str>, text: &str) {
        let mut lines = lock(&self.lines);
        for text in text.lines() {
            let Some(number) = *self.written.borrow() else {
                return;
            };
            if lines.len() == self.most {
                lines.pop_front();
            }
            let line = LogLine {
                at: Timestamp::now(),
                source,
                request_id: request_id.map(str::to_owned),
                text: text.to_owned(),
                truncated: false,
            };
            lines.push_back((number, line));
            self.written.send_replace(Some(number + 1));
        }
    }

    pub(crate) fn close(&self) {
        self.written.send_replace(None);
    }

    /// The lines from this number on.
    fn from(&self, number: u64) -> VecDeque<(u64, LogLine)> {
        lock(&self.lines)
            .iter()
            .filter(|(at, _)| *at >= number)
            .cloned()
            .collect()
    }

    pub(crate) fn read(self: Arc<Self>, options: LogOptions) -> LogStream {
        let all = self.from(0);
        let next = all.back().map_or(0, |(number, _)| number + 1);
        let since = |line: &LogLine| options.since.is_none_or(|since| line.at >= since);
        let past: Vec<_> = all
            .into_iter()
            .map(|(_, line)| line)
            .filter(since)
            .collect();
        let skipped = past
            .len()
            .saturating_sub(options.tail.unwrap_or(usize::MAX));
        let past = futures::stream::iter(past.into_iter().skip(skipped).map(Ok));
        if !options.follow {
            return past.boxed();
        }
        let state = (self.written.subscribe(), self, next, VecDeque::new());
        let later =
            futures::stream::unfold(state, |(mut written, log, next, mut ready)| async move {
                let mut next = next;
                while ready.is_empty() {
                    // Looked at before the lines are, so that none comes in between unseen.
                    let ended = written.borrow_and_update().is_none();
                    ready = log.from(next);
                    if ready.is_empty() && (ended || written.changed().await.is_err()) {
                        return None;
                    }
                }
                let (number, line) = ready.pop_front()?;
                next = next.max(number + 1);
                Some((Ok(line), (written, log, next, ready)))
            });
        past.chain(later).boxed()
    }
}
