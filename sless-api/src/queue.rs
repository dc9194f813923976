//! Queues and dead letters.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The answer to `POST /v1/namespaces/{ns}/queues/{queue}/messages`, whose body is the message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Published {
    /// The queue.
    pub queue: String,
    /// The message's id: the one in the field `x-message-id` of the request, or a new one.
    pub id: String,
}

/// A message that was given up: an item of `GET …/triggers/{name}/dead-letters`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeadLetter {
    /// Its id, to redrive it by.
    pub id: String,
    /// The queue that it came from.
    pub queue: String,
    /// Why it was given up, in one word or sentence.
    pub reason: String,
    /// How often it was delivered.
    pub attempts: u32,
    /// When it was given up.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub dead_at: Timestamp,
    /// The sender's name for it, empty where none was given.
    pub message_id: String,
    /// The media type of its body, where one was given.
    pub content_type: Option<String>,
    /// Named values beside the body.
    pub headers: BTreeMap<String, String>,
    /// Its body where that is UTF-8 text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Its body in base64 where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<String>,
}

/// Which dead letters go back to their queue: `POST …/triggers/{name}/dead-letters/redrive`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Redrive {
    /// The ids; all where the field is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ids: Option<Vec<String>>,
}

/// How many dead letters went back to their queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Redriven {
    /// The count.
    pub redriven: u64,
}

/// How many dead letters were removed for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Purged {
    /// The count.
    pub purged: u64,
}
