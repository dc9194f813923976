//! One function: which revision is wanted, which one serves, and who serves it.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sless_core::{Digest, Error, Failure, FunctionId, LogSource, Result, Workload, WorkloadStatus};
use tokio::sync::Notify;

use super::{
    Inner,
    crew::{Crew, Hold},
    sink::function_log,
    state::{Failed, Record, Starting, State, passes},
};
use crate::{error::BACKEND, points, records::RecordKind};

/// One function of this machine.
#[derive(Debug)]
pub(super) struct Runner {
    pub(super) function: FunctionId,
    state: Mutex<State>,
    /// Held while workers are started to serve, so that calls that wake a function start one crew.
    waking: tokio::sync::Mutex<()>,
    /// Held while something is applied or ended.
    changing: tokio::sync::Mutex<()>,
    /// A revision took over or failed, or the function ended.
    settled: Notify,
}

impl Runner {
    pub(super) fn new(function: FunctionId) -> Self {
        Self {
            function,
            state: Mutex::default(),
            waking: tokio::sync::Mutex::default(),
            changing: tokio::sync::Mutex::default(),
            settled: Notify::new(),
        }
    }

    /// A function as it was remembered, asleep.
    pub(super) fn recalled(record: Record) -> Self {
        let Record {
            function,
            applied,
            serving,
        } = record;
        let runner = Self::new(function);
        {
            let mut state = runner.state();
            let applied = Arc::new(applied);
            state.serving = match serving {
                // One copy where both are the same, which is the rule.
                Some(serving) if serving == *applied => Some(applied.clone()),
                serving => serving.map(Arc::new),
            };
            state.applied = Some(applied);
        }
        runner
    }

    /// Whether something was applied, and not removed.
    pub(super) fn is_applied(&self) -> bool {
        let state = self.state();
        !state.ended && state.applied.is_some()
    }

    pub(super) async fn apply(
        self: &Arc<Self>,
        inner: &Arc<Inner>,
        workload: &Workload,
    ) -> Result<WorkloadStatus> {
        let changing = self.changing.lock().await;
        let revision = workload.revision();
        let to_store = {
            let mut state = self.state();
            let applied = state
                .applied
                .as_ref()
                .map_or(0, |applied| applied.generation);
            if applied > workload.generation {
                return Err(Error::conflict(format!(
                    "generation {} was overtaken by generation {applied}",
                    workload.generation
                ))
                .at(BACKEND));
            }
            let same = state.applied.as_ref().is_some_and(|applied| {
                applied.revision() == revision
                    && applied.replicas == workload.replicas
                    && applied.idle == workload.idle
                    && applied.generation == workload.generation
            });
            let known_to_fail = state
                .failed
                .as_ref()
                .is_some_and(|failed| failed.revision == revision && !failed.due);
            let on_its_way = state
                .starting
                .as_ref()
                .is_some_and(|s| s.revision == revision);
            if same && (state.serves(&revision) || state.is_off() || known_to_fail || on_its_way) {
                return Ok(state.status());
            }
            let applied = Arc::new(workload.clone());
            if state.serves(&revision) {
                state.serving = Some(applied.clone());
            }
            if !on_its_way && let Some(starting) = state.starting.take() {
                starting.cancel.cancel();
            }
            state.applied = Some(applied);
            (!same).then(|| state.record(&self.function)).flatten()
        };
        if let Some(record) = to_store {
            let uid = self.function.uid.as_str();
            points::APPLY_BEFORE.pass();
            inner
                .records
                .put(RecordKind::Workload, uid, &record)
                .await?;
            points::APPLY_AFTER.pass();
        }
        if workload.replicas == 0 {
            self.rest(inner);
            return Ok(self.status());
        }
        if !self.state().serves(&revision) {
            self.roll_out(inner, workload, revision);
            drop(changing);
            self.settle(inner, &revision).await;
        }
        Ok(self.status())
    }

    /// Starts the first worker of a revision beside the one that serves.
    fn roll_out(self: &Arc<Self>, inner: &Arc<Inner>, workload: &Workload, revision: Digest) {
        let cancel = inner.stop.child_token();
        {
            let mut state = self.state();
            if state
                .starting
                .as_ref()
                .is_some_and(|starting| starting.revision == revision)
            {
                return;
            }
            state.failed = None;
            state.starting = Some(Starting {
                revision,
                cancel: cancel.clone(),
            });
        }
        let (runner, inner, workload) = (self.clone(), inner.clone(), workload.clone());
        inner.tasks.clone().spawn(async move {
            let started = cancel
                .run_until_cancelled(Crew::start(&inner, workload))
                .await;
            let Some(started) = started else { return };
            let Some(pause) = runner.take_over(&inner, revision, started).await else {
                return;
            };
            let paused = cancel.run_until_cancelled(inner.clock.sleep(pause)).await;
            if paused.is_some() && runner.may_be_tried(&revision) {
                inner.changes.notify(runner.function.key());
            }
        });
    }

