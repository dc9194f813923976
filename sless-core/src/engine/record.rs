//! Records of calls, stored behind the calls.
//!
//! A call puts its record into a bounded queue and goes on; one task stores what waits there, in
//! batches. A log that is away or slow makes records wait, and when the queue is full they are
//! dropped: counted, told in the trace, and seen in [`Stats`](super::Stats) and
//! [`Health`](super::Health). No call waits for any of it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use super::{Observer, Options};
use crate::{Clock, Error, Invocation, InvocationLog, LogTail, Retry};

/// Takes records and never blocks: what does not fit into the queue is dropped, and counted.
#[derive(Clone, Debug)]
pub(super) struct Recorder {
    sender: Option<mpsc::Sender<Invocation>>,
    observer: Option<Arc<dyn Observer>>,
    clock: Arc<dyn Clock>,
    seen: Arc<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    dropped: AtomicU64,
    failing: AtomicBool,
}

/// The end of the queue, from which records are stored.
#[derive(Debug)]
pub(super) struct RecordQueue(Option<mpsc::Receiver<Invocation>>);

impl Recorder {
    pub(super) fn new(
        options: &Options,
        clock: Arc<dyn Clock>,
        stored: bool,
    ) -> (Self, RecordQueue) {
        let (sender, receiver) = if stored {
            let (sender, receiver) = mpsc::channel(options.record_queue.max(1));
            (Some(sender), Some(receiver))
        } else {
            (None, None)
        };
        let observer = options.observer.clone();
        let recorder = Self {
            sender,
            observer,
            clock,
            seen: Arc::default(),
        };
        (recorder, RecordQueue(receiver))
    }

    /// Whether nobody wants to know of calls.
    pub(super) const fn is_idle(&self) -> bool {
        self.sender.is_none() && self.observer.is_none()
    }

    /// Whether records are stored.
    pub(super) const fn stores(&self) -> bool {
        self.sender.is_some()
    }

    /// Where the end of a call's log goes.
    pub(super) fn log_tail(&self) -> LogTail {
        if self.stores() {
            LogTail::wanted()
        } else {
            LogTail::default()
        }
    }

    pub(super) fn put(&self, record: Invocation) {
        if let Some(observer) = &self.observer {
            observer.invoked(&record);
        }
        if let Some(sender) = &self.sender
            && sender.try_send(record).is_err()
        {
            self.drop_records(1);
        }
    }

    fn drop_records(&self, records: u64) {
        self.seen.dropped.fetch_add(records, Ordering::Relaxed);
    }

    pub(super) fn dropped(&self) -> u64 {
        self.seen.dropped.load(Ordering::Relaxed)
    }

    /// Records that wait to be stored, those aside that are being stored.
    pub(super) fn waiting(&self) -> usize {
        self.sender
            .as_ref()
            .map_or(0, |sender| sender.max_capacity() - sender.capacity())
    }

    /// Whether the log refused what was given to it last.
    pub(super) fn is_failing(&self) -> bool {
        self.seen.failing.load(Ordering::Relaxed)
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }
}

/// How often a batch is tried, once the engine shuts down, before its records are dropped.
const LAST_ATTEMPTS: u32 = 5;

/// The longest pause before a batch is tried again: a log that is back is soon written to.
const STORE_BACKOFF_MAX: Duration = Duration::from_secs(5);

/// How often what is too old or too much is dropped from the log.
const RETAIN_EVERY: Duration = Duration::from_secs(600);

impl RecordQueue {
    /// Stores records in batches until `stop`, and then what is left; and keeps the log within its
    /// rule as long as there is something to store. At rest nothing is written.
    pub(super) async fn store(
        self,
        recorder: Recorder,
        log: Arc<dyn InvocationLog>,
        options: Options,
        stop: CancellationToken,
    ) {
        let Some(queue) = self.0 else { return };
        let writer = Writer {
            recorder,
            log: &*log,
            options: &options,
            stop,
            stored: Notify::new(),
        };
        // Apart, so that no record waits while old ones go.
        tokio::select! {
            biased;
            () = writer.write(queue) => {}
            () = writer.retain() => {}
        }
    }
}

struct Writer<'a> {
    recorder: Recorder,
    log: &'a dyn InvocationLog,
    options: &'a Options,
    stop: CancellationToken,
    stored: Notify,
}

impl Writer<'_> {
    async fn write(&self, mut queue: mpsc::Receiver<Invocation>) {
        let most = self.options.record_batch.max(1);
        let mut told = 0;
        loop {
            let mut batch = Vec::new();
            tokio::select! {
                biased;
                count = queue.recv_many(&mut batch, most) => {
                    if count == 0 { return; }
                }
                () = self.stop.cancelled() => queue.close(),
            }
            if batch.is_empty() {
                continue;
            }
            if batch.len() < most {
                tokio::select! {
                    biased;
                    () = self.recorder.clock.sleep(self.options.record_delay) => {}
                    () = self.stop.cancelled() => queue.close(),
                }
                while batch.len() < most
                    && let Ok(record) = queue.try_recv()
                {
                    batch.push(record);
                }
            }
            self.append(batch).await;
            let dropped = self.recorder.dropped();
            if dropped > told {
                let records = dropped - told;
                let limit = self.options.record_queue;
                tracing::error!(records, limit, "records of calls were dropped");
                told = dropped;
            }
        }
    }

    /// Stores a batch, however long the log is away. Only what it will never take is dropped, and
    /// what is left at the end.
    async fn append(&self, batch: Vec<Invocation>) {
        let mut attempt = 1;
        let mut last_attempts = 0;
        while let Err(error) = self.log.append(batch.clone()).await {
            let first = !self.recorder.seen.failing.swap(true, Ordering::Relaxed);
            last_attempts += u32::from(self.stop.is_cancelled());
            if error.retry() == Retry::Never || last_attempts == LAST_ATTEMPTS {
                let records = batch.len();
                tracing::error!(error = %error.chain(), records, "the log of calls did not take records");
                self.recorder.drop_records(records as u64);
                return;
            }
            if first {
                let error = error.chain();
                tracing::warn!(%error, "the log of calls takes nothing: records wait");
            }
            self.pause(&error, attempt).await;
            attempt = attempt.saturating_add(1);
        }
        if self.recorder.seen.failing.swap(false, Ordering::Relaxed) {
            tracing::info!("the log of calls takes records again");
        }
        self.stored.notify_one();
    }

    async fn pause(&self, error: &Error, attempt: u32) {
        let longest = STORE_BACKOFF_MAX.min(self.options.backoff_max);
        let pause = match error.retry() {
            Retry::After(pause) => pause.min(longest),
            _ => super::backoff(self.options.backoff_min, longest, attempt),
        };
        let sleep = self.recorder.clock.sleep(pause);
        if self.stop.is_cancelled() {
            sleep.await;
        } else {
            // The end does not wait for a long pause.
            self.stop.run_until_cancelled(sleep).await;
        }
    }

    async fn retain(&self) {
        let clock = &self.recorder.clock;
        loop {
            self.stored.notified().await;
            match self.log.retain(&self.options.retention, clock.now()).await {
                Ok(0) => {}
                Ok(records) => tracing::debug!(records, "old records of calls were dropped"),
                Err(error) => {
                    tracing::warn!(error = %error.chain(), "old records of calls were not dropped");
                }
            }
            clock.sleep(RETAIN_EVERY).await;
        }
    }
}
