//! Free slots and the calls that wait for one.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::error::{CallError, Reason};
use crate::frame::Malformed;
use crate::slot::{Broken, Slot};
use crate::worker::Worker;

/// How long a worker whose call was ended at its deadline, and that was in the middle of an answer,
/// may take to let go of it.
const LET_GO: Duration = Duration::from_secs(2);

/// Why calls are refused rather than queued.
#[derive(Debug, Clone)]
pub(crate) enum Refusal {
    Stopped,
    NotReady {
        reason: Reason,
        message: String,
        next_try: Instant,
    },
}

impl Refusal {
    fn into_error(self) -> CallError {
        match self {
            Refusal::Stopped => CallError::Stopped,
            Refusal::NotReady {
                reason,
                message,
                next_try,
            } => CallError::NotReady {
                reason,
                message,
                retry_after: next_try.saturating_duration_since(Instant::now()),
            },
        }
    }
}

#[derive(Debug)]
pub(crate) struct Pool {
    queue_length: usize,
    runtime: Handle,
    started: Instant,
    /// Milliseconds after `started`.
    last_activity: AtomicU64,
    in_flight: AtomicUsize,
    /// Told when a call ends and none is left; the supervisor listens while it drains.
    pub(crate) quiet: Notify,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The slot used last is used next, so that with few calls few threads are awake.
    #[allow(clippy::vec_box, reason = "slots move to calls and back all the time")]
    idle: Vec<Box<Slot>>,
    /// In order of arrival; holds only calls that still wait.
    waiting: VecDeque<(u64, oneshot::Sender<Result<Lease, Refusal>>)>,
    next_ticket: u64,
    refusal: Option<Refusal>,
}

