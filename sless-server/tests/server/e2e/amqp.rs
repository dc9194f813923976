//! A server whose queues are in RabbitMQ: what another program publishes reaches the function, what
//! fails can be seen and moved, and a broker that is away is told.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use lapin::{
    BasicProperties, Connection, ConnectionProperties,
    options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable},
};
use serde_json::json;
use sless_api::{CreateTrigger, ListQuery, PatchTrigger, Redrive, Trigger};

use super::{
    machine::{Machine, python},
    process::{DEADLINE, LOOK},
};

const HANDLER: &str = "def handle(event, context):
    print('got', event['n'], context.headers.get('ce-id'), context.headers.get('x-sless-attempt'))
    if event.get('fail'):
        raise ValueError('no good')
    return 'ok'
";

/// A broker of this test's own, which it may stop.
struct Broker {
    state: PathBuf,
    _folder: tempfile::TempDir,
    url: String,
}

impl Broker {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let url = up(&state);
        Self {
            state,
            _folder: folder,
            url,
        }
    }

    fn kill(&self) {
        let pid = std::fs::read_to_string(self.state.join("pid")).unwrap();
        let pid = pid.split_whitespace().next().unwrap();
        assert!(
            Command::new("kill")
                .args(["-KILL", pid])
                .status()
                .unwrap()
                .success()
        );
    }

    async fn publish(&self, queue: &str, body: &str) {
        let properties = ConnectionProperties::default();
        let connection = Connection::connect(&self.url, properties).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        channel
            .confirm_select(ConfirmSelectOptions::default())
            .await
            .unwrap();
        let mut headers = FieldTable::default();
        for (name, value) in [
            ("cloudEvents:specversion", "1.0"),
            ("cloudEvents:id", "e-1"),
        ] {
            headers.insert(name.into(), AMQPValue::LongString(value.into()));
        }
        let properties = BasicProperties::default()
            .with_headers(headers)
            .with_content_type("application/json".into());
        let options = BasicPublishOptions::default();
        let sent = channel.basic_publish(
            "".into(),
            queue.into(),
            options,
            body.as_bytes(),
            properties,
        );
        assert!(sent.await.unwrap().await.unwrap().is_ack());
        connection.close(200, "OK".into()).await.unwrap();
    }

    /// How many messages are ready in a queue.
    async fn ready(&self, queue: &str) -> u32 {
        let properties = ConnectionProperties::default();
        let connection = Connection::connect(&self.url, properties).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        let passive = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        let seen = channel
            .queue_declare(queue.into(), passive, FieldTable::default())
            .await;
        let ready = seen.unwrap().message_count();
        connection.close(200, "OK".into()).await.unwrap();
        ready
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let down = Command::new(program("down")).arg(&self.state).status();
        assert!(down.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

fn up(state: &Path) -> String {
    let up = Command::new(program("up")).arg(state).output().unwrap();
    assert!(
        up.status.success(),
        "{}",
        String::from_utf8_lossy(&up.stderr)
    );
    let text = String::from_utf8(up.stdout).unwrap();
    let mut lines = text.lines();
    let url = lines.find_map(|line| line.strip_prefix("SLESS_TEST_RABBITMQ_URL="));
    url.unwrap().to_owned()
}

fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../testing/rabbitmq")
        .join(name)
}

async fn until(what: &str, machine: &Machine, holds: impl Fn(&Trigger) -> bool) -> Trigger {
    let began = Instant::now();
    loop {
        let trigger = machine
            .client
            .trigger(&machine.namespace, "orders")
            .await
            .unwrap();
        if holds(&trigger) {
            return trigger;
        }
        assert!(began.elapsed() < DEADLINE, "{what}: {trigger:?}");
        tokio::time::sleep(LOOK).await;
    }
}

async fn until_ready_says(machine: &Machine, well: bool) {
    let ready = "GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let began = Instant::now();
    loop {
        let answer = machine.exchange(ready).await;
        assert!(
            answer.starts_with("HTTP/1.1 200"),
            "functions can be called: {answer}"
        );
        if answer.contains("\"queues\":\"") && answer.contains("\"queues\":\"ok\"") == well {
            return;
        }
        assert!(began.elapsed() < DEADLINE, "{answer}");
        tokio::time::sleep(LOOK).await;
    }
}

#[tokio::test]
#[ignore = "needs RabbitMQ: testing/rabbitmq/up"]
async fn events_come_from_a_broker_and_a_broker_that_is_away_is_told() {
    let (data, broker) = (tempfile::tempdir().unwrap(), Broker::start());
    let machine = Machine::start_with(data.path(), &[("RABBITMQ_URL", &*broker.url)]).await;
    let (client, namespace) = (&machine.client, &machine.namespace);
    machine
        .deploy(python("hello"), &[("handler.py", HANDLER)])
        .await;
    let trigger: CreateTrigger = serde_json::from_value(json!({
        "name": "orders", "type": "event", "function_ref": "hello", "queue": "orders",
        "delivery": {"max_attempts": 2, "min_backoff": "10ms", "max_backoff": "20ms"},
    }))
    .unwrap();
    client.create_trigger(namespace, &trigger).await.unwrap();
    until("connected", &machine, |trigger| {
        trigger.connected == Some(true)
    })
    .await;
    until_ready_says(&machine, true).await;

    // Handled, and acknowledged.
    broker.publish("orders", r#"{"n": 1}"#).await;
    machine.logged("hello", "got 1 e-1 1").await;
    until("delivered", &machine, |trigger| trigger.delivered == 1).await;
    assert_eq!(broker.ready("orders").await, 0);

    // What fails is tried again, and then a dead letter: shown, redriven, purged.
    broker.publish("orders", r#"{"n": 2, "fail": true}"#).await;
    machine.logged("hello", "got 2 e-1 2").await;
    until("dead", &machine, |trigger| trigger.dead_lettered == 1).await;
    let query = ListQuery::default();
    let letters = client
        .dead_letters(namespace, "orders", &query)
        .await
        .unwrap()
        .items;
    assert_eq!(letters.len(), 1);
    assert_eq!(
        (letters[0].queue.as_str(), letters[0].attempts),
        ("orders", 2)
    );
    assert!(letters[0].reason.contains("500"), "{}", letters[0].reason);
    let all = client
        .redrive(namespace, "orders", &Redrive { ids: None })
        .await
        .unwrap();
    assert_eq!(all.redriven, 1);
    until("dead again", &machine, |trigger| trigger.dead_lettered == 2).await;
    let purged = client
        .purge_dead_letters(namespace, "orders")
        .await
        .unwrap();
    assert_eq!(purged.purged, 1);
    let letters = client
        .dead_letters(namespace, "orders", &query)
        .await
        .unwrap()
        .items;
    assert!(letters.is_empty(), "{letters:?}");

    // A disabled trigger consumes nothing.
    let patch = |enabled: bool| -> PatchTrigger {
        serde_json::from_value(json!({"enabled": enabled})).unwrap()
    };
    client
        .patch_trigger(namespace, "orders", &patch(false))
        .await
        .unwrap();
    until("disconnected", &machine, |trigger| {
        trigger.connected == Some(false)
    })
    .await;
    broker.publish("orders", r#"{"n": 3}"#).await;
    assert_eq!(broker.ready("orders").await, 1);
    client
        .patch_trigger(namespace, "orders", &patch(true))
        .await
        .unwrap();
    machine.logged("hello", "got 3").await;

    // The broker goes, and comes back.
    broker.kill();
    let away = until("told", &machine, |trigger| trigger.connected == Some(false)).await;
    assert!(!away.active && away.message.is_some(), "{away:?}");
    until_ready_says(&machine, false).await;
    let state = broker.state.clone();
    let again = tokio::task::spawn_blocking(move || up(&state)).await;
    assert_eq!(again.unwrap(), broker.url);
    until("back", &machine, |trigger| trigger.connected == Some(true)).await;
    until_ready_says(&machine, true).await;
    broker.publish("orders", r#"{"n": 4}"#).await;
    machine.logged("hello", "got 4").await;
    client.delete_trigger(namespace, "orders").await.unwrap();
    machine.stop().await;
}
