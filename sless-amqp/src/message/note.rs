//! What is noted on a message that goes on a detour, in one header: `x-sless`.
//!
//! The header is stored in queues, so its form has a version. What is noted: how often the message was
//! tried, where it came from, and whatever of it a broker would act on where it is published again.

use std::collections::BTreeMap;

use jiff::Timestamp;
use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable, ShortString},
};
use sha2::{Digest as _, Sha256};

use super::{PERSISTENT, Parcel};

/// The version of the header's form.
const VERSION: i32 = 1;

/// The longest reason that is noted, in bytes.
const REASON_BYTES: usize = 1024;

/// A pseudo queue for answers. A broker refuses a message that names it where nobody waits on the same
/// channel for the answer.
const DIRECT_REPLY: &str = "amq.rabbitmq.reply-to";

/// What is noted on a message.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Note {
    /// How often it was tried.
    pub(crate) attempts: u32,
    /// The exchange to which its sender gave it.
    pub(crate) exchange: Option<String>,
    /// The routing key with which its sender gave it.
    pub(crate) key: Option<String>,
    /// The queue in which it was found; where it is redriven to.
    pub(crate) queue: Option<String>,
    /// Where it is a dead letter.
    pub(crate) death: Option<Death>,
    /// Headers of the sender that were taken off.
    pub(crate) headers: BTreeMap<ShortString, AMQPValue>,
    /// Whether the message had no headers before this one.
    pub(crate) made_headers: bool,
    /// Properties of the sender that were taken off or changed.
    pub(crate) expiration: Option<String>,
    pub(crate) user_id: Option<String>,
    pub(crate) reply_to: Option<String>,
    pub(crate) mode: Option<u8>,
}

/// How a message became a dead letter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Death {
    /// Its name among the dead letters of its trigger. Names sort by the time of death.
    pub(crate) id: String,
    pub(crate) reason: String,
    pub(crate) died_at: Timestamp,
}

impl Death {
    pub(crate) fn new(reason: &str) -> Self {
        let died_at = Timestamp::now();
        let mut end = reason.len().min(REASON_BYTES);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        Self {
            // Microseconds as 14 hexadecimal digits, which sort as numbers until the year 4253.
            id: format!(
                "{:014x}-{:08x}",
                died_at.as_microsecond(),
                uuid::Uuid::new_v4().as_u128() as u32
            ),
            reason: reason[..end].to_owned(),
            died_at: Timestamp::from_microsecond(died_at.as_microsecond()).unwrap_or(died_at),
        }
    }
}

impl Note {
    pub(super) const HEADER: &'static str = "x-sless";

    pub(super) fn new(exchange: &str, key: &str) -> Self {
        Self {
            exchange: Some(exchange.to_owned()),
            key: Some(key.to_owned()),
            ..Self::default()
        }
    }

    /// Takes the note from the headers. A header of that name that is none of ours stays.
    pub(super) fn take(headers: &mut BTreeMap<ShortString, AMQPValue>) -> Option<Self> {
        let note = match headers.get(Self::HEADER)? {
            AMQPValue::FieldTable(table) => Self::parse(table)?,
            _ => return None,
        };
        headers.remove(Self::HEADER);
        Some(note)
    }

    fn parse(table: &FieldTable) -> Option<Self> {
        let table = table.inner();
        let number = |name: &str| match table.get(name) {
            Some(AMQPValue::LongLongInt(value)) => Some(*value),
            Some(AMQPValue::LongInt(value)) => Some((*value).into()),
            _ => None,
        };
        let string = |name: &str| match table.get(name) {
            Some(AMQPValue::LongString(value)) => {
                Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
            }
            _ => None,
        };
        if number("v")? != i64::from(VERSION) {
            return None;
        }
        let death = match (string("id"), string("reason"), number("died-at")) {
            (Some(id), Some(reason), Some(at)) => Some(Death {
                id,
                reason,
                died_at: Timestamp::from_microsecond(at).ok()?,
            }),
            _ => None,
        };
        Some(Self {
            attempts: u32::try_from(number("attempts")?).ok()?,
            exchange: string("exchange"),
            key: string("key"),
            queue: string("queue"),
            death,
            headers: match table.get("headers") {
                Some(AMQPValue::FieldTable(kept)) => kept.inner().clone(),
                _ => BTreeMap::new(),
            },
            made_headers: number("made-headers") == Some(1),
            expiration: string("expiration"),
            user_id: string("user-id"),
            reply_to: string("reply-to"),
            mode: number("mode").and_then(|mode| u8::try_from(mode).ok()),
        })
    }

