//! Objects as they were read a moment ago, so that the write that follows need not read them again.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use sless_core::{Metadata, Object};

/// How many are remembered: some for each reconcile that goes on at once.
const KEPT: usize = 64;

/// The newest of what was read. It proves nothing: each write is held to the version that it begins from,
/// and refused where that is not the last one.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<VecDeque<Object>>);

impl Recent {
    pub(super) fn put(&self, object: &Object) {
        let uid = &object.metadata().uid;
        let object = object.clone();
        let mut all = self.lock();
        if let Some(at) = all.iter().position(|old| old.metadata().uid == *uid) {
            all.remove(at);
        } else if all.len() == KEPT {
            all.pop_front();
        }
        all.push_back(object);
    }

    /// The object of this uid and version, which nobody asks for twice.
    pub(super) fn take(&self, wanted: &Metadata) -> Option<Object> {
        let mut all = self.lock();
        let at = all.iter().position(|object| {
            let found = object.metadata();
            found.uid == wanted.uid && found.version == wanted.version
        });
        at.and_then(|at| all.remove(at))
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Object>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
