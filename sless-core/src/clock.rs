//! Time, as something that a test can hold in its hand.
//!
//! Everything in this crate that reads the time or waits asks a [`Clock`]. There are two: the
//! [`SystemClock`], and the [`VirtualClock`], which stands still until it is told to move.

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    sync::{Arc, LazyLock, Mutex, PoisonError},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::oneshot;

use crate::{Error, ErrorKind, Result};

/// Where time comes from.
///
/// # Contract
/// - [`now`](Clock::now) is the wall clock and may jump either way.
/// - [`sleep`](Clock::sleep) measures elapsed time: a jump of the wall clock neither shortens nor
///   lengthens it. Dropping the future ends the wait.
/// - [`wake_at`](Clock::wake_at) follows the wall clock: when that jumps past the instant, the wait
///   ends within [`JUMP_SEEN_WITHIN`]. This is what a watcher of the calendar uses.
#[async_trait]
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The wall clock's time.
    fn now(&self) -> Timestamp;

    /// How much time has passed since some fixed moment. It never goes back and never jumps.
    fn elapsed(&self) -> Duration;

    /// Waits for this much time to pass.
    async fn sleep(&self, duration: Duration);

    /// Waits until the wall clock shows `instant` or later.
    async fn wake_at(&self, instant: Timestamp);
}

/// How soon a wait for a wall-clock time notices that the clock was set.
pub const JUMP_SEEN_WITHIN: Duration = Duration::from_secs(5);

/// The longest single wait; a longer one is a wait of this length, a hundred years.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Runs `future` for at most `limit` of the clock's time.
///
/// # Errors
/// [`ErrorKind::Timeout`] when the time is over; the future is then dropped.
pub async fn timeout<T>(
    clock: &dyn Clock,
    limit: Duration,
    future: impl Future<Output = T>,
) -> Result<T> {
    tokio::select! {
        biased;
        value = future => Ok(value),
        () = clock.sleep(limit) => Err(Error::new(
            ErrorKind::Timeout,
            format!("no answer within {} ms", limit.as_millis()),
        )),
    }
}

/// The machine's clock, on tokio's timers.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn elapsed(&self) -> Duration {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        START.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration.min(FOREVER)).await;
    }

    async fn wake_at(&self, instant: Timestamp) {
        loop {
            let left = Duration::try_from(instant.duration_since(self.now())).unwrap_or_default();
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(JUMP_SEEN_WITHIN)).await;
        }
    }
}

/// A clock that moves only when told to, for tests and simulations.
///
/// Clones share one time. [`advance`](VirtualClock::advance) fires the waits that come due one
/// after the other, in order of their time, and lets the tasks that they wake run in between, so
/// that a year passes in the time that its work takes. It needs a current-thread runtime to be
/// deterministic.
///
/// ```
/// # use std::time::Duration;
/// # use sless_core::{Clock, VirtualClock};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let clock = VirtualClock::default();
/// let start = clock.now();
/// let sleeper = tokio::spawn({
///     let clock = clock.clone();
///     async move { clock.sleep(Duration::from_secs(3600)).await }
/// });
/// clock.advance(Duration::from_secs(3600)).await;
/// sleeper.await.expect("the hour is over");
/// assert_eq!(clock.now().duration_since(start).as_secs(), 3600);
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct VirtualClock {
    hands: Arc<Mutex<Hands>>,
    turns: usize,
}

#[derive(Debug)]
struct Hands {
    /// Nanoseconds since this clock was made; only ever grows.
    elapsed: u128,
    wall: Timestamp,
    next_id: u64,
    /// Waits for elapsed time, by when and by order of arrival.
    sleepers: BTreeMap<(u128, u64), oneshot::Sender<()>>,
    /// Waits for the wall clock.
    watchers: BTreeMap<(Timestamp, u64), oneshot::Sender<()>>,
}

/// How often woken tasks get a turn between two instants of a [`VirtualClock`], where nothing is said.
const TURNS: usize = 64;

impl Default for VirtualClock {
    /// Begins on 2026-01-01 at 00:00 UTC.
    fn default() -> Self {
        Self::at(Timestamp::from_second(1_767_225_600).unwrap_or_default())
    }
}

impl VirtualClock {
    /// A clock that shows this time.
    pub fn at(wall: Timestamp) -> Self {
        let hands = Hands {
            elapsed: 0,
            wall,
            next_id: 0,
            sleepers: BTreeMap::new(),
            watchers: BTreeMap::new(),
        };
        Self {
            hands: Arc::new(Mutex::new(hands)),
            turns: TURNS,
        }
    }

    /// How often woken tasks get a turn between two instants, 64 where nothing is said. Fewer are
    /// quicker, and what then is not done by the first instant is done at the next.
    #[must_use]
    pub const fn with_turns(mut self, turns: usize) -> Self {
        self.turns = turns;
        self
    }

    /// Lets this much time pass, firing on the way what comes due.
    pub async fn advance(&self, duration: Duration) {
        let target = self.hands().elapsed + duration.as_nanos();
        self.settle().await;
        loop {
            let fired = self.hands().step(target);
            self.settle().await;
            if !fired {
                return;
            }
        }
    }

