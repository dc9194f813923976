//! Keeps one ready worker: replaces it when it ends or a call overruns, with pauses when that
//! happens again and again, and stops everything at the end.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};

use crate::config::HostConfig;
use crate::error::{Reason, StartError};
use crate::host::HostState;
use crate::launch::{Launched, launch};
use crate::log::Tail;
use crate::pool::{Pool, Refusal};
use crate::system::Stop;
use crate::worker::{Exit, Worker};
use crate::zygote::Zygote;

/// What the supervisor is told.
#[derive(Debug)]
pub(crate) enum Message {
    /// The worker has ended.
    Exited(u64),
    /// The worker gets no more calls.
    Retired(u64),
    /// Stop, at the latest at this time.
    Drain(Instant),
}

/// What a host and its tasks share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: HostConfig,
    pub(crate) tail: Arc<Tail>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) state: watch::Sender<HostState>,
    pub(crate) supervisor: mpsc::UnboundedSender<Message>,
    /// What workers are forked from.
    zygote: Option<Arc<Zygote>>,
    workers: Mutex<Vec<Arc<Worker>>>,
}

impl Shared {
    pub(crate) fn new(
        config: HostConfig,
        tail: Arc<Tail>,
        pool: Arc<Pool>,
        supervisor: mpsc::UnboundedSender<Message>,
        zygote: Option<Arc<Zygote>>,
    ) -> Self {
        let state = watch::Sender::new(HostState::Ready);
        Self {
            config,
            tail,
            pool,
            state,
            supervisor,
            zygote,
            workers: Mutex::default(),
        }
    }

    /// The workers that have not ended, the newest last.
    pub(crate) fn workers(&self) -> Vec<Arc<Worker>> {
        self.workers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Takes a new worker in.
    pub(crate) fn admit(&self, launched: Launched) -> Arc<Worker> {
        let Launched { worker, slots } = launched;
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.push(Arc::clone(&worker));
        drop(workers);
        self.pool.accept();
        self.pool.add(slots);
        self.state.send_replace(HostState::Ready);
        worker
    }

    fn forget(&self, id: u64) -> Option<Arc<Worker>> {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let at = workers.iter().position(|worker| worker.id == id)?;
        Some(workers.remove(at))
    }
}

type Starting = Pin<Box<dyn Future<Output = Result<Launched, StartError>> + Send>>;

/// The supervisor's own state.
struct Supervisor {
    shared: Arc<Shared>,
    current: Option<u64>,
    starting: Option<Starting>,
    next_try: Option<Instant>,
    /// Ends or failed starts in a row.
    failures: u32,
    draining: Option<Instant>,
}

/// Runs until the host is dropped or drained.
pub(crate) async fn supervise(
    shared: Arc<Shared>,
    first: u64,
    mut messages: mpsc::UnboundedReceiver<Message>,
) {
    let mut supervisor = Supervisor {
        shared,
        current: Some(first),
        starting: None,
        next_try: None,
        failures: 0,
        draining: None,
    };
    loop {
        let draining = supervisor.draining;
        tokio::select! {
            message = messages.recv() => match message {
                Some(Message::Exited(id)) => supervisor.exited(id),
                Some(Message::Retired(id)) => supervisor.retired(id),
                Some(Message::Drain(until)) => supervisor.drain(until),
                None => return,
            },
            started = maybe(supervisor.starting.as_mut()) => supervisor.started(started),
            () = at(supervisor.next_try) => supervisor.start(),
            () = at(draining) => break,
            () = supervisor.shared.pool.quiet.notified(), if draining.is_some() => {}
        }
        let pool = &supervisor.shared.pool;
        if supervisor.draining.is_some() && pool.in_flight() == 0 && pool.queued() == 0 {
            break;
        }
    }
    supervisor.stop().await;
}

async fn maybe<F: Future + Unpin>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}

impl Supervisor {
    fn exited(&mut self, id: u64) {
        let Some(worker) = self.shared.forget(id) else {
            return;
        };
        self.shared.pool.purge(&worker);
        if self.current != Some(id) {
            return;
        }
        self.current = None;
        let policy = &self.shared.config.restart;
        let healthy = worker.started.elapsed() >= policy.healthy_after
            || worker.answered.load(std::sync::atomic::Ordering::Relaxed);
        if healthy {
            self.failures = 0;
        }
        let exit = worker.exit().unwrap_or_else(|| Exit {
            reason: Reason::Crash,
            message: "it ended".to_owned(),
        });
        self.failed(exit.reason, format!("the worker ended: {}", exit.message));
    }

