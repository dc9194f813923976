//! In the place of a dispatcher, where there is no broker: a cluster has no queues of its own.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt as _;
use sless_core::{
    ChangeStream, DeadLetterPage, DeadLetterQuery, DeadLetterSelection, Dispatcher, Error,
    ErrorKind, EventSink, HeldStream, Receipt, Result, Subscription, SubscriptionStatus, TriggerId,
};

/// Says that there is no broker, in the status of each trigger.
#[derive(Debug)]
pub(super) struct NoBroker;

const REASON: &str = "no_broker";
const MESSAGE: &str = "this server has no broker: RABBITMQ_URL is not set";

fn none<T>() -> Result<T> {
    Err(Error::new(ErrorKind::Unsupported, MESSAGE).with_reason(REASON))
}

#[async_trait]
impl Dispatcher for NoBroker {
    async fn apply(
        &self,
        _subscription: &Subscription,
        _sink: Arc<dyn EventSink>,
    ) -> Result<SubscriptionStatus> {
        let mut status = SubscriptionStatus::default();
        REASON.clone_into(&mut status.reason);
        MESSAGE.clone_into(&mut status.message);
        Ok(status)
    }

    async fn remove(&self, _trigger: &TriggerId) -> Result<Receipt> {
        Ok(Receipt::default())
    }

    async fn forget(&self, _trigger: &TriggerId) -> Result<Receipt> {
        Ok(Receipt::default())
    }

    async fn status(&self, _trigger: &TriggerId) -> Result<Option<SubscriptionStatus>> {
        Ok(None)
    }

    async fn dead_letters(
        &self,
        _trigger: &TriggerId,
        _query: &DeadLetterQuery,
    ) -> Result<DeadLetterPage> {
        none()
    }

    async fn redrive(&self, _trigger: &TriggerId, _which: &DeadLetterSelection) -> Result<u64> {
        none()
    }

    async fn purge(&self, _trigger: &TriggerId, _which: &DeadLetterSelection) -> Result<u64> {
        none()
    }

    fn held(&self) -> HeldStream {
        futures::stream::empty().boxed()
    }

    fn changes(&self) -> ChangeStream {
        futures::stream::pending().boxed()
    }
}
