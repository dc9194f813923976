//! Records of calls, stored behind the calls.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::FutureExt as _;
use tokio::sync::mpsc;

use super::{Observer, Options};
use crate::{Clock, Invocation, InvocationLog};

/// Takes records and never blocks: what does not fit into the queue is dropped, and counted.
#[derive(Clone, Debug)]
pub(super) struct Recorder {
    sender: Option<mpsc::Sender<Invocation>>,
    observer: Option<Arc<dyn Observer>>,
    clock: Arc<dyn Clock>,
    dropped: Arc<AtomicU64>,
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
            dropped: Arc::default(),
        };
        (recorder, RecordQueue(receiver))
    }

    /// Whether nobody wants to know of calls.
    pub(super) const fn is_idle(&self) -> bool {
        self.sender.is_none() && self.observer.is_none()
    }

    pub(super) fn put(&self, record: Invocation) {
        if let Some(observer) = &self.observer {
            observer.invoked(&record);
        }
        if let Some(sender) = &self.sender
            && sender.try_send(record).is_err()
        {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }
}

/// How often a batch is tried before its records are dropped, and counted.
const STORE_ATTEMPTS: u32 = 5;

/// How often what is too old or too much is dropped from the log.
const RETAIN_EVERY: Duration = Duration::from_secs(600);

impl RecordQueue {
    /// Stores records in batches until `stop` ends, and then what is left.
    pub(super) async fn store(
        self,
        recorder: Recorder,
        log: Arc<dyn InvocationLog>,
        options: Options,
        stop: impl Future<Output = ()>,
    ) {
        let Some(mut queue) = self.0 else { return };
        let clock = recorder.clock.clone();
        let mut stop = std::pin::pin!(stop.fuse());
        let mut retained = None::<Duration>;
        loop {
            let mut batch = Vec::new();
            tokio::select! {
                biased;
                count = queue.recv_many(&mut batch, options.record_batch) => {
                    if count == 0 { return; }
                }
                () = &mut stop => {
                    queue.close();
                    while queue.recv_many(&mut batch, options.record_batch).await > 0 {
                        store(&*log, &*clock, &recorder, &mut batch, &options).await;
                    }
                    return;
                }
            }
            if batch.len() < options.record_batch {
                tokio::select! {
                    () = clock.sleep(options.record_delay) => {}
                    () = &mut stop => queue.close(),
                }
                while batch.len() < options.record_batch
                    && let Ok(record) = queue.try_recv()
                {
                    batch.push(record);
                }
            }
            store(&*log, &*clock, &recorder, &mut batch, &options).await;
            let now = clock.elapsed();
            if retained.is_none_or(|at| now.saturating_sub(at) >= RETAIN_EVERY) {
                retained = Some(now);
                if let Err(error) = log.retain(&options.retention, clock.now()).await {
                    tracing::warn!(error = %error.chain(), "old records of calls were not dropped");
                }
            }
        }
    }
}

async fn store(
    log: &dyn InvocationLog,
    clock: &dyn Clock,
    recorder: &Recorder,
    batch: &mut Vec<Invocation>,
    options: &Options,
) {
    let mut attempt = 1;
    loop {
        let Err(error) = log.append(batch.clone()).await else {
            break;
        };
        if attempt == STORE_ATTEMPTS {
            recorder
                .dropped
                .fetch_add(batch.len() as u64, Ordering::Relaxed);
            let records = batch.len();
            tracing::error!(error = %error.chain(), records, "records of calls were dropped");
            break;
        }
        clock
            .sleep(super::backoff(
                options.backoff_min,
                options.backoff_max,
                attempt,
            ))
            .await;
        attempt += 1;
    }
    batch.clear();
}
