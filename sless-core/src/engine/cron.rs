//! Calls by the clock: when to look at a trigger next, and the runs under way.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use serde_json::json;
use tokio::sync::Notify;

use super::{Call, Engine, points};
use crate::{
    Body, Name, Origin, Trigger, Uid,
    cron::{Cause, RunEnd},
    resource::{ObjectKey, Resource as _},
};

/// How long a run waits for its function to be ready: after a start of the process, those that are due may
/// come before what they call.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// When each cron trigger is due, and which runs of it go on in this process.
#[derive(Debug, Default)]
pub(super) struct Timetable {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    order: BTreeSet<(Timestamp, ObjectKey)>,
    due: HashMap<ObjectKey, Timestamp>,
    /// The due times whose runs go on in this process.
    going_on: HashMap<Uid, BTreeSet<Timestamp>>,
    /// Runs that have ended, and whose end is not in the ledger yet.
    ended: BTreeMap<ObjectKey, Vec<(Timestamp, RunEnd)>>,
}

impl Timetable {
    /// Looks at a trigger again at this time, or not at all.
    pub(super) fn set(&self, key: &ObjectKey, at: Option<Timestamp>) {
        {
            let mut state = self.state();
            if let Some(before) = state.due.remove(key) {
                state.order.remove(&(before, key.clone()));
            }
            if let Some(at) = at {
                state.due.insert(key.clone(), at);
                state.order.insert((at, key.clone()));
            }
        }
        self.changed.notify_one();
    }

    /// Forgets a trigger.
    pub(super) fn remove(&self, key: &ObjectKey, uid: Option<&Uid>) {
        self.set(key, None);
        let mut state = self.state();
        state.ended.remove(key);
        if let Some(uid) = uid {
            state.going_on.remove(uid);
        }
    }

    /// Forgets what is due; the runs that go on here are still written down.
    pub(super) fn clear(&self) {
        {
            let mut state = self.state();
            state.order.clear();
            state.due.clear();
        }
        self.changed.notify_one();
    }

    /// The due times of a trigger whose runs go on in this process. A stored run that is none of them
    /// is of a process that is gone, or was claimed by a write whose answer was lost: nobody runs it.
    pub(super) fn going_on(&self, uid: &Uid) -> BTreeSet<Timestamp> {
        self.state().going_on.get(uid).cloned().unwrap_or_default()
    }

    fn begin(&self, uid: &Uid, at: Timestamp) {
        let mut state = self.state();
        state.going_on.entry(uid.clone()).or_default().insert(at);
    }

    /// The runs whose end is not in the ledger yet.
    pub(super) fn ended(&self, key: &ObjectKey) -> Vec<(Timestamp, RunEnd)> {
        self.state().ended.get(key).cloned().unwrap_or_default()
    }

    /// Forgets the ends that are in the ledger now.
    pub(super) fn written(&self, key: &ObjectKey, written: &[(Timestamp, RunEnd)]) {
        let mut state = self.state();
        if let Some(ended) = state.ended.get_mut(key) {
            ended.retain(|end| !written.contains(end));
            if ended.is_empty() {
                state.ended.remove(key);
            }
        }
    }

    /// The triggers with runs whose end is not in the ledger yet.
    pub(super) fn unwritten(&self) -> Vec<ObjectKey> {
        self.state().ended.keys().cloned().collect()
    }

    fn end(&self, key: &ObjectKey, uid: &Uid, at: Timestamp, end: RunEnd) {
        let mut state = self.state();
        if let Some(going_on) = state.going_on.get_mut(uid) {
            going_on.remove(&at);
            if going_on.is_empty() {
                state.going_on.remove(uid);
            }
        }
        let ended = state.ended.entry(key.clone()).or_default();
        ended.push((at, end));
    }

    fn next(&self) -> Option<Timestamp> {
        self.state().order.first().map(|(at, _)| *at)
    }

    fn take_due(&self, now: Timestamp) -> Vec<ObjectKey> {
        let mut state = self.state();
        let mut due = Vec::new();
        while let Some((at, _)) = state.order.first()
            && *at <= now
        {
            let Some((_, key)) = state.order.pop_first() else {
                break;
            };
            state.due.remove(&key);
            due.push(key);
        }
        due
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Wakes each cron trigger when it is due.
    pub(super) async fn keep_time(&self) {
        let clock = &self.backends.clock;
        loop {
            match self.timetable.next() {
                None => self.timetable.changed.notified().await,
                Some(at) => tokio::select! {
                    biased;
                    () = self.timetable.changed.notified() => {}
                    () = clock.wake_at(at) => {}
                },
            }
            for key in self.timetable.take_due(clock.now()) {
                self.wake(key);
            }
        }
    }

    /// Calls a trigger's function for a time that was claimed in the stored ledger.
    pub(super) fn fire(self: &Arc<Self>, trigger: &Trigger, at: Timestamp, cause: Cause) {
        let metadata = &trigger.metadata;
        // The same time of the same trigger has the same id, also when it is repeated after a crash.
        let request_id = format!("{}-{}", metadata.uid, at.as_second());
        let request = request(&metadata.name, at, cause);
        let call = Call::new(
            metadata.namespace.clone(),
            trigger.spec.function_ref.clone(),
            request,
        )
        .from_origin(Origin::Cron, Some(metadata.name.clone()))
        .with_request_id(request_id);
        let (engine, key, uid) = (self.clone(), trigger.key(), metadata.uid.clone());
        self.timetable.begin(&uid, at);
        self.tasks.spawn(async move {
            let ready = engine.until_callable(&call.namespace, &call.function, READY_WITHIN);
            if !ready.await {
                // It has not begun. Who reads the ledger next finds it interrupted.
                return;
            }
            let end = match engine.call_to_the_end(call).await {
                Ok(status) if status.is_success() => RunEnd::Succeeded,
                Ok(_) => RunEnd::Failed,
                Err(error) => {
                    tracing::warn!(trigger = %key, error = %error.chain(), "a run by the clock failed");
                    RunEnd::Failed
                }
            };
            points::CRON_CALLED.pass();
            engine.timetable.end(&key, &uid, at, end);
            engine.wake(key);
        });
    }

    /// Writes down the ends of the last runs, after everything else has stopped.
    pub(super) async fn write_last_ends(self: &Arc<Self>) {
        for key in self.timetable.unwritten() {
            for _ in 0..crate::catalog::MODIFY_ATTEMPTS {
                match self.reconcile_trigger(&key).await {
                    Err(error) if error.is_conflict() => {}
                    Err(error) => {
                        tracing::warn!(trigger = %key, error = %error.chain(), "the end of a run was not stored");
                        break;
                    }
                    Ok(_) => break,
                }
            }
        }
    }
}

/// The request that a function sees: `POST /` with the due time.
fn request(trigger: &Name, at: Timestamp, cause: Cause) -> http::Request<Body> {
    let cause = match cause {
        Cause::Due => "due",
        Cause::Missed => "missed",
        Cause::Interrupted => "interrupted",
    };
    let event = json!({
        "type": "cron", "trigger": trigger, "scheduled_at": at.to_string(), "cause": cause,
    });
    let mut request = http::Request::new(Body::from(event.to_string()));
    *request.method_mut() = http::Method::POST;
    let headers = request.headers_mut();
    headers.insert(
        http::header::CONTENT_TYPE,
        http::HeaderValue::from_static("application/json"),
    );
    // A label is always a field value.
    if let Ok(name) = http::HeaderValue::try_from(trigger.as_str()) {
        headers.insert("x-sless-trigger", name);
    }
    request
}
