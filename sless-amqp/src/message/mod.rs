//! Messages: what a broker holds, what a sink gets, and what is noted on one that goes on a detour.

mod cloud_events;
mod note;
mod text;

use std::collections::BTreeMap;

use bytes::Bytes;
use jiff::Timestamp;
use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable, ShortString},
};
use sless_core::{DeadLetter, Error, Message, Result};

pub(crate) use self::note::{Death, Note};
use self::text::text;

/// Messages that a broker writes to its disk.
const PERSISTENT: u8 = 2;

/// Headers with which a broker routes copies of a message. Republished with them, there would be more
/// copies each time.
const ROUTING: [&str; 2] = ["CC", "BCC"];

/// Headers that a broker adds to a message that expires or is rejected. A broker drops a message that
/// seems to go in circles by them, and a detour is one.
const DEATHS: [&str; 7] = [
    "x-death",
    "x-first-death-exchange",
    "x-first-death-queue",
    "x-first-death-reason",
    "x-last-death-exchange",
    "x-last-death-queue",
    "x-last-death-reason",
];

/// Headers that say how often a broker gave a message out. They are no part of it.
const COUNTS: [&str; 2] = ["x-delivery-count", "x-acquired-count"];

/// A message as its sender wrote it, and what was noted on it since.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parcel {
    /// The sender's own properties, headers included.
    pub(crate) properties: BasicProperties,
    pub(crate) note: Note,
    pub(crate) body: Bytes,
}

impl Parcel {
    /// Reads what a broker gave out, and takes back what a detour did to it.
    pub(crate) fn read(given: lapin::message::Delivery) -> (Self, lapin::Acker) {
        let lapin::message::Delivery {
            properties,
            exchange,
            routing_key,
            data,
            acker,
            ..
        } = given;
        let (exchange, key) = (exchange.as_str(), routing_key.as_str());
        let parcel = Self::from_parts(properties, exchange, key, data.into());
        (parcel, acker)
    }

    fn from_parts(properties: BasicProperties, exchange: &str, key: &str, body: Bytes) -> Self {
        let had_headers = properties.headers().is_some();
        let mut headers = inner(properties.headers().as_ref());
        for count in COUNTS {
            headers.remove(count);
        }
        let (note, properties) = match Note::take(&mut headers) {
            Some(note) => {
                for name in DEATHS.into_iter().chain(ROUTING) {
                    headers.remove(name);
                }
                headers.extend(note.headers.clone());
                let properties = note.restore(properties);
                (note, properties)
            }
            None => (Note::new(exchange, key), properties),
        };
        let keep = had_headers && !(headers.is_empty() && note.made_headers);
        let properties = with_headers(properties, keep.then_some(headers));
        Self {
            properties,
            note,
            body,
        }
    }

    /// The properties with which it is published to a queue of ours, or to its own again: what a
    /// broker would act on is noted and taken off.
    pub(crate) fn wrapped(&self, attempts: u32, death: Option<Death>) -> BasicProperties {
        let mut headers = inner(self.properties.headers().as_ref());
        let mut note = Note {
            attempts,
            death,
            headers: BTreeMap::new(),
            made_headers: self.properties.headers().is_none(),
            ..self.note.clone()
        };
        for name in DEATHS.into_iter().chain(ROUTING).chain([Note::HEADER]) {
            if let Some((name, value)) = headers.remove_entry(name) {
                note.headers.insert(name, value);
            }
        }
        let properties = note.strip(&self.properties);
        if note.is_needed() {
            headers.insert(Note::HEADER.into(), AMQPValue::FieldTable(note.table()));
            return with_headers(properties, Some(headers));
        }
        let had_headers = self.properties.headers().is_some();
        with_headers(properties, had_headers.then_some(headers))
    }

    /// What a sink gets.
    pub(crate) fn message(&self) -> Message {
        let properties = &self.properties;
        let table = inner(properties.headers().as_ref());
        let mut headers = BTreeMap::new();
        self.tell_properties(&mut headers);
        headers.extend(
            table
                .iter()
                .map(|(name, value)| (name.as_str().to_owned(), text(value))),
        );
        let mut content_type = string(properties.content_type());
        cloud_events::apply(&mut headers, &table, &mut content_type);
        Message {
            id: string(properties.message_id()).unwrap_or_default(),
            body: self.body.clone(),
            content_type,
            headers,
            published_at: properties
                .timestamp()
                .and_then(|seconds| Timestamp::from_second(i64::try_from(seconds).ok()?).ok()),
        }
    }

