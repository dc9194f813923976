//! A noisy neighbour: a function that spins, forks, allocates and floods its log, beside another one that
//! answers all the same.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::json;
use sless_api::{CreateFunction, client::Call};

use super::{
    machine::{Machine, json as call_with, python},
    process::{DEADLINE, LOOK},
};
use crate::measure::{ALONE, holds, is_long, memory, quantile, report};

/// Answers at once.
const QUIET: &str = "def handle(event):\n    return 'here'\n";

/// Does it all for as long as it is asked to, in each of its calls.
const NOISY: &str = r"
import os, time

def handle(event):
    until = time.monotonic() + event['seconds']
    for _ in range(2):
        try:
            child = os.fork()
        except OSError:
            break
        if child == 0:
            while time.monotonic() < until:
                pass
            os._exit(0)
    held = []
    while time.monotonic() < until:
        try:
            held.append(b'x' * (1 << 20))
        except MemoryError:
            break
    while time.monotonic() < until:
        print('noise ' * 10)
    return len(held)
";

/// The memory of the noisy one.
const MEMORY: &str = "160Mi";
const MEMORY_BYTES: u64 = 160 << 20;

/// How many calls of the noisy one go on at once.
const AT_ONCE: u32 = 3;

/// How long the other one is called at least while the noise begins.
const ONSET: Duration = Duration::from_secs(3);

/// How many times as long the noise may let the quiet one take, at the 99th percentile.
const BOUND: f64 = 2.0;

/// Two policies of the scheduler (sched(7)).
const SCHED_OTHER: u32 = 0;
const SCHED_IDLE: u32 = 5;

/// How many bytes a log takes, and the JSON of its last line.
const LOG_BYTES: u64 = (2 << 20) + (64 << 10);

/// How much more memory the server may take under the noise.
const SERVER_GROWTH: u64 = 64 << 20;

struct Street {
    machine: Machine,
    data: tempfile::TempDir,
    /// How many processes the noisy one has at rest: a worker, and what that was forked from.
    at_rest: usize,
}

impl Street {
    async fn new() -> Self {
        let data = tempfile::tempdir().unwrap();
        let machine = Machine::start(data.path()).await;
        machine
            .deploy(python("quiet"), &[("handler.py", QUIET)])
            .await;
        let noisy = CreateFunction {
            memory: Some(MEMORY.to_owned()),
            concurrency: Some(AT_ONCE),
            ..python("noisy")
        };
        machine.deploy(noisy, &[("handler.py", NOISY)]).await;
        let mut street = Self {
            machine,
            data,
            at_rest: 0,
        };
        street.at_rest = street.machine.processes("noisy").len();
        street
    }

    /// As much noise as the function can make. Never ends.
    async fn noise(&self) {
        futures::join!(self.noisy_calls(), self.noisy_calls(), self.noisy_calls());
    }

    async fn noisy_calls(&self) {
        let (client, namespace) = (&self.machine.client, &self.machine.namespace);
        loop {
            let ask = call_with(&json!({ "seconds": 1 }).to_string());
            // What becomes of it is its own affair.
            let _ = client.call(namespace, "noisy", ask).await;
        }
    }

