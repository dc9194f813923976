//! What is known of one function, and of one job.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize},
    },
    time::Instant,
};

use sless_core::{FunctionId, JobId};
use tokio::sync::watch;

use super::{PodView, RunView, View};

/// A function: what the cluster has of it, and what passes here.
#[derive(Debug)]
pub(in crate::scheduler) struct FunctionEntry {
    pub(in crate::scheduler) function: FunctionId,
    view: watch::Sender<Arc<View>>,
    /// Calls that wait for a pod.
    pub(in crate::scheduler) waiting: AtomicUsize,
    /// Whether somebody is waking it.
    pub(in crate::scheduler) waking: AtomicBool,
    /// Calls under way through this process.
    pub(in crate::scheduler) in_flight: Arc<AtomicUsize>,
    /// When it makes sense to ask again whether it is idle.
    pub(in crate::scheduler) next_look: Mutex<Instant>,
}

impl FunctionEntry {
    pub(super) fn new(function: FunctionId) -> Self {
        Self {
            function,
            view: watch::Sender::new(Arc::default()),
            waiting: AtomicUsize::new(0),
            waking: AtomicBool::new(false),
            in_flight: Arc::default(),
            next_look: Mutex::new(Instant::now()),
        }
    }

    /// What is known now.
    pub(in crate::scheduler) fn view(&self) -> Arc<View> {
        self.view.borrow().clone()
    }

    /// What is known, now and later.
    pub(in crate::scheduler) fn watch(&self) -> watch::Receiver<Arc<View>> {
        self.view.subscribe()
    }

    pub(in crate::scheduler) fn change(&self, change: impl FnOnce(&mut View) -> bool) -> bool {
        self.view
            .send_if_modified(|view| change(Arc::make_mut(view)))
    }

    /// Tells who waits to look again, although nothing was changed in the view itself.
    pub(in crate::scheduler) fn nudge(&self) {
        self.view.send_modify(|_| {});
    }
}

/// A job: its runs, and their pods, by name.
#[derive(Debug)]
pub(in crate::scheduler) struct JobEntry {
    pub(in crate::scheduler) job: JobId,
    runs: Mutex<BTreeMap<String, RunView>>,
    pods: Mutex<BTreeMap<String, PodView>>,
}

impl JobEntry {
    pub(super) fn new(job: JobId) -> Self {
        Self {
            job,
            runs: Mutex::default(),
            pods: Mutex::default(),
        }
    }

    pub(in crate::scheduler) fn runs(&self) -> MutexGuard<'_, BTreeMap<String, RunView>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::scheduler) fn pods(&self) -> MutexGuard<'_, BTreeMap<String, PodView>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs().is_empty() && self.pods().is_empty()
    }
}