    /// Properties that have no place of their own in a [`Message`].
    fn tell_properties(&self, headers: &mut BTreeMap<String, String>) {
        let properties = &self.properties;
        let given = [
            ("content-encoding", string(properties.content_encoding())),
            ("x-amqp-correlation-id", string(properties.correlation_id())),
            ("x-amqp-reply-to", string(properties.reply_to())),
            ("x-amqp-type", string(properties.kind())),
            ("x-amqp-app-id", string(properties.app_id())),
            ("x-amqp-user-id", string(properties.user_id())),
            ("x-amqp-expiration", string(properties.expiration())),
            (
                "x-amqp-priority",
                properties.priority().map(|priority| priority.to_string()),
            ),
            ("x-amqp-exchange", self.note.exchange.clone()),
            ("x-amqp-routing-key", self.note.key.clone()),
        ];
        for (name, value) in given {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                headers.insert(name.to_owned(), value);
            }
        }
    }

    /// What it counts against the limit `message_bytes`.
    pub(crate) fn bytes(&self) -> usize {
        message_bytes(&self.message())
    }

    /// What is read of it where it is a dead letter; one that somebody else put there has a name by
    /// its content.
    pub(crate) fn letter(&self) -> DeadLetter {
        let (id, reason, died_at) = match &self.note.death {
            Some(death) => (death.id.clone(), death.reason.clone(), death.died_at),
            None => (
                note::foreign_id(self),
                "it was put here by somebody else".to_owned(),
                Timestamp::UNIX_EPOCH,
            ),
        };
        DeadLetter {
            id,
            message: self.message(),
            reason,
            attempts: self.note.attempts,
            died_at,
        }
    }

    /// Its name among dead letters.
    pub(crate) fn letter_id(&self) -> String {
        match &self.note.death {
            Some(death) => death.id.clone(),
            None => note::foreign_id(self),
        }
    }
}

/// The size of a message, as the limits count it.
pub(crate) fn message_bytes(message: &Message) -> usize {
    let headers: usize = message
        .headers
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    let content_type = message.content_type.as_ref().map_or(0, String::len);
    message.id.len() + message.body.len() + content_type + headers
}

/// The properties of a message that is published here.
pub(crate) fn properties(message: &Message) -> Result<BasicProperties> {
    let mut properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
    if !message.id.is_empty() {
        properties = properties.with_message_id(short("id", &message.id)?);
    }
    if let Some(content_type) = &message.content_type {
        properties = properties.with_content_type(short("content_type", content_type)?);
    }
    if let Some(seconds) = message
        .published_at
        .and_then(|at| u64::try_from(at.as_second()).ok())
    {
        properties = properties.with_timestamp(seconds);
    }
    if !message.headers.is_empty() {
        let mut headers = BTreeMap::new();
        for (name, value) in &message.headers {
            let value = AMQPValue::LongString(value.as_str().into());
            headers.insert(short("the name of a header", name)?, value);
        }
        properties = properties.with_headers(headers.into());
    }
    Ok(properties)
}

fn short(what: &str, text: &str) -> Result<ShortString> {
    ShortString::try_new(text)
        .map_err(|_| Error::invalid(format!("{what}: expected at most 255 bytes")))
}

fn string(text: &Option<ShortString>) -> Option<String> {
    text.as_ref().map(|text| text.as_str().to_owned())
}

fn inner(table: Option<&FieldTable>) -> BTreeMap<ShortString, AMQPValue> {
    table.map(|table| table.inner().clone()).unwrap_or_default()
}

/// These properties with these headers and no others.
fn with_headers(
    properties: BasicProperties,
    headers: Option<BTreeMap<ShortString, AMQPValue>>,
) -> BasicProperties {
    let bare = note::copy(&properties, |_| true);
    match headers {
        Some(headers) => bare.with_headers(headers.into()),
        None => bare,
    }
}

#[cfg(test)]
mod tests;
