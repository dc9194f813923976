//! What is counted for one trigger.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
};

use sless_core::SubscriptionStatus;
use tokio::sync::Notify;

/// What is counted for one trigger. It stays over new descriptions of its subscription and over new
/// connections.
#[derive(Debug, Default)]
pub(super) struct Counters {
    connected: AtomicBool,
    delivered: AtomicU64,
    failed: AtomicU64,
    dead_lettered: AtomicU64,
    in_flight: AtomicU64,
    /// Messages that were taken ahead.
    ahead: AtomicU64,
    told: Mutex<Told>,
    /// Told when a call has ended.
    pub(super) freed: Notify,
}

#[derive(Debug, Default)]
struct Told {
    reason: String,
    message: String,
}

impl Counters {
    /// What is seen. `ready` is how many messages the broker has yet to give out.
    pub(super) fn status(&self, ready: Option<u64>) -> SubscriptionStatus {
        let mut status = SubscriptionStatus::default();
        status.connected = self.connected.load(SeqCst);
        status.delivered = self.delivered.load(SeqCst);
        status.failed = self.failed.load(SeqCst);
        status.dead_lettered = self.dead_lettered.load(SeqCst);
        status.in_flight = self.in_flight.load(SeqCst);
        status.waiting = ready.map(|ready| ready + self.ahead.load(SeqCst));
        let told = self.told();
        told.reason.clone_into(&mut status.reason);
        told.message.clone_into(&mut status.message);
        status
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says what went wrong last.
    pub(super) fn tell(&self, message: &str) {
        let mut told = self.told();
        message.clone_into(&mut told.message);
    }

    /// Messages can come. Answers whether that is new.
    pub(super) fn connect(&self) -> bool {
        let mut told = self.told();
        let news = !told.reason.is_empty();
        if news {
            told.message.clear();
        }
        told.reason.clear();
        !self.connected.swap(true, SeqCst) || news
    }

    /// No messages can come, and why. Answers whether that is new.
    pub(super) fn disconnect(&self, reason: &str, message: &str) -> bool {
        let mut told = self.told();
        let news = told.reason != reason || told.message != message;
        reason.clone_into(&mut told.reason);
        message.clone_into(&mut told.message);
        self.connected.swap(false, SeqCst) || news
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight.load(SeqCst)
    }

    pub(super) fn count_delivered(&self) {
        self.delivered.fetch_add(1, SeqCst);
    }

    pub(super) fn count_failed(&self, reason: &str) {
        self.failed.fetch_add(1, SeqCst);
        self.tell(reason);
    }

    pub(super) fn count_dead(&self) {
        self.dead_lettered.fetch_add(1, SeqCst);
    }

    pub(super) fn set_ahead(&self, count: usize) {
        self.ahead.store(count as u64, SeqCst);
    }
}

/// A call that is counted as under way, until it is dropped.
#[derive(Debug)]
pub(super) struct InFlight(std::sync::Arc<Counters>);

impl InFlight {
    pub(super) fn new(counters: std::sync::Arc<Counters>) -> Self {
        counters.in_flight.fetch_add(1, SeqCst);
        Self(counters)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, SeqCst);
        // For each consumer that may wait: the one that ends, and the one that follows it.
        self.0.freed.notify_waiters();
        self.0.freed.notify_one();
    }
}
