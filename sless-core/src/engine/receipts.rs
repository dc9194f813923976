//! Who waits for what a deletion removed, and what is left to remove.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

use crate::{FunctionId, Receipt, Uid};

/// The deletions that somebody in this process waits for.
#[derive(Debug, Default)]
pub(super) struct Receipts(Mutex<HashMap<Uid, Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    receipt: Receipt,
    waiters: Vec<oneshot::Sender<Receipt>>,
}

impl Receipts {
    /// Waits for the end of this object's deletion.
    pub(super) fn wait(&self, uid: &Uid) -> oneshot::Receiver<Receipt> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.waiting();
        waiting.retain(|_, waiting| {
            waiting.waiters.retain(|waiter| !waiter.is_closed());
            !waiting.waiters.is_empty()
        });
        waiting.entry(uid.clone()).or_default().waiters.push(sender);
        receiver
    }

    /// Adds to the receipt what one more look came to: what was to go a little later is gone, unless that
    /// says so again. What nobody waits for is dropped.
    pub(super) fn add(&self, uid: &Uid, receipt: Receipt) {
        if let Some(waiting) = self.waiting().get_mut(uid) {
            let left = &mut waiting.receipt.left;
            left.retain(|left| !left.again && !receipt.left.contains(left));
            waiting.receipt.merge(receipt);
        }
    }

    /// The receipt of a deletion that goes on.
    pub(super) fn so_far(&self, uid: &Uid) -> Receipt {
        let waiting = self.waiting();
        waiting
            .get(uid)
            .map_or_else(Receipt::default, |waiting| waiting.receipt.clone())
    }

    /// Hands out the receipt.
    pub(super) fn close(&self, uid: &Uid) {
        let Some(waiting) = self.waiting().remove(uid) else {
            return;
        };
        for waiter in waiting.waiters {
            // A waiter that has gone wants no receipt.
            let _ = waiter.send(waiting.receipt.clone());
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<Uid, Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The functions with old versions that could not be dropped yet.
#[derive(Debug, Default)]
pub(super) struct Untidy(Mutex<HashSet<Uid>>);

impl Untidy {
    pub(super) fn contains(&self, function: &FunctionId) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(&function.uid)
    }

    pub(super) fn set(&self, function: &FunctionId, untidy: bool) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if untidy {
            all.insert(function.uid.clone());
        } else {
            all.remove(&function.uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Left;

    fn look(removed: &[&str], left: &[(&str, bool)]) -> Receipt {
        let mut receipt = Receipt::default();
        for name in removed {
            receipt.add("thing", *name, "test");
        }
        receipt.left.extend(left.iter().map(|(name, again)| Left {
            kind: "thing".to_owned(),
            name: (*name).to_owned(),
            backend: "test".to_owned(),
            why: "it ends".to_owned(),
            again: *again,
        }));
        receipt
    }

    #[test]
    fn what_ends_later_is_left_only_until_it_has_ended() {
        let receipts = Receipts::default();
        let uid = Uid::random();
        let mut receipt = receipts.wait(&uid);
        receipts.add(&uid, look(&["a"], &[("pod", true), ("kept", false)]));
        receipts.add(&uid, look(&[], &[("pod", true), ("kept", false)]));
        let seen = look(&["a"], &[("pod", true), ("kept", false)]);
        assert_eq!(receipts.so_far(&uid), seen);
        receipts.add(&uid, look(&["b"], &[]));
        receipts.close(&uid);
        let seen = look(&["a", "b"], &[("kept", false)]);
        assert_eq!(receipt.try_recv(), Ok(seen));
    }
}
