//! How quickly a worker may fill its log.
//!
//! What is written beyond that is not read: it waits in the kernel, and soon whoever writes waits too. So
//! a function that floods its log takes its own time, and not that of the process that serves all of them.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What a line costs beside its bytes: making a record of it costs more than a short line itself.
const LINE_BYTES: u64 = 256;

/// The longest single pause: whoever pauses sees that the worker has ended.
pub(crate) const PAUSE_MAX: Duration = Duration::from_millis(100);

/// A bucket that fills with what is written, and leaks at a steady rate.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Bytes in a second; 0 is no limit.
    rate: u64,
    /// Bytes that are taken at once.
    burst: u64,
    filled: Mutex<Filled>,
}

#[derive(Debug)]
struct Filled {
    bytes: f64,
    at: Instant,
}

impl Pace {
    pub(crate) fn new(rate: u64, burst: u64) -> Self {
        let filled = Filled {
            bytes: 0.0,
            at: Instant::now(),
        };
        Self {
            rate,
            burst,
            filled: Mutex::new(filled),
        }
    }

    /// Takes note of bytes that were read.
    pub(crate) fn spend(&self, bytes: usize) {
        self.add(bytes as f64, Instant::now());
    }

    /// Takes note of a line.
    pub(crate) fn spend_line(&self) {
        self.add(LINE_BYTES as f64, Instant::now());
    }

    /// How long nothing is to be read.
    pub(crate) fn pause(&self) -> Option<Duration> {
        let over = self.add(0.0, Instant::now()) - self.burst as f64;
        if self.rate == 0 || over <= 0.0 {
            return None;
        }
        let pause = Duration::try_from_secs_f64(over / self.rate as f64);
        Some(pause.map_or(PAUSE_MAX, |pause| pause.min(PAUSE_MAX)))
    }

    /// Whether so much is written that not even the end of a call is waited for.
    pub(crate) fn is_flooded(&self) -> bool {
        self.rate > 0 && self.add(0.0, Instant::now()) > 2.0 * self.burst as f64
    }

    fn add(&self, bytes: f64, now: Instant) -> f64 {
        let mut filled = self.filled.lock().unwrap_or_else(PoisonError::into_inner);
        let since = now.saturating_duration_since(filled.at).as_secs_f64();
        let left = (filled.bytes - since * self.rate as f64).max(0.0);
        *filled = Filled {
            bytes: left + bytes,
            at: now,
        };
        filled.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_free_and_the_rest_takes_its_time() {
        let pace = Pace::new(1000, 5000);
        let start = Instant::now();
        assert!(pace.add(5000.0, start) <= 5000.0);
        assert!(pace.pause().is_none());
        pace.add(1000.0, start);
        assert_eq!(pace.pause(), Some(PAUSE_MAX));
        let second = start + Duration::from_secs(1);
        assert!((pace.add(0.0, second) - 5000.0).abs() < 1.0);
        assert!(
            pace.add(0.0, start + Duration::from_secs(60)) < 1.0,
            "it leaks away"
        );
        pace.add(10_001.0, start + Duration::from_secs(60));
        assert!(pace.is_flooded());
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        let pace = Pace::new(0, 0);
        pace.spend(1 << 30);
        assert!(pace.pause().is_none() && !pace.is_flooded());
    }
}
