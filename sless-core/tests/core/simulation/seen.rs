//! What happened in a world, as it was seen at the backends and in the functions.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    hash::{DefaultHasher, Hasher as _},
    sync::{Mutex, MutexGuard, PoisonError},
};

use sless_core::{Clock as _, JobPhase, Uid, VirtualClock};

/// Lines of the trace that are kept to be shown.
const LINES: usize = 300;

#[derive(Debug)]
pub(super) struct Seen {
    clock: VirtualClock,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    lines: VecDeque<String>,
    hash: DefaultHasher,
    /// Messages that were taken by their queue, that a function handled, and that died.
    pub(super) accepted: BTreeSet<String>,
    pub(super) handled: BTreeSet<String>,
    pub(super) dead: BTreeSet<String>,
    /// How often each run of a job, by its name, was begun.
    pub(super) begun: BTreeMap<String, u32>,
    /// How each run of a job ended, as the catalog was told.
    pub(super) ends: BTreeMap<(Uid, i64), JobPhase>,
    /// What must not be.
    pub(super) broken: Vec<String>,
}

impl Seen {
    pub(super) fn new(clock: VirtualClock) -> Self {
        Self {
            clock,
            state: Mutex::default(),
        }
    }

    /// Adds a line to the trace.
    pub(super) fn note(&self, what: std::fmt::Arguments<'_>) {
        let line = format!("{:?} {what}", self.clock.elapsed());
        let mut state = self.state();
        state.hash.write(line.as_bytes());
        if state.lines.len() == LINES {
            state.lines.pop_front();
        }
        state.lines.push_back(line);
    }

    pub(super) fn broken(&self, what: String) {
        self.state().broken.push(what);
    }

    /// The trace as one number.
    pub(super) fn digest(&self) -> u64 {
        self.state().hash.finish()
    }

    pub(super) fn trace(&self) -> Vec<String> {
        self.state().lines.iter().cloned().collect()
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
