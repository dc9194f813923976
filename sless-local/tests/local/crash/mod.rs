//! A process is killed at any moment: nothing that was acknowledged is lost, nothing is half there.
//!
//! The test runs itself as its own child, which writes to a data folder and notes in a file beside it
//! what was acknowledged, until it is killed.

#![allow(
    clippy::print_stdout,
    reason = "what chance did is told where the test fails"
)]

mod check;
mod child;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{File, OpenOptions},
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use bytes::Bytes;
use sless_core::{
    Delivery, DeliveryOptions, Disposition, EventSink, Invocation, Name, Namespace, Origin,
    StorageKey, Subscription,
    resource::{TriggerId, Uid},
};

use self::{
    check::{check, check_queue},
    child::child,
};

const FOLDER: &str = "SLESS_LOCAL_CRASH_FOLDER";
const ROUNDS: u64 = 30;
const KEYS: u64 = 3;

/// What was acknowledged, a line for each: `catalog 12`, `queue 7`.
#[derive(Debug)]
struct Notes(Mutex<File>);

impl Notes {
    fn open(path: &Path) -> Arc<Self> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .expect("a file");
        Arc::new(Self(Mutex::new(file)))
    }

    fn write(&self, what: &str, number: u64) {
        // One write of a short line is whole, whatever happens to the process.
        let line = format!("{what} {number}\n");
        self.0
            .lock()
            .expect("no panic")
            .write_all(line.as_bytes())
            .expect("written");
    }

    fn read(path: &Path) -> BTreeMap<String, BTreeSet<u64>> {
        let mut notes: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for line in std::fs::read_to_string(path).unwrap_or_default().lines() {
            let (what, number) = line.split_once(' ').expect("two words");
            notes
                .entry(what.to_owned())
                .or_default()
                .insert(number.parse().expect("a number"));
        }
        notes
    }
}

/// Refuses some once, and notes what it takes.
#[derive(Debug)]
struct Delivered(Arc<Notes>);

#[async_trait]
impl EventSink for Delivered {
    async fn deliver(&self, delivery: Delivery) -> Disposition {
        let number = delivery.message.id.parse().expect("a number");
        match number % 5 {
            0 if delivery.attempt == 1 => {
                return Disposition::Retry {
                    after: Duration::from_millis(3),
                    reason: "no".to_owned(),
                };
            }
            1 if delivery.attempt == 1 => {
                return Disposition::Dead {
                    reason: "no".to_owned(),
                };
            }
            _ => {}
        }
        self.0.write("delivered", number);
        Disposition::Done
    }
}

/// Takes all.
#[derive(Debug)]
struct Last(Arc<Notes>);

#[async_trait]
impl EventSink for Last {
    async fn deliver(&self, delivery: Delivery) -> Disposition {
        self.0
            .write("delivered", delivery.message.id.parse().expect("a number"));
        Disposition::Done
    }
}

fn namespace() -> Namespace {
    Namespace::new("ns").expect("a namespace")
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

fn trigger() -> TriggerId {
    TriggerId {
        namespace: namespace(),
        name: name("t"),
        uid: Uid::new("t"),
    }
}

fn subscription() -> Subscription {
    let delivery = DeliveryOptions {
        in_flight: 4,
        prefetch: 4,
        ..DeliveryOptions::default()
    };
    Subscription {
        trigger: trigger(),
        generation: 1,
        queue: "q".to_owned(),
        declare: sless_core::QueueDeclare::default(),
        delivery,
    }
}

/// A body that says which one it is, and whose every byte can be checked.
fn body(number: u64) -> Bytes {
    let length = [100, 900_000, 2_500_000][(number % 3) as usize];
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend((0..length).map(|at: u64| (at.wrapping_mul(31) ^ number) as u8));
    bytes.into()
}

fn key(number: u64) -> StorageKey {
    StorageKey::new(format!("a/{}", number % KEYS)).expect("a key")
}

fn record(number: u64) -> Invocation {
    Invocation {
        id: Uid::new(number.to_string()),
        request_id: number.to_string(),
        namespace: namespace(),
        function: name("f"),
        origin: Origin::Event,
        cause: None,
        caller: None,
        attempt: 1,
        started_at: jiff::Timestamp::from_second(number as i64).expect("in range"),
        duration: Duration::from_millis(1),
        status: 200,
        error: None,
        request_bytes: 1,
        response_bytes: 1,
        log_tail: Some("a line\n".to_owned()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_process_loses_nothing_that_it_acknowledged() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        child(Path::new(&folder)).await;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut seed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970")
        .as_nanos() as u64;
    println!("seed {seed}");
    let notes = folder.path().join("notes");
    for round in 0..ROUNDS {
        let size = || std::fs::metadata(&notes).map_or(0, |meta| meta.len());
        let before = size();
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args([
                "--exact",
                "local::crash::a_killed_process_loses_nothing_that_it_acknowledged",
            ])
            .env(FOLDER, folder.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("this test runs");
        // It has begun to write, or is still opening in some rounds.
        let deadline = Instant::now() + Duration::from_secs(30);
        while round % 4 != 3 && size() == before {
            assert!(Instant::now() < deadline, "the child writes nothing");
            assert!(
                child.try_wait().expect("a child").is_none(),
                "the child ended by itself"
            );
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // A xorshift is as good as chance here.
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        tokio::time::sleep(Duration::from_micros(seed % 300_000)).await;
        child.kill().expect("killed");
        child.wait().expect("ended");
        check(folder.path()).await;
    }
    let counts: Vec<_> = Notes::read(&notes)
        .into_iter()
        .map(|(what, all)| format!("{what} {}", all.len()))
        .collect();
    println!("acknowledged in {ROUNDS} rounds: {}", counts.join(", "));
    check_queue(folder.path()).await;
}
