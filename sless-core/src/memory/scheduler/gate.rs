//! How many calls at once: places, and a bounded queue before them.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use tokio::sync::{oneshot, watch};

use super::super::lock;

/// The places of one revision.
#[derive(Debug)]
pub(super) struct Gate {
    state: Mutex<State>,
    /// Counts calls that wait or run.
    busy: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct State {
    places: usize,
    taken: usize,
    /// Who waits, the longest first.
    queue: VecDeque<oneshot::Sender<Place>>,
    closed: bool,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// The queue is full.
    Full,
    /// The gate was closed.
    Closed,
}

impl Gate {
    pub(super) fn new(places: usize) -> Arc<Self> {
        let state = State {
            places,
            ..State::default()
        };
        Arc::new(Self {
            state: Mutex::new(state),
            busy: watch::Sender::new(0),
        })
    }

    /// Takes a place, or waits for one together with at most `queue_max` others.
    pub(super) async fn enter(self: &Arc<Self>, queue_max: usize) -> Result<Place, NoPlace> {
        let waiting = {
            let mut state = lock(&self.state);
            if state.closed {
                return Err(NoPlace::Closed);
            }
            state.queue.retain(|waiter| !waiter.is_closed());
            if state.taken < state.places && state.queue.is_empty() {
                state.taken += 1;
                return Ok(self.place());
            }
            if state.queue.len() >= queue_max {
                return Err(NoPlace::Full);
            }
            let (waiter, waiting) = oneshot::channel();
            state.queue.push_back(waiter);
            waiting
        };
        let _busy = Busy::new(self);
        waiting.await.map_err(|_| NoPlace::Closed)
    }

    /// Changes the number of places. Those that are taken stay taken.
    pub(super) fn resize(self: &Arc<Self>, places: usize) {
        lock(&self.state).places = places;
        self.hand_out();
    }

    /// Lets nobody in any more, nor those who wait.
    pub(super) fn close(&self) {
        let waiting = {
            let mut state = lock(&self.state);
            state.closed = true;
            std::mem::take(&mut state.queue)
        };
        drop(waiting);
    }

    /// Whether somebody waits or runs.
    pub(super) fn is_busy(&self) -> bool {
        *self.busy.borrow() > 0
    }

    /// Waits until nobody waits or runs.
    pub(super) async fn empty(&self) {
        let mut busy = self.busy.subscribe();
        // This gate holds the sender, so that an error cannot come.
        let _ = busy.wait_for(|busy| *busy == 0).await;
    }

    fn place(self: &Arc<Self>) -> Place {
        Place {
            _busy: Busy::new(self),
            gate: Arc::clone(self),
        }
    }

    fn hand_out(self: &Arc<Self>) {
        loop {
            let (waiter, place) = {
                let mut state = lock(&self.state);
                state.queue.retain(|waiter| !waiter.is_closed());
                if state.taken >= state.places {
                    return;
                }
                let Some(waiter) = state.queue.pop_front() else {
                    return;
                };
                state.taken += 1;
                (waiter, self.place())
            };
            // One who left in between gives the place back, which hands it to the next.
            drop(waiter.send(place));
        }
    }
}

/// A place that is taken. Dropping it lets the next one in.
#[derive(Debug)]
pub(super) struct Place {
    gate: Arc<Gate>,
    _busy: Busy,
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.gate.state).taken -= 1;
        self.gate.hand_out();
    }
}

#[derive(Debug)]
struct Busy(Arc<Gate>);

impl Busy {
    fn new(gate: &Arc<Gate>) -> Self {
        gate.busy.send_modify(|busy| *busy += 1);
        Self(Arc::clone(gate))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.send_modify(|busy| *busy -= 1);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn places_are_handed_out_in_order_and_the_queue_is_bounded() {
        let gate = Gate::new(1);
        let first = gate.enter(1).await.expect("a place");
        let mut second = Box::pin(gate.enter(1));
        assert!((&mut second).now_or_never().is_none());
        assert_eq!(gate.enter(1).await.expect_err("full"), NoPlace::Full);
        drop(first);
        let second = second.await.expect("the place of the first");
        assert!(gate.is_busy());
        drop(second);
        assert!(!gate.is_busy());
    }

    #[tokio::test]
    async fn one_who_leaves_the_queue_takes_no_place() {
        let gate = Gate::new(1);
        let first = gate.enter(2).await.expect("a place");
        let mut left = Box::pin(gate.enter(2));
        assert!((&mut left).now_or_never().is_none());
        drop(left);
        let mut third = Box::pin(gate.enter(1));
        assert!((&mut third).now_or_never().is_none());
        drop(first);
        third.await.expect("the only one in the queue");
    }

    #[tokio::test]
    async fn closing_sends_away_who_waits() {
        let gate = Gate::new(0);
        let mut waiting = Box::pin(gate.enter(1));
        assert!((&mut waiting).now_or_never().is_none());
        gate.close();
        assert_eq!(waiting.await.expect_err("closed"), NoPlace::Closed);
        gate.empty().await;
    }
}