    /// Lets a revision that failed be tried again, if it is still the one that failed.
    fn may_be_tried(&self, revision: &Digest) -> bool {
        let mut state = self.state();
        let failed = state
            .failed
            .as_mut()
            .filter(|failed| failed.revision == *revision);
        let there = failed.is_some();
        if let Some(failed) = failed {
            failed.due = true;
        }
        there
    }

    /// Remembers that a new crew serves, lets it, and ends the old one. Where the start failed in a way
    /// that may pass, answers after which pause it is to be tried again.
    async fn take_over(
        &self,
        inner: &Arc<Inner>,
        revision: Digest,
        started: Result<Arc<Crew>, Failure>,
    ) -> Option<Duration> {
        let _changing = self.changing.lock().await;
        // First, since the files of the old version may go as soon as anybody sees that the new one
        // serves. What is looked at here changes only under the lock above.
        let to_store = {
            let state = self.state();
            let wanted = state.starting.as_ref().map(|starting| starting.revision);
            let takes_over = started.is_ok() && !state.ended && wanted == Some(revision);
            takes_over.then(|| state.record_of_next(&self.function))
        };
        if let Some(record) = to_store.flatten() {
            let uid = self.function.uid.as_str();
            points::TAKE_OVER_BEFORE.pass();
            if let Err(error) = inner.records.put(RecordKind::Workload, uid, &record).await {
                // It serves all the same; after a restart it is started once more to see that it can.
                let function = &self.function;
                tracing::warn!(%function, error = %error.chain(), "a new version was not remembered");
            }
            points::TAKE_OVER_AFTER.pass();
        }
        let mut pause = None;
        let old = {
            let mut state = self.state();
            let wanted = state
                .starting
                .as_ref()
                .is_some_and(|s| s.revision == revision);
            match started {
                // Another revision was applied meanwhile, or the function is gone.
                Ok(crew) if !wanted || state.ended => Some(crew),
                Ok(crew) => {
                    state.starting = None;
                    state.tries = None;
                    state.serving = state.applied.clone();
                    state.crew.replace(crew)
                }
                Err(_) if !wanted => None,
                Err(why) => {
                    state.starting = None;
                    let before = state.tries.filter(|(tried, _)| *tried == revision);
                    let times = before.map_or(1, |(_, times)| times.saturating_add(1));
                    state.tries = Some((revision, times));
                    pause = passes(&why.reason).then(|| inner.config.pause(times));
                    let line = format!("did not start: {}: {}", why.reason, why.message);
                    let log = inner.logs.writer(&function_log(&self.function));
                    log.text(LogSource::System, line);
                    state.failed = Some(Failed {
                        revision,
                        why,
                        due: false,
                    });
                    None
                }
            }
        };
        self.settled.notify_waiters();
        if let Some(old) = old {
            self.retire(inner, old);
        }
        inner.changes.notify(self.function.key());
        pause
    }

    /// Waits a moment for a roll-out to end.
    async fn settle(&self, inner: &Inner, revision: &Digest) {
        let settled = async {
            loop {
                let mut settled = std::pin::pin!(self.settled.notified());
                settled.as_mut().enable();
                let state = self
                    .state()
                    .starting
                    .as_ref()
                    .map(|starting| starting.revision);
                if state != Some(*revision) {
                    return;
                }
                settled.await;
            }
        };
        let limit = Duration::from_millis(inner.config.settle_ms);
        // Not settled: the answer then says that it starts.
        let _ = tokio::time::timeout(limit, settled).await;
    }

    /// A hold on the crew that serves, started if the function sleeps.
    pub(super) async fn wake(&self, inner: &Arc<Inner>) -> Result<Hold, Asleep> {
        if let Some(hold) = self.awake()? {
            return Ok(hold);
        }
        let _waking = self.waking.lock().await;
        if let Some(hold) = self.awake()? {
            return Ok(hold);
        }
        let serving = self.serving().await?;
        let crew = Crew::start(inner, Workload::clone(&serving))
            .await
            .map_err(Asleep::Failed)?;
        let (hold, unused) = {
            let mut state = self.state();
            let still = state
                .serving
                .as_ref()
                .is_some_and(|now| now.revision() == serving.revision());
            if !state.ended && !state.is_off() && still && state.crew.is_none() {
                state.crew = Some(crew.clone());
                (Some(Hold::new(&crew)), None)
            } else {
                (state.crew.as_ref().map(Hold::new), Some(crew))
            }
        };
        if let Some(unused) = unused {
            self.retire(inner, unused);
        }
        inner.changes.notify(self.function.key());
        hold.ok_or(Asleep::Gone)
    }