    pub(super) fn table(&self) -> FieldTable {
        let mut table = FieldTable::default();
        let number = AMQPValue::LongLongInt;
        table.insert("v".into(), AMQPValue::LongInt(VERSION));
        table.insert("attempts".into(), number(self.attempts.into()));
        let mut strings = vec![
            ("exchange", self.exchange.as_deref()),
            ("key", self.key.as_deref()),
            ("queue", self.queue.as_deref()),
            ("expiration", self.expiration.as_deref()),
            ("user-id", self.user_id.as_deref()),
            ("reply-to", self.reply_to.as_deref()),
        ];
        if let Some(death) = &self.death {
            strings.push(("id", Some(&death.id)));
            strings.push(("reason", Some(&death.reason)));
            table.insert("died-at".into(), number(death.died_at.as_microsecond()));
        }
        for (name, value) in strings {
            if let Some(value) = value {
                table.insert(name.into(), AMQPValue::LongString(value.into()));
            }
        }
        if let Some(mode) = self.mode {
            table.insert("mode".into(), number(mode.into()));
        }
        if self.made_headers {
            table.insert("made-headers".into(), number(1));
        }
        if !self.headers.is_empty() {
            let kept = AMQPValue::FieldTable(self.headers.clone().into());
            table.insert("headers".into(), kept);
        }
        table
    }

    /// Whether there is anything to note on a message that goes back to its queue for good.
    pub(super) fn is_needed(&self) -> bool {
        self.attempts > 0
            || self.death.is_some()
            || !self.headers.is_empty()
            || self.expiration.is_some()
            || self.user_id.is_some()
            || self.reply_to.is_some()
            || self.mode.is_some()
            || self
                .exchange
                .as_deref()
                .is_some_and(|exchange| !exchange.is_empty())
    }

    /// The properties to publish with. What is taken off them is noted:
    ///
    /// - `expiration`, or a dead letter would be gone after a while;
    /// - `user_id`, since a broker refuses a message in the name of another user;
    /// - a `reply_to` that a broker refuses where nobody waits;
    /// - a `delivery_mode` under which a message is not written to the disk.
    pub(super) fn strip(&mut self, properties: &BasicProperties) -> BasicProperties {
        let text = |text: &Option<ShortString>| text.as_ref().map(|text| text.as_str().to_owned());
        self.expiration = text(properties.expiration());
        self.user_id = text(properties.user_id());
        self.reply_to = text(properties.reply_to()).filter(|to| to == DIRECT_REPLY);
        // Absent means transient, too; zero stands for absent here.
        self.mode =
            Some(properties.delivery_mode().unwrap_or(0)).filter(|mode| *mode != PERSISTENT);
        let direct = self.reply_to.is_some();
        copy(properties, |property| match property {
            "expiration" | "user_id" => false,
            "reply_to" => !direct,
            _ => true,
        })
        .with_delivery_mode(PERSISTENT)
    }

    /// The sender's properties again.
    pub(super) fn restore(&self, properties: BasicProperties) -> BasicProperties {
        let mut properties = match self.mode {
            Some(0) => copy(&properties, |property| property != "delivery_mode"),
            Some(mode) => properties.with_delivery_mode(mode),
            None => properties,
        };
        if let Some(expiration) = &self.expiration {
            properties = properties.with_expiration(expiration.as_str().into());
        }
        if let Some(user_id) = &self.user_id {
            properties = properties.with_user_id(user_id.as_str().into());
        }
        if let Some(reply_to) = &self.reply_to {
            properties = properties.with_reply_to(reply_to.as_str().into());
        }
        properties
    }
}

/// The properties whose names `keep` says, without headers.
pub(super) fn copy(from: &BasicProperties, keep: impl Fn(&str) -> bool) -> BasicProperties {
    let mut to = BasicProperties::default();
    macro_rules! copy {
        ($($get:ident $set:ident;)*) => {
            $(if let Some(value) = from.$get()
                && keep(stringify!($get))
            {
                to = to.$set(value.clone());
            })*
        };
    }
    copy! {
        content_type with_content_type;
        content_encoding with_content_encoding;
        delivery_mode with_delivery_mode;
        priority with_priority;
        correlation_id with_correlation_id;
        reply_to with_reply_to;
        expiration with_expiration;
        message_id with_message_id;
        timestamp with_timestamp;
        kind with_type;
        user_id with_user_id;
        app_id with_app_id;
        cluster_id with_cluster_id;
    }
    to
}

/// A name for a message among dead letters that was not put there by sless.
pub(super) fn foreign_id(parcel: &Parcel) -> String {
    let mut digest = Sha256::new();
    digest.update(format!("{:?}", parcel.properties));
    digest.update(&parcel.body);
    let digest = digest.finalize();
    let hex: String = digest[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{:014x}-{hex}", 0)
}
