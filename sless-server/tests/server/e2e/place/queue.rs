//! The broker, as other programs use it.

use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties,
    options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions},
    types::FieldTable,
};

use super::variable;

pub(crate) struct Queue {
    connection: Connection,
    channel: Channel,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

impl Queue {
    pub(super) async fn new() -> Self {
        let url = variable("SLESS_TEST_RABBITMQ_URL");
        let properties = ConnectionProperties::default();
        let connection = Connection::connect(&url, properties).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        let options = ConfirmSelectOptions::default();
        channel.confirm_select(options).await.unwrap();
        Self {
            connection,
            channel,
        }
    }

    /// Puts a message into a queue, and answers once the broker has it.
    pub(crate) async fn publish(&self, queue: &str, id: &str, body: &str) {
        let properties = BasicProperties::default()
            .with_message_id(id.into())
            .with_delivery_mode(2)
            .with_content_type("application/json".into());
        let options = BasicPublishOptions {
            mandatory: true,
            ..BasicPublishOptions::default()
        };
        let body = body.as_bytes();
        let sent = self
            .channel
            .basic_publish("".into(), queue.into(), options, body, properties);
        let confirmed = sent.await.unwrap().await.unwrap();
        assert!(
            confirmed.is_ack() && confirmed.take_message().is_none(),
            "message {id} was not taken into {queue}"
        );
    }

    /// How many messages are ready in a queue.
    pub(crate) async fn ready(&self, queue: &str) -> u32 {
        let channel = self.connection.create_channel().await.unwrap();
        let passive = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        let seen = channel.queue_declare(queue.into(), passive, FieldTable::default());
        let ready = seen.await.unwrap().message_count();
        channel.close(200, "OK".into()).await.unwrap();
        ready
    }
}
