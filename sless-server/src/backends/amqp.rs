//! The queues of event triggers in RabbitMQ.

use std::sync::Arc;

use async_trait::async_trait;
use sless_amqp::{AmqpConfig, AmqpDispatcher};
use sless_core::Error;

use super::{Assembled, Part};
use crate::{StartError, settings::Settings};

/// Puts the broker that the settings name in the place of the base's queues.
///
/// An address that cannot be read stops the start. A broker that is away, or that refuses the user, does
/// not: functions can be called without it, and `/readyz` and the triggers' status tell.
pub(super) async fn put_in(settings: &Settings, opened: &mut Assembled) -> Result<(), StartError> {
    let Some(url) = &settings.services.amqp_url else {
        return Ok(());
    };
    let mut config = AmqpConfig::new(url.expose());
    config.message_bytes = settings.limits.message_bytes;
    config.drain_ms = u64::try_from(settings.drain_timeout.as_millis()).unwrap_or(u64::MAX);
    let dispatcher = Arc::new(AmqpDispatcher::connect(config).await.map_err(named)?);
    opened.backends.dispatcher = dispatcher.clone();
    opened.backends.publisher = Some(dispatcher.clone());
    opened.add(AmqpPart(dispatcher));
    Ok(())
}

fn named(error: Error) -> StartError {
    let message = format!("RABBITMQ_URL: {}", error.message());
    Error::new(error.kind(), message)
        .with_reason(error.reason().to_owned())
        .with_source(error)
        .into()
}

#[derive(Debug)]
struct AmqpPart(Arc<AmqpDispatcher>);

#[async_trait]
impl Part for AmqpPart {
    fn name(&self) -> &'static str {
        "queues"
    }

    fn state(&self) -> Result<(), String> {
        self.0.health().map_err(|error| error.message().to_owned())
    }

    fn is_vital(&self) -> bool {
        false
    }

    async fn shutdown(&self) {
        self.0.shutdown().await;
    }
}
