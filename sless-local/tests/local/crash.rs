//! A process is killed at any moment: nothing that was acknowledged is lost, nothing is half there.
//!
//! The test runs itself as its own child, which writes to a data folder and notes in a file beside it
//! what was acknowledged, until it is killed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{File, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use sless_core::{
    Catalog as _, CatalogExt as _, Delivery, DeliveryOptions, Dispatcher as _, Disposition,
    EventSink, Function, FunctionSpec, GetOptions, Invocation, InvocationLog as _, InvocationQuery,
    Lease as _, Message, Metadata, Name, Namespace, Origin, Publish as _, PutOptions, Runtime,
    Storage as _, StorageKey, Subscription, collect_bytes,
    resource::{TriggerId, Uid},
};
use sless_local::{Local, LocalConfig};

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

/// Writes to all of them until it is killed. Numbers go on where the last child stopped.
async fn child(folder: &Path) {
    let local = Local::open(LocalConfig::new(folder.join("data")))
        .await
        .expect("opens");
    let notes_path = folder.join("notes");
    let before = Notes::read(&notes_path);
    let next = |what: &str| {
        before
            .get(what)
            .and_then(|all| all.last())
            .map_or(1, |last| last + 1)
    };
    let (notes, first) = (Notes::open(&notes_path), next("begun"));
    local
        .catalog()
        .ensure_namespace(&namespace())
        .await
        .expect("a namespace");
    local
        .dispatcher()
        .apply(&subscription(), Arc::new(Delivered(notes.clone())))
        .await
        .expect("applied");
    let catalog = async {
        for number in first.. {
            // Numbers that were begun are not used again, acknowledged or not.
            notes.write("begun", number);
            let metadata = Metadata::new(namespace(), name(&format!("f{number}")));
            let mut spec = FunctionSpec::new(Runtime::Python311);
            spec.env.insert("N".to_owned(), number.to_string());
            local
                .catalog()
                .add(Function::new(metadata, spec))
                .await
                .expect("created");
            notes.write("catalog", number);
            let (namespace, name) = (namespace(), name(&format!("f{number}")));
            let label = |function: &mut Function| {
                function
                    .metadata
                    .labels
                    .insert("l".to_owned(), number.to_string());
                Ok(())
            };
            local
                .catalog()
                .modify(&namespace, &name, label)
                .await
                .expect("changed");
            notes.write("labelled", number);
            let holder = format!("h{number}");
            let lease = local.lease().acquire("l", &holder, Duration::ZERO).await;
            notes.write("lease", lease.expect("acquired").expect("free").token);
        }
    };
    let storage = async {
        for number in first * 1000.. {
            let chunks: Vec<_> = body(number)
                .chunks(65_536)
                .map(Bytes::copy_from_slice)
                .collect();
            let stream = stream::iter(chunks.into_iter().map(Ok)).boxed();
            local
                .storage()
                .put(&key(number), stream, &PutOptions::default())
                .await
                .expect("put");
            notes.write("storage", number);
        }
    };
    let queue = async {
        for number in first * 1000.. {
            let message = Message {
                id: number.to_string(),
                ..Message::default()
            };
            local
                .dispatcher()
                .publish(&namespace(), "q", message)
                .await
                .expect("published");
            notes.write("queue", number);
        }
    };
    let invocations = async {
        for number in first * 1000.. {
            local
                .invocations()
                .append(vec![record(number)])
                .await
                .expect("appended");
            notes.write("invocations", number);
        }
    };
    tokio::join!(catalog, storage, queue, invocations);
}

fn record(number: u64) -> Invocation {
    Invocation {
        id: Uid::new(number.to_string()),
        request_id: number.to_string(),
        namespace: namespace(),
        function: name("f"),
        origin: Origin::Event,
        cause: None,
        attempt: 1,
        started_at: jiff::Timestamp::from_second(number as i64).expect("in range"),
        duration: Duration::from_millis(1),
        status: 200,
        error: None,
        response_bytes: 1,
    }
}

