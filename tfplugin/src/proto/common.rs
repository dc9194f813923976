//! What many messages hold.

use std::collections::HashMap;

use prost::{Enumeration, Message, Oneof};

/// An empty message: several requests carry nothing.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Nothing {}

/// An encoded value. One of the two is filled.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct DynamicValue {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) msgpack: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) json: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum Severity {
    Invalid = 0,
    Error = 1,
    Warning = 2,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Diagnostic {
    #[prost(enumeration = "Severity", tag = "1")]
    pub(crate) severity: i32,
    #[prost(string, tag = "2")]
    pub(crate) summary: String,
    #[prost(string, tag = "3")]
    pub(crate) detail: String,
    #[prost(message, optional, tag = "4")]
    pub(crate) attribute: Option<AttributePath>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AttributePath {
    #[prost(message, repeated, tag = "1")]
    pub(crate) steps: Vec<PathStep>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PathStep {
    #[prost(oneof = "Selector", tags = "1, 2, 3")]
    pub(crate) selector: Option<Selector>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Selector {
    #[prost(string, tag = "1")]
    AttributeName(String),
    #[prost(string, tag = "2")]
    ElementKeyString(String),
    #[prost(int64, tag = "3")]
    ElementKeyInt(i64),
}

/// A stored state, as it was written by whatever version of the provider.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RawState {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) json: Vec<u8>,
    /// The form of Terraform before 0.12.
    #[prost(map = "string, string", tag = "2")]
    pub(crate) flatmap: HashMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ServerCapabilities {
    #[prost(bool, tag = "1")]
    pub(crate) plan_destroy: bool,
    #[prost(bool, tag = "2")]
    pub(crate) get_provider_schema_optional: bool,
    #[prost(bool, tag = "3")]
    pub(crate) move_resource_state: bool,
    #[prost(bool, tag = "4")]
    pub(crate) generate_resource_config: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ClientCapabilities {
    #[prost(bool, tag = "1")]
    pub(crate) deferral_allowed: bool,
    #[prost(bool, tag = "2")]
    pub(crate) write_only_attributes_allowed: bool,
}
