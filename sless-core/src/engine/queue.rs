//! The queue of keys that are due for a reconcile.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

use crate::resource::ObjectKey;

/// Keys by the time at which they are due. A key stands in it once; while it is being worked on it
/// is not given out again, and what was asked for meanwhile comes when that is done.
#[derive(Debug, Default)]
pub(super) struct WorkQueue {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// By due time; the number keeps those of one time in order of arrival.
    order: BTreeSet<(Duration, u64, ObjectKey)>,
    due: HashMap<ObjectKey, (Duration, u64)>,
    working: HashSet<ObjectKey>,
    /// Asked for again while being worked on, and for when.
    again: HashMap<ObjectKey, Duration>,
    failures: HashMap<ObjectKey, u32>,
    next: u64,
}

/// What [`WorkQueue::take`] found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// This key is due; it must come back through [`WorkQueue::done`].
    Key(ObjectKey),
    /// The next key is due at this time.
    NotBefore(Duration),
    /// Nothing waits.
    Nothing,
}

impl WorkQueue {
    /// Asks for a key at `at`. An earlier time that was asked for before stays.
    pub(super) fn add(&self, key: ObjectKey, at: Duration) {
        {
            let mut state = self.state();
            if state.working.contains(&key) {
                let due = state.again.entry(key).or_insert(at);
                *due = at.min(*due);
                return;
            }
            state.insert(key, at);
        }
        self.changed.notify_one();
    }

    /// Takes the first key that is due at `now`.
    pub(super) fn take(&self, now: Duration) -> Taken {
        let mut state = self.state();
        let Some((at, ..)) = state.order.first() else {
            return Taken::Nothing;
        };
        if *at > now {
            return Taken::NotBefore(*at);
        }
        let Some((_, _, key)) = state.order.pop_first() else {
            return Taken::Nothing;
        };
        state.due.remove(&key);
        state.working.insert(key.clone());
        Taken::Key(key)
    }

    /// Gives a key back. `next` is when to look again, if at all.
    pub(super) fn done(&self, key: ObjectKey, next: Option<Duration>) {
        {
            let mut state = self.state();
            state.working.remove(&key);
            let again = state.again.remove(&key);
            let Some(at) = next.into_iter().chain(again).min() else {
                return;
            };
            state.insert(key, at);
        }
        self.changed.notify_one();
    }

    /// Counts a failure of this key in a row, and answers how many there are now.
    pub(super) fn failed(&self, key: &ObjectKey) -> u32 {
        let mut state = self.state();
        let failures = state.failures.entry(key.clone()).or_insert(0);
        *failures = failures.saturating_add(1);
        *failures
    }

    /// Forgets the failures of this key.
    pub(super) fn succeeded(&self, key: &ObjectKey) {
        self.state().failures.remove(key);
    }

    /// Waits until something was added.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// How many keys wait, and how many are being worked on.
    pub(super) fn depth(&self) -> (usize, usize) {
        let state = self.state();
        (state.order.len(), state.working.len())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn insert(&mut self, key: ObjectKey, at: Duration) {
        if let Some((due, number)) = self.due.get(&key).copied() {
            if due <= at {
                return;
            }
            self.order.remove(&(due, number, key.clone()));
        }
        let number = self.next;
        self.next += 1;
        self.due.insert(key.clone(), (at, number));
        self.order.insert((at, number, key));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Kind, Name, Namespace};

    fn key(number: u8) -> ObjectKey {
        let name = Name::new(format!("f{number}")).expect("a label");
        ObjectKey::new(Kind::Function, Namespace::new("ns").expect("a label"), name)
    }

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_earliest_time_wins() {
        let queue = WorkQueue::default();
        queue.add(key(1), at(5));
        queue.add(key(1), at(3));
        queue.add(key(1), at(9));
        assert_eq!(queue.take(at(2)), Taken::NotBefore(at(3)));
        assert_eq!(queue.take(at(3)), Taken::Key(key(1)));
        assert_eq!(queue.take(at(9)), Taken::Nothing);
    }

    #[test]
    fn what_is_asked_for_meanwhile_comes_afterwards() {
        let queue = WorkQueue::default();
        queue.add(key(1), at(0));
        assert_eq!(queue.take(at(0)), Taken::Key(key(1)));
        queue.add(key(1), at(0));
        assert_eq!(queue.take(at(0)), Taken::Nothing);
        queue.done(key(1), Some(at(60)));
        assert_eq!(queue.take(at(0)), Taken::Key(key(1)));
        queue.done(key(1), None);
        assert_eq!(queue.take(at(100)), Taken::Nothing);
    }

    proptest! {
        /// Whatever is done to the queue, no key is out twice, and none that was asked for is lost.
        #[test]
        fn no_key_is_out_twice_and_none_is_lost(steps in prop::collection::vec((0u8..4, 0u8..5, 0u64..4), 0..200)) {
            let queue = WorkQueue::default();
            let mut out = HashSet::new();
            let mut owed = HashSet::new();
            let mut now = Duration::ZERO;
            for (step, number, seconds) in steps {
                match step {
                    0 => {
                        queue.add(key(number), now + at(seconds));
                        owed.insert(key(number));
                    }
                    1 => now += at(seconds),
                    2 => {
                        if let Taken::Key(key) = queue.take(now) {
                            owed.remove(&key);
                            prop_assert!(out.insert(key), "given out twice");
                        }
                    }
                    _ => {
                        if out.remove(&key(number)) {
                            queue.done(key(number), None);
                        }
                    }
                }
            }
            for key in std::mem::take(&mut out) {
                queue.done(key, None);
            }
            while let Taken::Key(key) = queue.take(now + at(1000)) {
                owed.remove(&key);
                queue.done(key, None);
            }
            prop_assert!(owed.is_empty(), "lost: {owed:?}");
        }
    }
}
