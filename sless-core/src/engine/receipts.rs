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

    /// Adds to the receipt. What nobody waits for is dropped.
    pub(super) fn add(&self, uid: &Uid, receipt: Receipt) {
        if let Some(waiting) = self.waiting().get_mut(uid) {
            waiting.receipt.merge(receipt);
        }
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
