//! Messages that the client library cannot read.
//!
//! AMQP 0-9-1 says that names and short texts are UTF-8, and brokers do not check it. The library gives a
//! connection up that brings such a message, and would do so for ever, since the message comes again. So
//! it is taken out of the way over a plain connection that looks at the bytes alone: its body becomes a
//! dead letter, with the bytes of its properties beside it.

mod wire;

use bytes::Bytes;
use lapin::{
    BasicProperties,
    protocol::basic::parse_properties,
    types::{AMQPValue, FieldTable},
};
use sless_core::Subscription;
use tokio::time::timeout;

use self::wire::{Got, Wire};
use crate::{
    AmqpConfig,
    connection::check,
    error::Fault,
    message::{Death, Note, Parcel},
    names,
    publisher::{Publisher, Wanted, keeping},
};

/// The header that keeps the bytes of the properties.
const RAW: &str = "x-sless-raw-properties";

/// How many messages are looked at beyond those that a consumer holds: others may hold some, too.
const BEYOND: u32 = 64;

/// Makes dead letters of those messages at the head of a subscription's queue that cannot be read.
/// Answers how many there were.
pub(crate) async fn rescue(
    config: &AmqpConfig,
    publisher: &Publisher,
    subscription: &Subscription,
) -> Result<u32, Fault> {
    let (uri, authorities) = check(config)?;
    let connect = Wire::connect(&uri, authorities);
    let mut wire = match timeout(config.connect(), connect).await {
        Ok(wire) => wire.map_err(lapin::Error::from)?,
        Err(_) => {
            return Err(Fault::Late {
                what: "a connection",
                limit: "connect_ms",
                wait_ms: config.connect_ms,
            });
        }
    };
    let look = look(config, &mut wire, publisher, subscription);
    let found = match timeout(config.confirm(), look).await {
        Ok(found) => found,
        Err(_) => Err(Fault::Late {
            what: "messages that cannot be read",
            limit: "confirm_ms",
            wait_ms: config.confirm_ms,
        }),
    };
    // What was taken and is readable goes back to the queue, where closing fails, too.
    let _ = timeout(config.answer(), wire.close()).await;
    found
}

async fn look(
    config: &AmqpConfig,
    wire: &mut Wire,
    publisher: &Publisher,
    subscription: &Subscription,
) -> Result<u32, Fault> {
    let delivery = &subscription.delivery;
    let most = delivery
        .in_flight
        .saturating_add(delivery.prefetch)
        .saturating_add(BEYOND);
    let letters = Wanted {
        queue: names::dead(&subscription.trigger),
        arguments: keeping(config),
    };
    let mut found = 0;
    for _ in 0..most {
        let got = wire
            .get(&subscription.queue)
            .await
            .map_err(lapin::Error::from)?;
        let Some(got) = got else {
            break;
        };
        let Some(why) = unreadable(&got) else {
            continue;
        };
        let tag = got.tag;
        let parcel = sanitized(got, &subscription.queue);
        let properties = parcel.wrapped(0, Some(Death::new(&why)));
        publisher
            .publish_into(&letters, properties, &parcel.body)
            .await?;
        wire.ack(tag).await.map_err(lapin::Error::from)?;
        tracing::warn!(
            trigger = %subscription.trigger,
            queue = subscription.queue,
            why,
            "a message that cannot be read is a dead letter"
        );
        found += 1;
    }
    Ok(found)
}

/// Why a message cannot be read, if so.
fn unreadable(got: &Got) -> Option<String> {
    let what = if std::str::from_utf8(&got.exchange).is_err() {
        "the name of its exchange is no UTF-8"
    } else if std::str::from_utf8(&got.key).is_err() {
        "its routing key is no UTF-8"
    } else if parse_properties(&got.properties[..]).is_err() {
        "a property, or the name of a header, is no UTF-8, or of an unknown type"
    } else {
        return None;
    };
    Some(format!("the message cannot be read: {what}"))
}

fn sanitized(got: Got, queue: &str) -> Parcel {
    let mut headers = FieldTable::default();
    headers.insert(RAW.into(), AMQPValue::ByteArray(got.properties.into()));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Parcel {
        properties: BasicProperties::default().with_headers(headers),
        note: Note {
            exchange: Some(text(&got.exchange)),
            key: Some(text(&got.key)),
            queue: Some(queue.to_owned()),
            ..Note::default()
        },
        body: Bytes::from(got.body),
    }
}

#[cfg(test)]
mod tests;