impl Pool {
    pub(crate) fn new(queue_length: usize, runtime: Handle) -> Self {
        Self {
            queue_length,
            runtime,
            started: Instant::now(),
            last_activity: AtomicU64::new(0),
            in_flight: AtomicUsize::new(0),
            quiet: Notify::new(),
            state: Mutex::default(),
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    pub(crate) fn queued(&self) -> usize {
        self.lock().waiting.len()
    }

    pub(crate) fn last_activity(&self) -> Instant {
        self.started + Duration::from_millis(self.last_activity.load(Ordering::Relaxed))
    }

    /// Waits for a slot.
    pub(crate) async fn lease(self: &Arc<Self>, deadline: Instant) -> Result<Lease, Unleased> {
        let (ticket, receiver) = {
            let mut state = self.lock();
            if let Some(refusal) = &state.refusal {
                return Err(Unleased::Refused(refusal.clone().into_error()));
            }
            if let Some(slot) = state.idle.pop() {
                return Ok(self.lend(slot, deadline));
            }
            if state.waiting.len() >= self.queue_length {
                return Err(Unleased::Refused(CallError::Overloaded {
                    limit: "queue_length",
                    value: self.queue_length,
                    retry_after: Duration::from_secs(1),
                }));
            }
            let (sender, receiver) = oneshot::channel();
            let ticket = state.next_ticket;
            state.next_ticket += 1;
            state.waiting.push_back((ticket, sender));
            (ticket, receiver)
        };
        let _place = Place { pool: self, ticket };
        match timeout_at(deadline, receiver).await {
            Ok(Ok(Ok(mut lease))) => {
                lease.deadline = deadline;
                Ok(lease)
            }
            Ok(Ok(Err(refusal))) => Err(Unleased::Refused(refusal.into_error())),
            Ok(Err(_)) => Err(Unleased::Refused(CallError::Stopped)),
            Err(_) => Err(Unleased::OutOfTime),
        }
    }

    /// Takes a new worker's slots.
    pub(crate) fn add(self: &Arc<Self>, slots: Vec<Slot>) {
        for slot in slots {
            self.put(Box::new(slot));
        }
    }

    /// Drops the free slots of a worker that gets no more calls.
    pub(crate) fn purge(&self, worker: &Worker) {
        let purged: Vec<Box<Slot>> = {
            let mut state = self.lock();
            let (purged, idle) = state
                .idle
                .drain(..)
                .partition(|slot| slot.worker.id == worker.id);
            state.idle = idle;
            purged
        };
        drop(purged);
    }

    /// Refuses calls from now on; the ones that wait already go on waiting.
    pub(crate) fn refuse(&self, refusal: Refusal) {
        self.lock().refusal = Some(refusal);
    }

    /// Refuses the calls that wait.
    pub(crate) fn turn_away(&self, refusal: &Refusal) {
        let waiting = std::mem::take(&mut self.lock().waiting);
        for (_, sender) in waiting {
            let _ = sender.send(Err(refusal.clone()));
        }
    }

    /// Takes calls again.
    pub(crate) fn accept(&self) {
        self.lock().refusal = None;
    }

    fn lend(self: &Arc<Self>, slot: Box<Slot>, deadline: Instant) -> Lease {
        slot.worker.leased.fetch_add(1, Ordering::Relaxed);
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        self.touch();
        Lease {
            slot: Some(slot),
            pool: Arc::clone(self),
            deadline,
            discard: false,
            cleaning: false,
        }
    }

    /// Gives a clean slot to the call that waits longest, or keeps it.
    fn put(self: &Arc<Self>, mut slot: Box<Slot>) {
        let mut state = self.lock();
        loop {
            if !slot.worker.takes_calls() {
                drop(state);
                return;
            }
            let Some((_, sender)) = state.waiting.pop_front() else {
                state.idle.push(slot);
                return;
            };
            let deadline = Instant::now();
            let Err(Ok(mut lease)) = sender.send(Ok(self.lend(slot, deadline))) else {
                return;
            };
            // The call left at this very moment.
            let Some(back) = lease.slot.take() else {
                return;
            };
            back.worker.leased.fetch_sub(1, Ordering::Relaxed);
            self.in_flight.fetch_sub(1, Ordering::Relaxed);
            slot = back;
        }
    }

    /// A lease has ended.
    fn ended(&self, worker: &Worker) {
        self.touch();
        let left = self.in_flight.fetch_sub(1, Ordering::AcqRel) - 1;
        if worker.leased.fetch_sub(1, Ordering::AcqRel) == 1 && !worker.takes_calls() {
            worker.kill_group();
        }
        if left == 0 {
            self.quiet.notify_one();
        }
    }

    fn touch(&self) {
        let now = self.started.elapsed().as_millis() as u64;
        self.last_activity.store(now, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why there is no lease.
#[derive(Debug)]
pub(crate) enum Unleased {
    Refused(CallError),
    OutOfTime,
}

/// A call's place in the queue.
struct Place<'a> {
    pool: &'a Pool,
    ticket: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        // Tickets ascend, so whoever is not in front was served or left.
        let at = state
            .waiting
            .partition_point(|(ticket, _)| *ticket < self.ticket);
        if state
            .waiting
            .get(at)
            .is_some_and(|(ticket, _)| *ticket == self.ticket)
        {
            let gone = state.waiting.remove(at);
            drop(state);
            drop(gone);
            self.pool.quiet.notify_one();
        }
    }
}

/// A slot in the hands of one call.
///
/// Dropped when the call is over, it gives the slot back. Dropped before, it tells the worker
/// that the client has left and gives the slot back when the worker has let go of it; when that
/// is not so at the call's deadline, the worker is replaced.
#[derive(Debug)]
pub(crate) struct Lease {
    slot: Option<Box<Slot>>,
    pool: Arc<Pool>,
    deadline: Instant,
    /// The slot is not to be used again.
    discard: bool,
    /// The clean-up has begun; when it is dropped, its runtime ends, and there is no second one.
    cleaning: bool,
}

impl Lease {
    /// `None` only after the lease has been given up.
    pub(crate) fn slot(&mut self) -> Option<&mut Slot> {
        self.slot.as_deref_mut()
    }

    /// The call overran or the worker talks nonsense: another worker takes the next calls.
    pub(crate) fn give_up(&mut self) {
        self.discard = true;
        if let Some(slot) = &self.slot {
            slot.worker.retire();
            self.pool.purge(&slot.worker);
        }
    }

    /// The worker has closed the slot, so it has ended or is about to.
    pub(crate) fn lost(&mut self) {
        self.discard = true;
        if let Some(slot) = &self.slot {
            slot.worker.close();
            self.pool.purge(&slot.worker);
        }
    }

    /// Gives the worker a moment beyond the call's deadline to let go of the slot.
    pub(crate) fn may_let_go(&mut self) {
        self.deadline = self.deadline.max(Instant::now()) + LET_GO;
    }

    fn finish(&mut self, slot: Box<Slot>) {
        let worker = Arc::clone(&slot.worker);
        if self.discard {
            drop(slot);
        } else {
            worker.answered.store(true, Ordering::Relaxed);
            self.pool.put(slot);
        }
        self.pool.ended(&worker);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(slot) = self.slot.take() else { return };
        self.discard |= self.cleaning;
        if self.discard || slot.is_clean() {
            return self.finish(slot);
        }
        // The clean-up has a lease of its own, so that the slot stays counted.
        let mut lease = Lease {
            slot: Some(slot),
            pool: Arc::clone(&self.pool),
            deadline: self.deadline,
            discard: false,
            cleaning: true,
        };
        self.pool.runtime.spawn(async move {
            let deadline = lease.deadline;
            let Some(slot) = lease.slot() else { return };
            match timeout_at(deadline, let_go(slot)).await {
                Ok(Ok(())) => {}
                Ok(Err(Broken::Closed | Broken::Unread)) => lease.lost(),
                Ok(Err(Broken::Malformed(_))) | Err(_) => lease.give_up(),
            }
            if let Some(slot) = lease.slot.take() {
                lease.finish(slot);
            }
        });
    }
}

/// Tells the worker that the client has left and reads the answer to its end.
async fn let_go(slot: &mut Slot) -> Result<(), Broken> {
    let mut told = slot.answer.got_end && slot.sent_end;
    poll_fn(|cx| {
        // The worker may be busy writing, so neither direction waits for the other.
        if slot.poll_flush(cx)?.is_ready() && !told {
            told = true;
            slot.queue_cancel();
            let _ = slot.poll_flush(cx)?;
        }
        while !slot.answer.got_end {
            if slot.poll_said(cx)?.is_pending() {
                return Poll::Pending;
            }
        }
        if !told || slot.unsent() > 0 {
            return Poll::Pending;
        }
        // What is left over here was said after the end.
        let after = || Broken::Malformed(Malformed("a frame after the end"));
        Poll::Ready(if slot.is_clean() {
            Ok(())
        } else {
            Err(after())
        })
    })
    .await
}
