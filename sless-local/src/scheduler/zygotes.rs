//! Which functions keep a process that has imported their handler, so that they wake by a fork.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use sless_core::{Digest, Language, Uid, Workload};
use sless_runtime::Zygote;

/// The zygotes of functions that run or ran lately, up to a limit. One that no worker uses gives its
/// place to a function that starts, the one that was used least lately first.
#[derive(Debug)]
pub(super) struct Zygotes {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The one that was used last is the last.
    kept: Vec<Kept>,
    /// The newest revision of a function of which no workers can be forked.
    refused: HashMap<Uid, Digest>,
}

#[derive(Debug)]
struct Kept {
    function: Uid,
    revision: Digest,
    zygote: Arc<Zygote>,
}

impl Zygotes {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            state: Mutex::default(),
        }
    }

    /// What the workers of a workload are forked from. `None` where they are not, or where all places
    /// are in use.
    pub(super) fn of(&self, workload: &Workload) -> Option<Arc<Zygote>> {
        if workload.runtime.language() != Language::Python || self.limit == 0 {
            return None;
        }
        let function = &workload.function.uid;
        let revision = workload.revision();
        let mut state = self.state();
        if state.refused.get(function) == Some(&revision) {
            return None;
        }
        if let Some(zygote) = state.used(function, &revision) {
            return Some(zygote);
        }
        if state.kept.len() >= self.limit {
            // Nobody but this list holds one that no worker uses, and here is where holds are taken.
            let unused = |kept: &Kept| Arc::strong_count(&kept.zygote) == 1;
            let least = state.kept.iter().position(unused)?;
            state.kept.remove(least);
        }
        let zygote = Arc::new(Zygote::new());
        state.kept.push(Kept {
            function: function.clone(),
            revision,
            zygote: zygote.clone(),
        });
        Some(zygote)
    }

    /// Takes note that the workers of a workload have fallen asleep.
    pub(super) fn touch(&self, workload: &Workload) {
        self.state()
            .used(&workload.function.uid, &workload.revision());
    }

    /// Takes note that no workers of this revision can be forked, and says whether that is news.
    pub(super) fn refuse(&self, workload: &Workload) -> bool {
        let (function, revision) = (&workload.function.uid, workload.revision());
        self.forget(function, |kept| *kept == revision);
        let mut state = self.state();
        state.refused.insert(function.clone(), revision) != Some(revision)
    }

    /// Gives the zygotes of these revisions of a function up. They end with their last worker.
    pub(super) fn forget(
        &self,
        function: &Uid,
        revisions: impl Fn(&Digest) -> bool,
    ) -> Vec<Arc<Zygote>> {
        let mut state = self.state();
        let forgotten = state.kept.extract_if(.., |kept| {
            kept.function == *function && revisions(&kept.revision)
        });
        forgotten.map(|kept| kept.zygote).collect()
    }

    /// Gives up whatever is known of a function, waits until its zygotes have ended, and answers their
    /// process ids. Its workers have ended.
    pub(super) async fn end(&self, function: &Uid) -> Vec<u32> {
        let zygotes = self.forget(function, |_| true);
        self.state().refused.remove(function);
        let pids = zygotes.iter().filter_map(|zygote| zygote.pid()).collect();
        futures::future::join_all(zygotes.iter().map(|zygote| zygote.end())).await;
        pids
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Moves one to the end.
    fn used(&mut self, function: &Uid, revision: &Digest) -> Option<Arc<Zygote>> {
        let is = |kept: &Kept| kept.function == *function && kept.revision == *revision;
        let at = self.kept.iter().position(is)?;
        let kept = self.kept.remove(at);
        let zygote = kept.zygote.clone();
        self.kept.push(kept);
        Some(zygote)
    }
}
