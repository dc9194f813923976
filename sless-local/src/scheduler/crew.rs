//! The workers that serve one revision of a function.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use sless_core::{Failure, LogSource, Workload};
use sless_runtime::{Host, StartError, Zygote};
use tokio::sync::Notify;

use super::{Inner, sink};
use crate::{artifacts::Pin, points};

/// Up to `replicas` workers of one revision. Calls hold on to it, and it ends its workers once the
/// last of them has let go.
#[derive(Debug)]
pub(super) struct Crew {
    pub(super) workload: Workload,
    /// What its workers are forked from.
    zygote: Option<Arc<Zygote>>,
    hosts: Mutex<Vec<Arc<Host>>>,
    /// Whether one more worker is being started.
    growing: AtomicUsize,
    calls: AtomicUsize,
    left: Notify,
    _pin: Pin,
}

/// A call's hold on a crew.
#[derive(Debug)]
pub(super) struct Hold(Arc<Crew>);

impl Hold {
    pub(super) fn new(crew: &Arc<Crew>) -> Self {
        crew.calls.fetch_add(1, Ordering::AcqRel);
        Self(crew.clone())
    }

    pub(super) fn crew(&self) -> &Arc<Crew> {
        &self.0
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.0.calls.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.left.notify_waiters();
        }
    }
}

/// Starts one worker, from a zygote if there is one.
async fn start(
    inner: &Inner,
    workload: &Workload,
    zygote: Option<&Arc<Zygote>>,
) -> Result<Host, Failure> {
    // The semaphore is never closed, so there is always a permit in the end.
    let _place = inner.starts.acquire().await;
    let config = inner.host_config(workload).await?;
    let log = inner.logs.writer(&sink::function_log(&workload.function));
    points::WORKER_BEFORE.pass();
    let sink = Arc::new(sink::WorkerLog(log));
    let started = match zygote {
        Some(zygote) => Host::start_from(zygote.clone(), config, sink).await,
        None => Host::start(config, sink).await,
    };
    points::WORKER_AFTER.pass();
    started.map_err(|error| failure(&error))
}

/// Why a worker did not start, in the words of statuses.
pub(super) fn failure(error: &StartError) -> Failure {
    Failure::new(error.reason.word(), error.message.clone()).with_log(&error.log_tail)
}

impl Crew {
    /// Starts the first worker of a revision.
    pub(super) async fn start(inner: &Inner, workload: Workload) -> Result<Arc<Self>, Failure> {
        let pin = inner.artifacts.pin(workload.artifact.digest);
        let zygote = inner.zygotes.of(&workload);
        let host = start(inner, &workload, zygote.as_ref()).await;
        let why = zygote.as_ref().and_then(|zygote| zygote.own_process());
        if let Some(why) = why
            && inner.zygotes.refuse(&workload)
        {
            let log = inner.logs.writer(&sink::function_log(&workload.function));
            let line =
                format!("each copy is a process of its own, not a fork of a warm one: {why}");
            log.text(LogSource::System, line);
        }
        // Those of an older version that is about to be replaced, or its own where nothing came of it.
        let (revision, keep) = (workload.revision(), host.is_ok());
        let function = &workload.function.uid;
        inner
            .zygotes
            .forget(function, |kept| (*kept == revision) != keep);
        let host = host?;
        Ok(Arc::new(Self {
            zygote,
            workload,
            hosts: Mutex::new(vec![Arc::new(host)]),
            growing: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
            left: Notify::new(),
            _pin: pin,
        }))
    }

    /// The worker with the fewest calls. Where all are full and another one is wanted, that one is
    /// started beside.
    pub(super) fn pick(self: &Arc<Self>, inner: &Arc<Inner>, wanted: u32) -> Option<Arc<Host>> {
        let (best, full, count) = {
            let hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
            if let [only] = hosts.as_slice()
                && wanted <= 1
            {
                return Some(only.clone());
            }
            let load = |host: &Arc<Host>| host.in_flight() + host.queued();
            // Workers beyond those that are wanted now get no calls, and end with the crew's next sleep.
            let wanted = usize::try_from(wanted).unwrap_or(usize::MAX).max(1);
            let best = hosts
                .iter()
                .take(wanted)
                .min_by_key(|host| load(host))
                .cloned()?;
            let full = load(&best) >= best.config().concurrency;
            (best, full, hosts.len())
        };
        let more = usize::try_from(wanted).unwrap_or(usize::MAX) > count;
        if full && more && self.growing.swap(1, Ordering::AcqRel) == 0 {
            let (crew, inner) = (self.clone(), inner.clone());
            inner
                .tasks
                .clone()
                .spawn(async move { crew.grow(&inner).await });
        }
        Some(best)
    }

    async fn grow(self: Arc<Self>, inner: &Inner) {
        match start(inner, &self.workload, self.zygote.as_ref()).await {
            Ok(host) => {
                let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
                // An empty crew is one that has ended meanwhile; this worker ends with its handle.
                if !hosts.is_empty() {
                    hosts.push(Arc::new(host));
                }
            }
            Err(failure) => {
                let function = &self.workload.function;
                let reason = &*failure.reason;
                tracing::warn!(%function, reason, "one more worker could not be started");
            }
        }
        self.growing.store(0, Ordering::Release);
    }

    /// How long there has been no call; `None` while there is one.
    pub(super) fn idle_for(&self) -> Option<Duration> {
        if self.calls.load(Ordering::Acquire) > 0 {
            return None;
        }
        let hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let last = hosts.iter().map(|host| host.last_activity()).max()?;
        Some(Instant::now().saturating_duration_since(last))
    }

    /// Waits for the calls under way, at most for `patience`, and ends all workers. Answers their
    /// process ids. Nobody may take hold of the crew any more.
    pub(super) async fn end(&self, patience: Duration) -> Vec<u32> {
        let until = tokio::time::Instant::now() + patience;
        loop {
            let mut left = std::pin::pin!(self.left.notified());
            left.as_mut().enable();
            if self.calls.load(Ordering::Acquire) == 0 {
                break;
            }
            if tokio::time::timeout_at(until, left).await.is_err() {
                break;
            }
        }
        let hosts = std::mem::take(&mut *self.hosts.lock().unwrap_or_else(PoisonError::into_inner));
        let pids = hosts.iter().filter_map(|host| host.worker_pid()).collect();
        let patience = until.saturating_duration_since(tokio::time::Instant::now());
        futures::future::join_all(hosts.iter().map(|host| host.drain(patience))).await;
        pids
    }
}
