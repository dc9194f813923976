//! The suite of dispatchers, on quorum queues and on classic ones.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use sless_amqp::{AmqpConfig, AmqpDispatcher};
use sless_conformance::{Harness, dispatcher::DispatcherHarness};
use sless_core::{
    ChangeStream, DeadLetterPage, DeadLetterQuery, DeadLetterSelection, Dispatcher, Error,
    EventSink, HeldStream, Message, Namespace, Publish, QueueDeclare, Receipt, Result,
    Subscription, SubscriptionStatus, resource::TriggerId,
};

use super::support::{client, config, delete, shared};

/// A dispatcher whose queues are of this kind.
#[derive(Clone, Debug)]
struct Of(Arc<AmqpDispatcher>, QueueDeclare);

#[async_trait]
impl Dispatcher for Of {
    async fn apply(
        &self,
        subscription: &Subscription,
        sink: Arc<dyn EventSink>,
    ) -> Result<SubscriptionStatus> {
        let subscription = Subscription {
            declare: self.1,
            ..subscription.clone()
        };
        self.0.apply(&subscription, sink).await
    }

    async fn remove(&self, trigger: &TriggerId) -> Result<Receipt> {
        self.0.remove(trigger).await
    }

    async fn forget(&self, trigger: &TriggerId) -> Result<Receipt> {
        self.0.forget(trigger).await
    }

    async fn status(&self, trigger: &TriggerId) -> Result<Option<SubscriptionStatus>> {
        self.0.status(trigger).await
    }

    async fn dead_letters(
        &self,
        trigger: &TriggerId,
        query: &DeadLetterQuery,
    ) -> Result<DeadLetterPage> {
        self.0.dead_letters(trigger, query).await
    }

    async fn redrive(&self, trigger: &TriggerId, which: &DeadLetterSelection) -> Result<u64> {
        self.0.redrive(trigger, which).await
    }

    async fn purge(&self, trigger: &TriggerId, which: &DeadLetterSelection) -> Result<u64> {
        self.0.purge(trigger, which).await
    }

    fn held(&self) -> HeldStream {
        self.0.held()
    }

    fn changes(&self) -> ChangeStream {
        self.0.changes()
    }
}

#[async_trait]
impl Publish for Of {
    async fn publish(&self, namespace: &Namespace, queue: &str, message: Message) -> Result<()> {
        if self.1 == QueueDeclare::Classic
            && message.body.len() <= AmqpConfig::new("").message_bytes
        {
            // A publisher that makes the queue makes a quorum one.
            use lapin::{options::QueueDeclareOptions, types::FieldTable};
            let (connection, channel) = client(&shared()).await;
            let (options, none) = (QueueDeclareOptions::durable(), FieldTable::default());
            channel
                .queue_declare(queue.into(), options, none)
                .await
                .expect("declared");
            connection.close(200, "OK".into()).await.expect("closed");
        }
        self.0.publish(namespace, queue, message).await
    }
}

#[derive(Debug)]
struct Rabbit {
    of: Mutex<Option<Of>>,
    declare: QueueDeclare,
}

impl Rabbit {
    async fn new(declare: QueueDeclare) -> Self {
        let of = Mutex::new(Some(open(declare).await.expect("a dispatcher")));
        Self { of, declare }
    }

    fn now(&self) -> Result<Of> {
        let of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        of.clone()
            .ok_or_else(|| Error::internal("it is being reopened"))
    }
}

async fn open(declare: QueueDeclare) -> Result<Of> {
    let dispatcher = AmqpDispatcher::connect(config(&shared())).await?;
    Ok(Of(Arc::new(dispatcher), declare))
}

impl Harness for Rabbit {}

#[async_trait]
impl DispatcherHarness for Rabbit {
    async fn dispatcher(&self) -> Result<Arc<dyn Dispatcher>> {
        Ok(Arc::new(self.now()?))
    }

    async fn publisher(&self) -> Result<Arc<dyn Publish>> {
        Ok(Arc::new(self.now()?))
    }

    async fn reopen(&self) -> Result<bool> {
        let before = self
            .of
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        drop(before);
        let opened = open(self.declare).await?;
        self.of
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .replace(opened);
        Ok(true)
    }

    fn separates_namespaces(&self) -> bool {
        false
    }

    fn message_bytes_max(&self) -> Option<usize> {
        Some(AmqpConfig::new("").message_bytes)
    }

    async fn remove_queue(&self, _: &Namespace, queue: &str) -> Result<()> {
        delete(&shared(), queue).await;
        Ok(())
    }
}

mod quorum {
    sless_conformance::dispatcher!(
        #[ignore = "needs RabbitMQ: testing/rabbitmq/up"]
        super::Rabbit::new(sless_core::QueueDeclare::Quorum).await
    );
}

mod classic {
    sless_conformance::dispatcher!(
        #[ignore = "needs RabbitMQ: testing/rabbitmq/up"]
        super::Rabbit::new(sless_core::QueueDeclare::Classic).await
    );
}
