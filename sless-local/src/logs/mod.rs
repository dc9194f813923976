//! Log lines in files: one log for each function, job and build, bounded, and followed live.
//!
//! One thread writes and reads all of them, so that a reader gets what was written so far and then
//! every later line, each once. Lines come to it through a bounded queue and never block the one who
//! writes: what does not fit is dropped, and a line in the log says how much.

mod files;

use std::{
    collections::HashMap,
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sless_core::{Error, LogLine, LogOptions, LogSource, LogStream, Result};
use tokio::sync::{broadcast, mpsc, oneshot};

use self::files::Files;
use crate::error::BACKEND;

/// Settings of the logs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogsConfig {
    /// The most bytes of one log; the older half goes when they are reached.
    pub log_bytes: u64,
    /// Lines that wait to be written, over all logs.
    pub write_queue: usize,
    /// Files that are held open.
    pub open_files: usize,
    /// Lines that one who follows may lag behind.
    pub follow_lag: usize,
}

impl Default for LogsConfig {
    fn default() -> Self {
        Self {
            log_bytes: 2 << 20,
            write_queue: 16_384,
            open_files: 128,
            follow_lag: 4_096,
        }
    }
}

/// All logs of a data folder. Clones are the same logs.
#[derive(Clone, Debug)]
pub(crate) struct Logs {
    commands: mpsc::Sender<Command>,
    dropped: Arc<AtomicU64>,
    folder: Arc<Path>,
}

enum Command {
    Write {
        log: Arc<str>,
        line: LogLine,
    },
    Read {
        log: Arc<str>,
        follow: bool,
        answer: oneshot::Sender<Result<Snapshot>>,
    },
    Close {
        log: Arc<str>,
    },
    Remove {
        log: Arc<str>,
        answer: oneshot::Sender<Result<bool>>,
    },
    Flush {
        answer: oneshot::Sender<()>,
    },
}

struct Snapshot {
    lines: Vec<LogLine>,
    later: Option<broadcast::Receiver<LogLine>>,
}

/// Writes one log.
#[derive(Clone)]
pub(crate) struct LogWriter {
    log: Arc<str>,
    logs: Logs,
}

impl fmt::Debug for LogWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LogWriter").field(&self.log).finish()
    }
}

impl Logs {
    /// The logs of this folder, which is there.
    pub(crate) fn open(folder: PathBuf, config: &LogsConfig) -> Result<Self> {
        let (commands, queue) = mpsc::channel(config.write_queue.max(1));
        let dropped = Arc::new(AtomicU64::new(0));
        let place = folder.as_path().into();
        let writer = Writer {
            files: Files::new(folder, config.log_bytes, config.open_files),
            followers: HashMap::new(),
            lag: config.follow_lag.max(1),
            dropped: dropped.clone(),
        };
        std::thread::Builder::new()
            .name("sless-logs".to_owned())
            .spawn(move || writer.run(queue))
            .map_err(|cause| {
                Error::unavailable("no thread for the logs")
                    .at(BACKEND)
                    .with_source(cause)
            })?;
        Ok(Self {
            commands,
            dropped,
            folder: place,
        })
    }

    /// The writer of a log.
    pub(crate) fn writer(&self, log: &str) -> LogWriter {
        LogWriter {
            log: log.into(),
            logs: self.clone(),
        }
    }

    /// Reads a log; with `follow`, goes on with what is written to it from now on.
    ///
    /// # Errors
    /// `NotFound` if nothing was ever written to it.
    pub(crate) async fn read(&self, log: &str, options: &LogOptions) -> Result<LogStream> {
        let (answer, snapshot) = oneshot::channel();
        self.send(Command::Read {
            log: log.into(),
            follow: options.follow,
            answer,
        })
        .await?;
        let Snapshot { mut lines, later } = snapshot.await.map_err(|_| closed())??;
        if let Some(since) = options.since {
            lines.retain(|line| line.at >= since);
        }
        let skipped = options
            .tail
            .map_or(0, |tail| lines.len().saturating_sub(tail));
        let past = stream::iter(lines.into_iter().skip(skipped).map(Ok));
        let Some(later) = later else {
            return Ok(past.boxed());
        };
        Ok(past.chain(follow(later)).boxed())
    }

