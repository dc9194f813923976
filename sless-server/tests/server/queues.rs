//! Event triggers, published messages and dead letters.

use serde_json::json;
use sless_api::{CreateTrigger, ListQuery, Redrive, client::Content};

use crate::support::{Server, refused, until};

fn event(name: &str, queue: &str) -> CreateTrigger {
    serde_json::from_value(json!({
        "name": name, "type": "event", "function_ref": "hello", "queue": queue,
        "delivery": {"max_attempts": 2, "min_backoff": "1ms", "max_backoff": "2ms"},
    }))
    .unwrap()
}

async fn connected(server: &Server, name: &str) {
    until("connected", async || {
        let trigger = server
            .client
            .trigger(&server.namespace, name)
            .await
            .unwrap();
        trigger.connected == Some(true)
    })
    .await;
}

#[tokio::test]
async fn a_published_message_reaches_the_function() {
    let server = Server::with_hello().await;
    let (client, namespace) = (&server.client, &server.namespace);
    client
        .create_trigger(namespace, &event("orders", "orders"))
        .await
        .unwrap();
    connected(&server, "orders").await;
    let published = client
        .publish(
            namespace,
            "orders",
            "application/json",
            Content::bytes(r#"{"a":1}"#),
        )
        .await
        .unwrap();
    assert_eq!(published.queue, "orders");
    assert!(!published.id.is_empty());
    until("delivered", async || {
        client.trigger(namespace, "orders").await.unwrap().delivered == 1
    })
    .await;
    let delivery = client
        .trigger(namespace, "orders")
        .await
        .unwrap()
        .delivery
        .unwrap();
    assert_eq!(
        serde_json::to_value(delivery).unwrap()["max_backoff"],
        "2ms"
    );
}

#[tokio::test]
async fn a_message_that_fails_becomes_a_dead_letter_that_can_be_redriven_or_purged() {
    let server = Server::with_hello().await;
    let (client, namespace) = (&server.client, &server.namespace);
    client
        .create_trigger(namespace, &event("failing", "failing"))
        .await
        .unwrap();
    connected(&server, "failing").await;
    let body = Content::bytes(b"\xff\x00".to_vec());
    client
        .publish(namespace, "failing", "application/x-thing", body)
        .await
        .unwrap();
    let query = ListQuery::default();
    let letters = async || {
        client
            .dead_letters(namespace, "failing", &query)
            .await
            .unwrap()
            .items
    };
    until("dead", async || letters().await.len() == 1).await;
    let letter = letters().await.remove(0);
    assert_eq!((letter.queue.as_str(), letter.attempts), ("failing", 2));
    assert_eq!(
        (letter.body, letter.body_base64.as_deref()),
        (None, Some("/wA="))
    );
    assert_eq!(letter.content_type.as_deref(), Some("application/x-thing"));
    assert!(letter.reason.contains("500"), "{}", letter.reason);

    let which = Redrive {
        ids: Some(vec!["absent".into()]),
    };
    assert_eq!(
        client
            .redrive(namespace, "failing", &which)
            .await
            .unwrap()
            .redriven,
        0
    );
    let which = Redrive {
        ids: Some(vec![letter.id.clone()]),
    };
    assert_eq!(
        client
            .redrive(namespace, "failing", &which)
            .await
            .unwrap()
            .redriven,
        1
    );
    // It fails again.
    until("dead again", async || {
        client
            .trigger(namespace, "failing")
            .await
            .unwrap()
            .dead_lettered
            >= 2
    })
    .await;
    until("there again", async || letters().await.len() == 1).await;
    assert_eq!(
        client
            .purge_dead_letters(namespace, "failing")
            .await
            .unwrap()
            .purged,
        1
    );
    assert!(letters().await.is_empty());
    let answer = server
        .ask_json("POST", "/triggers/failing/dead-letters/redrive", "")
        .await;
    assert_eq!(
        answer.json(),
        json!({"redriven": 0}),
        "an empty body means all"
    );
}

#[tokio::test]
async fn a_trigger_without_a_queue_has_no_dead_letters() {
    let server = Server::with_hello().await;
    let web = json!({"name": "web", "type": "http", "function_ref": "hello"});
    server.ask_json("POST", "/triggers", &web.to_string()).await;
    let answer = server
        .ask_json("GET", "/triggers/web/dead-letters", "")
        .await;
    assert_eq!(
        (answer.status, answer.error().code.as_str()),
        (400, "trigger_type")
    );
    let answer = server
        .ask_json("GET", "/triggers/absent/dead-letters", "")
        .await;
    assert_eq!(answer.status, 404);
}

#[tokio::test]
async fn where_queues_belong_to_a_broker_publishing_is_501() {
    let server = Server::start_with(&[], |backends| backends.publisher = None).await;
    server.ensure().await;
    let sent = server
        .client
        .publish(&server.namespace, "q", "text/plain", Content::bytes("x"));
    let (status, code, _) = refused(sent.await);
    assert_eq!((status, code.as_str()), (501, "not_configured"));
}

#[tokio::test]
async fn a_message_or_a_name_above_its_limit_is_refused() {
    let server = Server::start_with(&[("SLESS_MAX_MESSAGE_BYTES", "10")], |_| {}).await;
    server.ensure().await;
    let long = Content::bytes(vec![b'x'; 11]);
    let sent = server
        .client
        .publish(&server.namespace, "q", "text/plain", long)
        .await;
    let (status, code, _) = refused(sent);
    assert_eq!((status, code.as_str()), (413, "limit_message_bytes"));
    let queue = "q".repeat(256);
    let sent = server
        .client
        .publish(&server.namespace, &queue, "text/plain", Content::bytes("x"));
    assert_eq!(refused(sent.await).0, 400);
}
