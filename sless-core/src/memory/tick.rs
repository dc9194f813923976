//! What wakes those who wait for a change.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use tokio::sync::Notify;

/// Tells of changes. Whoever waits is woken in the order of waiting, so that a simulation can be
/// repeated; `tokio::sync::watch` wakes in an order of chance.
#[derive(Debug, Default)]
pub(super) struct Tick(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    count: AtomicU64,
    over: AtomicBool,
    notify: Notify,
}

/// Waits for what a [`Tick`] tells.
#[derive(Debug)]
pub(super) struct Ticks {
    shared: Arc<Shared>,
    seen: u64,
}

impl Tick {
    /// Wakes everybody.
    pub(super) fn tell(&self) {
        self.0.count.fetch_add(1, Ordering::Release);
        self.0.notify.notify_waiters();
    }

    /// Waits for what is told from now on.
    pub(super) fn subscribe(&self) -> Ticks {
        Ticks {
            shared: Arc::clone(&self.0),
            seen: self.0.count.load(Ordering::Acquire),
        }
    }
}

impl Drop for Tick {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Release);
        self.0.notify.notify_waiters();
    }
}

impl Ticks {
    /// Takes what was told so far for known.
    pub(super) fn mark_seen(&mut self) {
        self.seen = self.shared.count.load(Ordering::Acquire);
    }

    /// Waits until something is told that is not known. Answers `false` once nothing ever will be.
    pub(super) async fn next(&mut self) -> bool {
        loop {
            let mut notified = pin!(self.shared.notify.notified());
            // From here on it is woken, so that nothing is missed between a look and the wait.
            notified.as_mut().enable();
            let count = self.shared.count.load(Ordering::Acquire);
            if count != self.seen {
                self.seen = count;
                return true;
            }
            if self.shared.over.load(Ordering::Acquire) {
                return false;
            }
            notified.await;
        }
    }
}