    /// Ends the streams that follow a log: nothing more will be written to it.
    pub(crate) async fn close(&self, log: &str) {
        // An error means that the logs have ended, and all streams with them.
        let _ = self.send(Command::Close { log: log.into() }).await;
    }

    /// Removes a log, and answers whether it was there.
    pub(crate) async fn remove(&self, log: &str) -> Result<bool> {
        let (answer, removed) = oneshot::channel();
        self.send(Command::Remove {
            log: log.into(),
            answer,
        })
        .await?;
        removed.await.map_err(|_| closed())?
    }

    /// Removes the logs that a crash left: those of which nothing else is remembered.
    pub(crate) async fn sweep(&self, is_left: impl Fn(&str) -> bool) -> Result<()> {
        for log in self.names().await? {
            if is_left(&log) {
                self.remove(&log).await?;
            }
        }
        Ok(())
    }

    /// The names of all logs that are on disk.
    pub(crate) async fn names(&self) -> Result<Vec<String>> {
        let folder = self.folder.clone();
        crate::blocking(move || files::names(&folder)).await
    }

    /// Waits until everything is written that was given so far.
    pub(crate) async fn flush(&self) {
        let (answer, flushed) = oneshot::channel();
        if self.send(Command::Flush { answer }).await.is_ok() {
            let _ = flushed.await;
        }
    }

    async fn send(&self, command: Command) -> Result<()> {
        self.commands.send(command).await.map_err(|_| closed())
    }
}

fn closed() -> Error {
    Error::unavailable("the logs are closed").at(BACKEND)
}