    /// What is to serve; waits for the first revision where none has served yet.
    async fn serving(&self) -> Result<Arc<Workload>, Asleep> {
        loop {
            let mut settled = std::pin::pin!(self.settled.notified());
            settled.as_mut().enable();
            {
                let state = self.state();
                if state.ended {
                    return Err(Asleep::Gone);
                }
                if let Some(serving) = &state.serving {
                    return Ok(serving.clone());
                }
                if let (None, Some(failed)) = (&state.starting, &state.failed) {
                    return Err(Asleep::Failed(failed.why.clone()));
                }
            }
            settled.await;
        }
    }

    /// A hold on the crew that serves, if one does.
    fn awake(&self) -> Result<Option<Hold>, Asleep> {
        let state = self.state();
        if state.ended {
            return Err(Asleep::Gone);
        }
        if state.is_off() {
            return Err(Asleep::Off);
        }
        Ok(state.crew.as_ref().map(Hold::new))
    }

    /// How many workers are wanted.
    pub(super) fn wanted(&self) -> u32 {
        self.state()
            .applied
            .as_ref()
            .map_or(0, |applied| applied.replicas)
    }

    /// Ends the crew if it had no call for its idle time.
    pub(super) fn sleep_if_idle(&self, inner: &Arc<Inner>) {
        let crew = {
            let mut state = self.state();
            let Some(crew) = &state.crew else { return };
            let default = Duration::from_millis(inner.config.idle_ms);
            let idle = state
                .applied
                .as_ref()
                .and_then(|applied| applied.idle)
                .unwrap_or(default);
            // Under the lock under which holds are taken: nobody can take one in between.
            if idle.is_zero() || crew.idle_for().is_none_or(|since| since < idle) {
                return;
            }
            state.crew.take()
        };
        if let Some(crew) = crew {
            inner.zygotes.touch(&crew.workload);
            self.retire(inner, crew);
            inner.changes.notify(self.function.key());
        }
    }

    /// Whether workers serve.
    pub(super) fn is_awake(&self) -> bool {
        self.state().crew.is_some()
    }

    /// Ends the crew at once, whatever it is at. The next call starts another one.
    pub(super) async fn cut_off(&self, inner: &Inner) {
        let _waking = self.waking.lock().await;
        let crew = self.state().crew.take();
        if let Some(crew) = crew {
            crew.end(Duration::ZERO).await;
            inner.changes.notify(self.function.key());
        }
    }

    /// Ends the crew, since the function is switched off.
    fn rest(&self, inner: &Arc<Inner>) {
        let crew = {
            let mut state = self.state();
            if let Some(starting) = state.starting.take() {
                starting.cancel.cancel();
            }
            state.crew.take()
        };
        inner.zygotes.forget(&self.function.uid, |_| true);
        if let Some(crew) = crew {
            self.retire(inner, crew);
        }
    }

    /// Ends a crew behind the scenes, with its calls finished within the drain time.
    fn retire(&self, inner: &Arc<Inner>, crew: Arc<Crew>) {
        let patience = inner.drain(&crew.workload);
        let artifacts = inner.artifacts.clone();
        let revision = crew.workload.revision();
        let serves = {
            let state = self.state();
            !state.ended && !state.is_off() && state.serves(&revision)
        };
        if !serves {
            let function = &self.function.uid;
            inner.zygotes.forget(function, |kept| *kept == revision);
        }
        inner.tasks.spawn(async move {
            crew.end(patience).await;
            drop(crew);
            points::RETIRED.pass();
            // Its build may have been forgotten while it still ran.
            if let Err(error) = crate::blocking(move || artifacts.sweep()).await {
                tracing::warn!(error = %error.chain(), "an artifact was not removed yet");
            }
        });
    }

    /// Ends everything of the function, and answers the process ids. No call begins any more.
    pub(super) async fn end(&self, inner: &Inner) -> Vec<u32> {
        let _changing = self.changing.lock().await;
        let crew = {
            let mut state = self.state();
            state.ended = true;
            if let Some(starting) = state.starting.take() {
                starting.cancel.cancel();
            }
            state.crew.take()
        };
        self.settled.notify_waiters();
        let mut pids = match crew {
            Some(crew) => crew.end(inner.drain(&crew.workload)).await,
            None => Vec::new(),
        };
        pids.extend(inner.zygotes.end(&self.function.uid).await);
        pids
    }

    pub(super) fn status(&self) -> WorkloadStatus {
        self.state().status()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a function that sleeps cannot be called.
#[derive(Debug)]
pub(super) enum Asleep {
    /// It was removed.
    Gone,
    /// It is switched off.
    Off,
    /// Its worker could not be started.
    Failed(Failure),
}
