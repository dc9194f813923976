//! For tests of crashes: a process that kills itself at a fault point, and a clock that hurries.
//!
//! Only there with the feature `fault-points`, and inert unless the environment asks for it:
//!
//! | variable | means |
//! |---|---|
//! | `SLESS_TEST_FAULT_POINT` | `NAME:COUNT`: SIGKILL at this passing of the point |
//! | `SLESS_TEST_FAULT_GATE` | a file; passings count while it exists |
//! | `SLESS_TEST_CLOCK` | `SECONDS:RATE`: the wall clock showed the machine's time at this second since 1970, and has gone so many times as fast since then |

use std::{
    env,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use rustix::process::{Signal, getpid, kill_process};
use sless_core::{Clock, FaultPoint, SystemClock, fault_point};

/// The server's own points.
pub(crate) mod points {
    sless_core::fault_points! {
        /// A secret is written, and not in its place.
        KEY_BEFORE = "key.make.before";
        /// It is in its place.
        KEY_AFTER = "key.make.after";
    }
}

/// All points that this server can pass with the backends of one machine.
pub fn all() -> Vec<FaultPoint> {
    let shared = fault_point::ENGINE.iter().chain(points::ALL).copied();
    shared.chain(sless_local::fault_points()).collect()
}

/// Does what the environment asks for.
///
/// # Errors
/// What is wrong with a variable.
pub fn arm() -> Result<(), String> {
    let Ok(given) = env::var("SLESS_TEST_FAULT_POINT") else {
        return Ok(());
    };
    let wrong =
        || format!("SLESS_TEST_FAULT_POINT is {given}: expected NAME:COUNT of a fault point");
    let (name, count) = given.split_once(':').ok_or_else(wrong)?;
    let armed = all().into_iter().find(|point| point.name() == name);
    let armed = armed.ok_or_else(wrong)?;
    let left = AtomicU32::new(count.parse().map_err(|_| wrong())?);
    let gate = env::var_os("SLESS_TEST_FAULT_GATE").map(PathBuf::from);
    fault_point::listen(move |point| {
        if point != armed || gate.as_ref().is_some_and(|gate| !gate.exists()) {
            return;
        }
        if left.fetch_sub(1, Relaxed) == 1 {
            end();
        }
    });
    Ok(())
}

/// As a power cut would: no code of ours runs any more.
fn end() -> ! {
    let _ = kill_process(getpid(), Signal::KILL);
    loop {
        std::thread::park();
    }
}

/// The clock that the environment asks for, else the machine's.
pub(crate) fn clock() -> Arc<dyn Clock> {
    let given = env::var("SLESS_TEST_CLOCK").unwrap_or_default();
    let read = given.split_once(':').and_then(|(base, rate)| {
        let base = Timestamp::from_second(base.parse().ok()?).ok()?;
        Some(Hurried {
            base,
            rate: rate.parse().ok()?,
        })
    });
    match read {
        Some(hurried) => Arc::new(hurried),
        None => Arc::new(SystemClock),
    }
}

/// A wall clock that goes `rate` times as fast since `base`, over all processes that are started with the
/// same two; what waits for time to pass waits as long as ever. So a schedule fires every second, and
/// nothing else is hurried.
#[derive(Debug)]
struct Hurried {
    base: Timestamp,
    rate: i32,
}

#[async_trait]
impl Clock for Hurried {
    fn now(&self) -> Timestamp {
        let since: SignedDuration = Timestamp::now().duration_since(self.base);
        let hurried = since.checked_mul(self.rate).unwrap_or(SignedDuration::MAX);
        self.base.checked_add(hurried).unwrap_or(Timestamp::MAX)
    }

    fn elapsed(&self) -> Duration {
        SystemClock.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        SystemClock.sleep(duration).await;
    }

    async fn wake_at(&self, instant: Timestamp) {
        loop {
            let left = Duration::try_from(instant.duration_since(self.now())).unwrap_or_default();
            if left.is_zero() {
                return;
            }
            SystemClock
                .sleep(left / self.rate.unsigned_abs().max(1))
                .await;
        }
    }
}