fn follow(later: broadcast::Receiver<LogLine>) -> LogStream {
    stream::unfold(later, |mut later| async {
        match later.recv().await {
            Ok(line) => Some((Ok(line), later)),
            Err(broadcast::error::RecvError::Lagged(lines)) => Some((
                Ok(system(format!(
                    "{lines} lines were passed over: too slow a reader"
                ))),
                later,
            )),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    })
    .boxed()
}

fn system(text: String) -> LogLine {
    LogLine {
        at: Timestamp::now(),
        source: LogSource::System,
        request_id: None,
        text,
        truncated: false,
    }
}

impl LogWriter {
    /// Writes a line, or counts it as dropped.
    pub(crate) fn line(&self, line: LogLine) {
        let command = Command::Write {
            log: self.log.clone(),
            line,
        };
        if self.logs.commands.try_send(command).is_err() {
            self.logs.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes a line of this source, of now.
    pub(crate) fn text(&self, source: LogSource, text: impl Into<String>) {
        self.line(LogLine {
            source,
            ..system(text.into())
        });
    }
}

/// The thread's end of the queue.
struct Writer {
    files: Files,
    followers: HashMap<Arc<str>, broadcast::Sender<LogLine>>,
    lag: usize,
    dropped: Arc<AtomicU64>,
}

impl Writer {
    fn run(mut self, mut queue: mpsc::Receiver<Command>) {
        let mut batch = Vec::new();
        while queue.blocking_recv_many(&mut batch, 1024) > 0 {
            for command in batch.drain(..) {
                self.handle(command);
            }
            self.files.flush();
        }
    }

    fn handle(&mut self, command: Command) {
        match command {
            Command::Write { log, line } => {
                let dropped = self.dropped.swap(0, Ordering::Relaxed);
                if dropped > 0 {
                    let text =
                        format!("{dropped} lines of some logs were dropped: too many at once");
                    self.write(&log, system(text));
                }
                self.write(&log, line);
            }
            // An answer that nobody waits for any more is dropped.
            Command::Read {
                log,
                follow,
                answer,
            } => {
                let _ = answer.send(self.read(&log, follow));
            }
            Command::Close { log } => drop(self.followers.remove(&log)),
            Command::Remove { log, answer } => {
                self.followers.remove(&log);
                let _ = answer.send(self.files.remove(&log));
            }
            Command::Flush { answer } => {
                self.files.flush();
                let _ = answer.send(());
            }
        }
    }

    fn write(&mut self, log: &Arc<str>, line: LogLine) {
        if let Err(error) = self.files.append(log, &line) {
            tracing::warn!(%log, error = %error.chain(), "a log line was not written");
        }
        if let Some(followers) = self.followers.get(log)
            && followers.send(line).is_err()
        {
            self.followers.remove(log);
        }
    }

    fn read(&mut self, log: &Arc<str>, follow: bool) -> Result<Snapshot> {
        self.files.flush();
        let lines = self.files.read(log)?;
        if lines.is_none() && !follow {
            return Err(Error::not_found("nothing was logged yet").at(BACKEND));
        }
        let later = follow.then(|| {
            let lag = self.lag;
            let followers = self.followers.entry(log.clone());
            followers
                .or_insert_with(|| broadcast::Sender::new(lag))
                .subscribe()
        });
        Ok(Snapshot {
            lines: lines.unwrap_or_default(),
            later,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logs(config: &LogsConfig) -> (tempfile::TempDir, Logs) {
        let folder = tempfile::tempdir().expect("a folder");
        let logs = Logs::open(folder.path().to_owned(), config).expect("a thread");
        (folder, logs)
    }

    async fn texts(logs: &Logs, options: &LogOptions) -> Vec<String> {
        let stream = logs.read("a", options).await.expect("a log");
        stream
            .map(|line| line.expect("a line").text)
            .collect()
            .await
    }

    #[tokio::test]
    async fn a_reader_gets_what_was_written_and_what_comes() {
        let (_folder, logs) = logs(&LogsConfig::default());
        let writer = logs.writer("a");
        assert!(
            logs.read("a", &LogOptions::default())
                .await
                .is_err_and(|e| e.is_not_found())
        );
        for number in 0..3 {
            writer.text(LogSource::Stdout, number.to_string());
        }
        assert_eq!(
            texts(&logs, &LogOptions::default().with_tail(2)).await,
            ["1", "2"]
        );
        let mut live = logs
            .read("a", &LogOptions::default().following())
            .await
            .expect("a log");
        writer.text(LogSource::Stdout, "3");
        for number in 0..4 {
            let line = live.next().await.expect("goes on").expect("a line");
            assert_eq!(line.text, number.to_string());
        }
        assert!(logs.remove("a").await.expect("removed"));
        assert!(live.next().await.is_none(), "ends with the log");
        assert!(!logs.remove("a").await.expect("nothing there"));
    }

    #[tokio::test]
    async fn a_line_that_a_crash_cut_off_takes_no_other_along() {
        let (folder, logs) = logs(&LogsConfig::default());
        std::fs::write(folder.path().join("a.jsonl"), "{\"at\":\"2026-").expect("written");
        logs.writer("a").text(LogSource::Stdout, "whole");
        assert_eq!(texts(&logs, &LogOptions::default()).await, ["whole"]);
    }

    #[tokio::test]
    async fn a_log_keeps_its_newest_lines_within_its_bytes() {
        let config = LogsConfig {
            log_bytes: 10_000,
            ..LogsConfig::default()
        };
        let (folder, logs) = logs(&config);
        let writer = logs.writer("a");
        for number in 0..1_000 {
            writer.text(LogSource::Stdout, format!("line {number}"));
        }
        let kept = texts(&logs, &LogOptions::default()).await;
        assert_eq!(kept.last().map(String::as_str), Some("line 999"));
        assert!((10..200).contains(&kept.len()), "{}", kept.len());
        let bytes: u64 = std::fs::read_dir(folder.path())
            .expect("a folder")
            .map(|entry| entry.expect("an entry").metadata().expect("metadata").len())
            .sum();
        assert!(bytes <= 10_000, "{bytes}");
    }
}
