//! One worker process.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};

use crate::error::Reason;
use crate::supervise::Message;
use crate::system::{Group, Stop};

/// How a worker ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) reason: Reason,
    /// For example `killed by signal 9`.
    pub(crate) message: String,
}

/// What the slots of a worker, its calls and the supervisor share.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) id: u64,
    group: Group,
    pub(crate) started: Instant,
    retired: AtomicBool,
    /// A call was answered.
    pub(crate) answered: AtomicBool,
    /// Slots in the hands of calls.
    pub(crate) leased: AtomicUsize,
    /// Whether the process is still there to be signalled.
    alive: Mutex<bool>,
    exit: watch::Sender<Option<Exit>>,
    supervisor: mpsc::UnboundedSender<Message>,
}

/// How long a call waits to learn how its worker ended.
const EXIT_PATIENCE: Duration = Duration::from_secs(2);

impl Worker {
    pub(crate) fn new(group: Group, supervisor: mpsc::UnboundedSender<Message>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            group,
            started: Instant::now(),
            retired: AtomicBool::new(false),
            answered: AtomicBool::new(false),
            leased: AtomicUsize::new(0),
            alive: Mutex::new(true),
            exit: watch::Sender::new(None),
            supervisor,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.group.number()
    }

    /// Whether calls may be given to it.
    pub(crate) fn takes_calls(&self) -> bool {
        !self.retired.load(Ordering::Acquire)
    }

    /// It gets no more calls, since it has ended or is about to.
    pub(crate) fn close(&self) {
        self.retired.store(true, Ordering::Release);
    }

    /// It gets no more calls; the supervisor starts another one. Calls that it runs go on, and
    /// the end of the last one ends it.
    pub(crate) fn retire(&self) {
        if !self.retired.swap(true, Ordering::AcqRel) {
            let _ = self.supervisor.send(Message::Retired(self.id));
        }
    }

    /// Ends the process and whatever it started in its group.
    pub(crate) fn stop_group(&self, how: Stop) {
        let alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        if *alive {
            self.group.stop(how);
        }
    }

    pub(crate) fn kill_group(&self) {
        self.stop_group(Stop::Kill);
    }

    /// The process has been reaped. What is left of its group is killed: the group's number stays
    /// taken as long as somebody is in it.
    pub(crate) fn reaped(&self) {
        let mut alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        self.group.stop(Stop::Kill);
        *alive = false;
        self.retired.store(true, Ordering::Release);
    }

    /// Tells everybody that it has ended.
    pub(crate) fn ended(&self, exit: Exit) {
        self.exit.send_replace(Some(exit));
        let _ = self.supervisor.send(Message::Exited(self.id));
    }

    pub(crate) fn exit(&self) -> Option<Exit> {
        self.exit.borrow().clone()
    }

    /// Waits until it has ended.
    pub(crate) async fn gone(&self) {
        let mut exit = self.exit.subscribe();
        // The sender lives as long as `self`.
        let _ = exit.wait_for(Option::is_some).await;
    }

    /// How it ended, waiting a little for that to be known.
    pub(crate) async fn exit_soon(&self) -> Exit {
        let _ = tokio::time::timeout(EXIT_PATIENCE, self.gone()).await;
        self.exit().unwrap_or_else(|| Exit {
            reason: Reason::Crash,
            message: "it closed its socket".to_owned(),
        })
    }
}
