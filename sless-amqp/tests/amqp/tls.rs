//! TLS, with a throw-away authority.

use sless_amqp::AmqpDispatcher;
use sless_core::{Dispatcher as _, Message, Publish as _};

use super::support::{config, delete, eventually, handling, shared, subscription, variable, when};

#[tokio::test]
#[ignore = "needs RabbitMQ: testing/rabbitmq/up"]
async fn a_broker_is_reached_over_tls_where_its_authority_is_known() {
    let mut trusting = config(&variable("SLESS_TEST_RABBITMQ_TLS_URL"));
    trusting.ca_file = Some(variable("SLESS_TEST_RABBITMQ_CA").into());
    let dispatcher = AmqpDispatcher::connect(trusting)
        .await
        .expect("a dispatcher");
    let (subscription, sink) = (subscription(1), handling());
    dispatcher
        .apply(&subscription, sink.clone())
        .await
        .expect("applied");
    let message = Message {
        body: "over TLS".into(),
        ..Message::default()
    };
    let namespace = &subscription.trigger.namespace;
    dispatcher
        .publish(namespace, &subscription.queue, message)
        .await
        .expect("published");
    eventually("it is delivered", || async {
        let calls = sink.calls().len();
        when(calls == 1, calls)
    })
    .await;
    assert!(dispatcher.health().is_ok());
    dispatcher.shutdown().await;
    delete(&shared(), &subscription.queue).await;
}

#[tokio::test]
#[ignore = "needs RabbitMQ: testing/rabbitmq/up"]
async fn a_broker_of_an_unknown_authority_is_not_talked_to() {
    let dispatcher = AmqpDispatcher::connect(config(&variable("SLESS_TEST_RABBITMQ_TLS_URL")))
        .await
        .expect("a dispatcher");
    let (subscription, sink) = (subscription(1), handling());
    dispatcher
        .apply(&subscription, sink)
        .await
        .expect("applied");
    let status = eventually("the status tells why", || async {
        let status = dispatcher
            .status(&subscription.trigger)
            .await
            .expect("a status")
            .expect("one");
        when(status.message.contains("certificate"), status)
    })
    .await;
    assert!(!status.connected, "{status:?}");
    let health = dispatcher.health().expect_err("it is not well");
    assert!(health.message().contains("certificate"), "{health}");
}
