//! Brokers and what tests do with them.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use lapin::{
    Channel, Connection, ConnectionProperties,
    options::{QueueDeclareOptions, QueueDeleteOptions},
    types::FieldTable,
};
use sless_amqp::{AmqpConfig, AmqpDispatcher};
use sless_conformance::dispatcher::RecordingSink;
use sless_core::{
    Delivery, DeliveryOptions, Disposition, Name, Namespace, QueueDeclare, Subscription,
    SystemClock, Uid, resource::TriggerId,
};
use tempfile::TempDir;

/// How long a test waits for what has to happen.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// The broker that the test command has started.
pub(super) fn shared() -> String {
    variable("SLESS_TEST_RABBITMQ_URL")
}

pub(super) fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run testing/rabbitmq/up, and export what it prints")
    })
}

/// A config whose waits suit a test.
pub(super) fn config(url: &str) -> AmqpConfig {
    let mut config = AmqpConfig::new(url);
    config.min_backoff_ms = 50;
    config.max_backoff_ms = 1_000;
    config.look_ms = 1_000;
    config.drain_ms = 5_000;
    config.heartbeat_seconds = 2;
    config
}

pub(super) async fn open(url: &str) -> Arc<AmqpDispatcher> {
    Arc::new(
        AmqpDispatcher::connect(config(url))
            .await
            .expect("a dispatcher"),
    )
}

/// A plain client, for what the dispatcher does not do.
pub(super) async fn client(url: &str) -> (Connection, Channel) {
    let connection = Connection::connect(url, ConnectionProperties::default())
        .await
        .expect("a connection");
    let channel = connection.create_channel().await.expect("a channel");
    (connection, channel)
}

pub(super) async fn delete(url: &str, queue: &str) {
    let (connection, channel) = client(url).await;
    let deleted = channel.queue_delete(queue.into(), QueueDeleteOptions::default());
    deleted.await.expect("deleted");
    connection.close(200, "OK".into()).await.expect("closed");
}

/// How many messages are ready in a queue, and how many consumers it has; `None` where it is not there.
pub(super) async fn look(url: &str, queue: &str) -> Option<(u32, u32)> {
    let (connection, channel) = client(url).await;
    let passive = QueueDeclareOptions {
        passive: true,
        ..QueueDeclareOptions::default()
    };
    let looked = channel
        .queue_declare(queue.into(), passive, FieldTable::default())
        .await;
    let seen = looked
        .ok()
        .map(|seen| (seen.message_count(), seen.consumer_count()));
    let _ = connection.close(200, "OK".into()).await;
    seen
}

pub(super) fn unique(what: &str) -> String {
    format!("{what}-{:08x}", fastrand::u32(..))
}

/// A subscription to a queue of its own.
pub(super) fn subscription(in_flight: u32) -> Subscription {
    Subscription {
        trigger: TriggerId {
            namespace: Namespace::new("tests").expect("a label"),
            name: Name::new(unique("t")).expect("a label"),
            uid: Uid::random(),
        },
        generation: 1,
        queue: unique("tests.queue"),
        declare: QueueDeclare::Quorum,
        delivery: DeliveryOptions {
            min_backoff_ms: 10,
            max_backoff_ms: 1_000,
            in_flight,
            ..DeliveryOptions::default()
        },
    }
}

pub(super) fn sink(
    answer: impl Fn(&Delivery) -> Disposition + Send + Sync + 'static,
) -> Arc<RecordingSink> {
    RecordingSink::new(Arc::new(SystemClock), answer)
}

pub(super) fn handling() -> Arc<RecordingSink> {
    sink(|_| Disposition::Done)
}

/// Waits until `look` gives a value.
pub(super) async fn eventually<T, F>(what: &str, mut look: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, String>>,
{
    let deadline = Instant::now() + PATIENCE;
    let mut pause = Duration::from_millis(5);
    loop {
        match look().await {
            Ok(found) => return found,
            Err(seen) if Instant::now() >= deadline => {
                panic!("not within {PATIENCE:?}: {what}; seen last: {seen}")
            }
            Err(_) => tokio::time::sleep(pause).await,
        }
        pause = (pause * 2).min(Duration::from_millis(200));
    }
}

/// `Ok` where a condition holds, and what was seen.
pub(super) fn when<T: std::fmt::Debug>(holds: bool, seen: T) -> Result<T, String> {
    if holds {
        Ok(seen)
    } else {
        Err(format!("{seen:?}"))
    }
}

/// How long after its making a quorum queue of a broker with one node survives a kill.
///
/// One that is younger by a few seconds is there after a restart, and has no leader ever after: seen of
/// RabbitMQ 3.10.8 and 4.0.5, whatever the client. A test that kills a broker waits first.
pub(super) const SETTLED: Duration = Duration::from_secs(8);

/// A broker of one test alone, which may be stopped and broken.
#[derive(Debug)]
pub(super) struct Broker {
    state: TempDir,
    said: BTreeMap<String, String>,
}

impl Broker {
    pub(super) fn start() -> Self {
        let state = tempfile::tempdir().expect("a folder");
        let said = up(state.path());
        Self { state, said }
    }

    pub(super) fn url(&self) -> &str {
        &self.said["SLESS_TEST_RABBITMQ_URL"]
    }

    fn pid(&self) -> String {
        let pid = std::fs::read_to_string(self.state.path().join("pid")).expect("a process id");
        pid.split_whitespace().next().expect("a number").to_owned()
    }

    /// Sends a signal to the broker's process.
    pub(super) fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args([&format!("-{name}"), &self.pid()])
            .status();
        assert!(sent.expect("kill runs").success(), "SIG{name}");
    }

    /// Ends the broker at once, as a power cut would.
    pub(super) fn kill(&self) {
        let pid = self.pid();
        self.signal("KILL");
        let deadline = Instant::now() + PATIENCE;
        // A child of `up` is nobody's here; its entry goes, or is one of a process that has ended.
        while let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat"))
            && !stat
                .rsplit_once(") ")
                .is_some_and(|(_, rest)| rest.starts_with('Z'))
        {
            assert!(Instant::now() < deadline, "the broker does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Starts it again, with its ports and messages.
    pub(super) fn restart(&self) {
        up(self.state.path());
    }

    /// Runs `rabbitmqctl`.
    pub(super) fn ctl(&self, arguments: &[&str]) -> String {
        let program = &self.said["SLESS_TEST_RABBITMQ_CTL"];
        let output = Command::new(program)
            .arg("-q")
            .args(arguments)
            .output()
            .expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "rabbitmqctl {arguments:?}: {text}{errors}"
        );
        text
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let ended = Command::new(testing("down"))
            .arg(self.state.path())
            .status();
        assert!(
            ended.is_ok_and(|status| status.success()) || std::thread::panicking(),
            "down"
        );
    }
}

fn testing(program: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../testing/rabbitmq")
        .join(program)
}

fn up(state: &Path) -> BTreeMap<String, String> {
    let output = Command::new(testing("up"))
        .arg(state)
        .output()
        .expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "testing/rabbitmq/up: {errors}");
    let lines = String::from_utf8(output.stdout).expect("text");
    let pairs = lines.lines().filter_map(|line| line.split_once('='));
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}