    /// Lets time pass until the next wait ends. Answers whether there was one.
    pub async fn advance_to_next(&self) -> bool {
        self.settle().await;
        let due = self.hands().next_due();
        let Some(due) = due else { return false };
        self.hands().step(due);
        self.settle().await;
        true
    }

    /// Sets the wall clock, as an operator or NTP does. No time passes.
    pub async fn set(&self, wall: Timestamp) {
        {
            let mut hands = self.hands();
            hands.wall = wall;
            hands.fire_due();
        }
        self.settle().await;
    }

    /// Lets every task that can run do so.
    pub async fn settle(&self) {
        for _ in 0..self.turns {
            tokio::task::yield_now().await;
        }
    }

    fn hands(&self) -> std::sync::MutexGuard<'_, Hands> {
        self.hands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hands {
    /// When the next wait ends, in elapsed nanoseconds.
    fn next_due(&self) -> Option<u128> {
        let sleeper = self.sleepers.keys().next().map(|(at, _)| *at);
        let watcher = self.watchers.keys().next().map(|(at, _)| {
            self.elapsed + u128::try_from(at.duration_since(self.wall).as_nanos()).unwrap_or(0)
        });
        sleeper.into_iter().chain(watcher).min()
    }

    /// Moves to the next wait's end, at most to `target`; answers whether a wait ended.
    fn step(&mut self, target: u128) -> bool {
        let due = self.next_due().filter(|due| *due <= target);
        let to = due.unwrap_or(target).max(self.elapsed);
        let passed = i64::try_from(to - self.elapsed).unwrap_or(i64::MAX);
        self.elapsed = to;
        self.wall = self
            .wall
            .checked_add(jiff::SignedDuration::from_nanos(passed))
            .unwrap_or(Timestamp::MAX);
        self.fire_due();
        due.is_some()
    }

    fn fire_due(&mut self) {
        while let Some(entry) = self.sleepers.first_entry() {
            if entry.key().0 > self.elapsed {
                break;
            }
            // The receiver is gone when the wait was dropped.
            let _ = entry.remove().send(());
        }
        while let Some(entry) = self.watchers.first_entry() {
            if entry.key().0 > self.wall {
                break;
            }
            let _ = entry.remove().send(());
        }
    }
}

#[async_trait]
impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        self.hands().wall
    }

    fn elapsed(&self) -> Duration {
        let elapsed = self.hands().elapsed;
        Duration::from_nanos(u64::try_from(elapsed).unwrap_or(u64::MAX))
    }

    async fn sleep(&self, duration: Duration) {
        let woken = {
            let mut hands = self.hands();
            let (wake, woken) = oneshot::channel();
            let key = (
                hands.elapsed + duration.min(FOREVER).as_nanos(),
                hands.next_id,
            );
            hands.next_id += 1;
            hands.sleepers.retain(|_, sleeper| !sleeper.is_closed());
            hands.sleepers.insert(key, wake);
            if duration.is_zero() {
                hands.fire_due();
            }
            woken
        };
        // An error means that the clock is gone, and with it the time to wait for.
        let _ = woken.await;
    }

    async fn wake_at(&self, instant: Timestamp) {
        let woken = {
            let mut hands = self.hands();
            let (wake, woken) = oneshot::channel();
            let key = (instant, hands.next_id);
            hands.next_id += 1;
            hands.watchers.retain(|_, watcher| !watcher.is_closed());
            hands.watchers.insert(key, wake);
            hands.fire_due();
            woken
        };
        let _ = woken.await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waits_end_in_order_of_their_time() {
        let clock = VirtualClock::default();
        let order = Arc::new(Mutex::new(Vec::new()));
        for seconds in [3, 1, 2] {
            let (clock, order) = (clock.clone(), order.clone());
            tokio::spawn(async move {
                clock.sleep(Duration::from_secs(seconds)).await;
                order.lock().expect("no panic").push(seconds);
            });
        }
        clock.advance(Duration::from_secs(2)).await;
        assert_eq!(*order.lock().expect("no panic"), [1, 2]);
        clock.advance(Duration::from_secs(1)).await;
        assert_eq!(*order.lock().expect("no panic"), [1, 2, 3]);
    }

    #[tokio::test]
    async fn a_jump_wakes_watchers_of_the_wall_clock_and_no_sleeper() {
        let clock = VirtualClock::default();
        let noon = clock.now() + jiff::SignedDuration::from_hours(12);
        let watcher = tokio::spawn({
            let clock = clock.clone();
            async move { clock.wake_at(noon).await }
        });
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move { clock.sleep(Duration::from_secs(60)).await }
        });
        clock.settle().await;
        clock.set(noon).await;
        assert!(watcher.is_finished());
        assert!(!sleeper.is_finished());
    }

    #[tokio::test]
    async fn a_time_out_drops_what_it_waits_for() {
        let clock = VirtualClock::default();
        let waiting = tokio::spawn({
            let clock = clock.clone();
            async move { timeout(&clock, Duration::from_secs(1), std::future::pending::<()>()).await }
        });
        clock.advance(Duration::from_secs(1)).await;
        let error = waiting.await.expect("no panic").expect_err("time is over");
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert!(!clock.advance_to_next().await);
    }
}
