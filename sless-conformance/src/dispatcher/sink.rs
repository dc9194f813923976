//! A sink that remembers.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use sless_core::{Clock, Delivery, Disposition, EventSink};
use tokio::sync::watch;

/// One call of a [`RecordingSink`].
#[derive(Clone, Debug)]
pub struct Recorded {
    /// What was delivered.
    pub delivery: Delivery,
    /// When, on the clock's scale of elapsed time.
    pub at: Duration,
}

type Answer = dyn Fn(&Delivery) -> Disposition + Send + Sync;

/// An [`EventSink`] that remembers its calls, answers as it is told, and can be held up.
pub struct RecordingSink {
    clock: Arc<dyn Clock>,
    answer: Box<Answer>,
    calls: Mutex<Vec<Recorded>>,
    held: watch::Sender<bool>,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
}

impl RecordingSink {
    /// A sink that gives these answers.
    pub fn new(
        clock: Arc<dyn Clock>,
        answer: impl Fn(&Delivery) -> Disposition + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            clock,
            answer: Box::new(answer),
            calls: Mutex::default(),
            held: watch::Sender::new(false),
            at_once: AtomicUsize::new(0),
            most_at_once: AtomicUsize::new(0),
        })
    }

    /// Makes calls wait before they answer, until `release`.
    pub fn hold(&self) {
        self.held.send_replace(true);
    }

    /// Lets calls answer.
    pub fn release(&self) {
        self.held.send_replace(false);
    }

    /// The calls so far, in the order in which they came.
    pub fn calls(&self) -> Vec<Recorded> {
        self.calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// How many calls have not answered yet.
    pub fn at_once(&self) -> usize {
        self.at_once.load(Ordering::SeqCst)
    }

    /// The most calls that had not answered at one time.
    pub fn most_at_once(&self) -> usize {
        self.most_at_once.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for RecordingSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordingSink")
            .field("calls", &self.calls())
            .finish_non_exhaustive()
    }
}

/// Counts a call as long as it lasts, also where it is dropped.
struct Call<'a>(&'a AtomicUsize);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl EventSink for RecordingSink {
    async fn deliver(&self, delivery: Delivery) -> Disposition {
        let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        let _call = Call(&self.at_once);
        self.most_at_once.fetch_max(now, Ordering::SeqCst);
        let recorded = Recorded {
            delivery: delivery.clone(),
            at: self.clock.elapsed(),
        };
        self.calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(recorded);
        // Others get a turn in any case, so that calls at once are seen as such.
        tokio::task::yield_now().await;
        // An error would mean that the sink itself is gone.
        let _ = self.held.subscribe().wait_for(|held| !held).await;
        (self.answer)(&delivery)
    }
}