    fn retired(&mut self, id: u64) {
        if self.current != Some(id) {
            return;
        }
        self.current = None;
        let workers = self.shared.workers();
        if let Some(worker) = workers.iter().find(|worker| worker.id == id) {
            self.shared.pool.purge(worker);
        }
        self.show(HostState::Restarting {
            reason: Reason::CallTimeout,
            message: "a call was not over at its deadline; a fresh worker takes the next ones"
                .to_owned(),
        });
        self.start();
    }

    /// Counts a failure and plans the next try.
    fn failed(&mut self, reason: Reason, message: String) {
        self.failures += 1;
        let policy = &self.shared.config.restart;
        let pause = pause(policy.min_backoff, policy.max_backoff, self.failures);
        let next_try = Instant::now() + pause;
        self.next_try = Some(next_try);
        let looping = self.failures >= policy.crash_loop_after;
        if reason.is_transient() && !looping {
            return self.show(HostState::Restarting { reason, message });
        }
        let reason = if reason == Reason::Crash {
            Reason::CrashLoop
        } else {
            reason
        };
        let refusal = Refusal::NotReady {
            reason,
            message: message.clone(),
            next_try,
        };
        if self.draining.is_none() {
            self.shared.pool.refuse(refusal.clone());
        }
        self.shared.pool.turn_away(&refusal);
        let log_tail = self.shared.tail.text();
        let next_try = SystemTime::now() + pause;
        self.show(HostState::Failing {
            reason,
            message,
            log_tail,
            next_try,
        });
    }

    fn start(&mut self) {
        self.next_try = None;
        let shared = Arc::clone(&self.shared);
        self.starting = Some(Box::pin(async move {
            let zygote = shared.zygote.as_deref();
            launch(&shared.config, &shared.tail, &shared.supervisor, zygote).await
        }));
    }

    fn started(&mut self, result: Result<Launched, StartError>) {
        self.starting = None;
        match result {
            Ok(launched) => {
                let draining = self.draining.is_some();
                self.current = Some(self.shared.admit(launched).id);
                if draining {
                    self.shared.pool.refuse(Refusal::Stopped);
                    self.shared.state.send_replace(HostState::Draining);
                }
            }
            Err(error) => self.failed(error.reason, error.message),
        }
    }

    fn drain(&mut self, until: Instant) {
        self.draining = Some(self.draining.map_or(until, |before| before.min(until)));
        self.shared.pool.refuse(Refusal::Stopped);
        self.shared.state.send_replace(HostState::Draining);
    }

    /// A host that drains says so whatever happens to its worker.
    fn show(&self, state: HostState) {
        if self.draining.is_none() {
            self.shared.state.send_replace(state);
        }
    }

    /// Ends all workers.
    async fn stop(mut self) {
        self.starting = None;
        self.shared.pool.turn_away(&Refusal::Stopped);
        let workers = self.shared.workers();
        for worker in &workers {
            worker.stop_group(Stop::Ask);
            // The end of its slots wakes a Python whose signal came just before it began to wait.
            self.shared.pool.purge(worker);
        }
        let gone = async {
            for worker in &workers {
                worker.gone().await;
            }
        };
        if timeout(self.shared.config.stop_grace, gone).await.is_err() {
            for worker in &workers {
                worker.kill_group();
            }
            for worker in &workers {
                worker.gone().await;
            }
        }
        for worker in workers {
            self.shared.pool.purge(&worker);
            self.shared.forget(worker.id);
        }
        self.shared.state.send_replace(HostState::Stopped);
    }
}

/// Nothing before the first restart, then doubling.
fn pause(min: Duration, max: Duration, failures: u32) -> Duration {
    match failures {
        0 | 1 => Duration::ZERO,
        _ => min.saturating_mul(1 << (failures - 2).min(20)).min(max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_limit() {
        let (min, max) = (Duration::from_millis(100), Duration::from_secs(1));
        let pauses: Vec<u128> = (1..=7).map(|n| pause(min, max, n).as_millis()).collect();
        assert_eq!(pauses, [0, 100, 200, 400, 800, 1000, 1000]);
        assert_eq!(pause(min, max, u32::MAX), max);
    }
}