/// Looks at the folder as the next process finds it.
async fn check(folder: &Path) {
    let acknowledged = Notes::read(&folder.join("notes"));
    let of = |what: &str| acknowledged.get(what).cloned().unwrap_or_default();
    let local = Local::open(LocalConfig::new(folder.join("data")))
        .await
        .expect("opens");

    let functions: Vec<Function> = local.catalog().read_all(None).await.expect("a list");
    let mut found = BTreeMap::new();
    for function in functions {
        let number: u64 = function.spec.env["N"].parse().expect("a number");
        assert_eq!(
            function.metadata.name,
            name(&format!("f{number}")),
            "an object is whole"
        );
        found.insert(number, function.metadata.labels.contains_key("l"));
    }
    for number in of("catalog") {
        assert!(
            found.contains_key(&number),
            "f{number} was acknowledged and is gone"
        );
    }
    for number in of("labelled") {
        assert_eq!(
            found[&number], true,
            "the change of f{number} was acknowledged and is gone"
        );
    }
    let grant = local
        .lease()
        .acquire("l", "check", Duration::ZERO)
        .await
        .expect("acquired");
    let last = of("lease").last().copied().unwrap_or(0);
    assert!(grant.expect("free").token > last, "a token came again");

    let listed: Vec<_> = local
        .storage()
        .list("")
        .try_collect()
        .await
        .expect("a list");
    for info in &listed {
        let fetched = local
            .storage()
            .get(&info.key, &GetOptions::default())
            .await
            .expect("there");
        let bytes = collect_bytes(fetched.body, "test", usize::MAX)
            .await
            .expect("whole");
        let number = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
        assert!(bytes == body(number), "{} holds a mix", info.key);
        let mine = of("storage")
            .into_iter()
            .filter(|n| key(*n) == info.key)
            .max();
        assert!(
            number >= mine.unwrap_or(0),
            "{} holds {number}, not {mine:?}",
            info.key
        );
    }
    for number in of("storage") {
        assert!(
            listed.iter().any(|info| info.key == key(number)),
            "{number} is gone"
        );
    }
    let leftovers = files(&folder.join("data/storage"));
    assert_eq!(
        leftovers.len(),
        listed.len(),
        "beside the objects: {leftovers:?}"
    );

    let mut query = InvocationQuery::of_function(namespace(), name("f"), 1000);
    let mut records = BTreeSet::new();
    loop {
        let page = local.invocations().query(&query).await.expect("a page");
        records.extend(
            page.items
                .iter()
                .map(|r| r.id.as_str().parse::<u64>().expect("a number")),
        );
        query.cursor = page.next;
        if query.cursor.is_none() {
            break;
        }
    }
    assert!(records.is_superset(&of("invocations")), "a record is gone");
    local.shutdown().await;
}

/// Delivers all that waits, and compares with what was published.
async fn check_queue(folder: &Path) {
    let path = folder.join("notes");
    let local = Local::open(LocalConfig::new(folder.join("data")))
        .await
        .expect("opens");
    let redriven = local
        .dispatcher()
        .redrive(&trigger(), &sless_core::DeadLetterSelection::All)
        .await
        .expect("redriven");
    assert!(redriven > 0, "some were dead");
    let sink = Arc::new(Last(Notes::open(&path)));
    local
        .dispatcher()
        .apply(&subscription(), sink)
        .await
        .expect("applied");
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let status = local
            .dispatcher()
            .status(&trigger())
            .await
            .expect("a status")
            .expect("one");
        if status.waiting == Some(0) && status.in_flight == 0 {
            break;
        }
        assert!(
            Instant::now() < deadline,
            "the queue does not run empty: {status:?}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    local.shutdown().await;
    let notes = Notes::read(&path);
    let lost: Vec<_> = notes["queue"].difference(&notes["delivered"]).collect();
    assert!(lost.is_empty(), "published and never delivered: {lost:?}");
}

fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path)
            } else {
                found.push(path)
            }
        }
    }
    found
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
        tokio::time::sleep(Duration::from_micros(seed % 150_000)).await;
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