    /// Calls the quiet one for so long, and answers how long each call took.
    async fn calls(&self, long: Duration) -> Vec<Duration> {
        let began = Instant::now();
        let mut took = Vec::new();
        while began.elapsed() < long {
            let at = Instant::now();
            let (status, body) = self.machine.call("quiet", Call::new("GET")).await;
            took.push(at.elapsed());
            assert_eq!((status, &*body), (200, &b"here"[..]));
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        took
    }

    /// Whether the noise is made, and waits for all others, save for what its worker was forked from.
    fn gives_way(&self) -> bool {
        let all = self.machine.processes("noisy");
        let waits = |id: &&u32| turns(**id).iter().all(|turn| *turn == SCHED_IDLE);
        all.len() > self.at_rest && all.len() - all.iter().filter(waits).count() < self.at_rest
    }

    /// Waits until it is so, and answers how long that took.
    async fn until(&self, what: &str, is_so: impl Fn() -> bool) -> Duration {
        let began = Instant::now();
        while !is_so() {
            assert!(
                began.elapsed() < DEADLINE,
                "{what}: {:?}",
                self.machine.processes("noisy")
            );
            tokio::time::sleep(LOOK).await;
        }
        began.elapsed()
    }
}

/// The policies by which the threads of a process get the processor (sched(7)).
fn turns(process: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{process}/task"));
    let threads = threads.into_iter().flatten().flatten();
    threads
        .filter_map(|thread| {
            let stat = fs::read_to_string(thread.path().join("stat")).ok()?;
            let fields = stat.rsplit_once(')')?.1;
            // The 41st field, where this begins with the third (proc_pid_stat(5)).
            fields.split_whitespace().nth(38)?.parse().ok()
        })
        .collect()
}

/// The memory of a process, unless it has ended meanwhile.
fn resident(id: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

fn log_bytes(data: &Path) -> u64 {
    let logs = fs::read_dir(data.join("logs")).unwrap().flatten();
    let functions = logs.filter(|log| log.file_name().to_string_lossy().starts_with("function-"));
    functions
        .map(|log| log.metadata().map_or(0, |log| log.len()))
        .sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_noisy_function_takes_its_own_memory_log_and_time() {
    let _alone = ALONE.lock().await;
    let street = Street::new().await;
    let server = street.machine.process.id();
    let before = memory(server);
    let look = async {
        let began = Instant::now();
        let (mut gives_way, mut most, mut log) = (false, 0, 0);
        // It does all that it is meant to, and no more.
        while !gives_way || most < MEMORY_BYTES / 4 || log < LOG_BYTES / 4 {
            for id in street.machine.processes("noisy") {
                let Some(bytes) = resident(id) else { continue };
                assert!(bytes <= MEMORY_BYTES, "{id} has {bytes} bytes");
                most = most.max(bytes);
            }
            gives_way |= street.gives_way();
            log = log_bytes(street.data.path());
            assert!(log <= LOG_BYTES, "{log} bytes of log");
            let seen = (gives_way, most, log, street.machine.processes("noisy"));
            assert!(
                began.elapsed() < DEADLINE,
                "gives way, memory, log: {seen:?}"
            );
            tokio::time::sleep(LOOK).await;
        }
    };
    let answered = tokio::select! {
        () = street.noise() => unreachable!("it never ends"),
        (calls, ()) = async { futures::join!(street.calls(ONSET), look) } => calls.len(),
    };
    for id in street
        .machine
        .processes("quiet")
        .into_iter()
        .chain([server])
    {
        let turns = turns(id);
        let even = turns.iter().all(|turn| *turn == SCHED_OTHER);
        assert!(!turns.is_empty() && even, "{id} is modest: {turns:?}");
    }
    let after = memory(server);
    report(&format!(
        "{answered} calls answered beside it; the server took {before} bytes, and then {after}"
    ));
    assert!(
        after < before + SERVER_GROWTH,
        "from {before} to {after} bytes"
    );
    street.machine.stop().await;
}

/// Once the noise was seen, and gives way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_calls_of_another_take_at_most_twice_as_long() {
    let _alone = ALONE.lock().await;
    let (rounds, lasts) = if is_long() {
        (11, Duration::from_secs(5))
    } else {
        (5, Duration::from_secs(1))
    };
    let street = Street::new().await;
    street.calls(lasts).await;
    let round = async || {
        let mut quiet = street.calls(lasts).await;
        let measured = async {
            let seen = street.until("it gives way", || street.gives_way()).await;
            (seen, street.calls(lasts).await)
        };
        let (seen, mut noisy) = tokio::select! {
            () = street.noise() => unreachable!("it never ends"),
            measured = measured => measured,
        };
        report(&format!("the noise gave way after {seen:?}"));
        // The calls that were left end, and what they started with them.
        let is_quiet = || street.machine.processes("noisy").len() <= street.at_rest;
        street.until("it ends", is_quiet).await;
        (quantile(&mut quiet, 0.99), quantile(&mut noisy, 0.99))
    };
    holds(BOUND, rounds, round).await;
    street.machine.stop().await;
}
