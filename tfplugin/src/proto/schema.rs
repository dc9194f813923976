//! How a schema looks on the wire.

use prost::{Enumeration, Message};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum StringKind {
    Plain = 0,
    Markdown = 1,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WireSchema {
    #[prost(int64, tag = "1")]
    pub(crate) version: i64,
    #[prost(message, optional, tag = "2")]
    pub(crate) block: Option<WireBlock>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WireBlock {
    #[prost(int64, tag = "1")]
    pub(crate) version: i64,
    #[prost(message, repeated, tag = "2")]
    pub(crate) attributes: Vec<WireAttribute>,
    #[prost(string, tag = "4")]
    pub(crate) description: String,
    #[prost(enumeration = "StringKind", tag = "5")]
    pub(crate) description_kind: i32,
    #[prost(bool, tag = "6")]
    pub(crate) deprecated: bool,
    #[prost(string, tag = "7")]
    pub(crate) deprecation_message: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WireAttribute {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    /// The type as JSON; empty where there is a nested type.
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) type_json: Vec<u8>,
    #[prost(string, tag = "3")]
    pub(crate) description: String,
    #[prost(bool, tag = "4")]
    pub(crate) required: bool,
    #[prost(bool, tag = "5")]
    pub(crate) optional: bool,
    #[prost(bool, tag = "6")]
    pub(crate) computed: bool,
    #[prost(bool, tag = "7")]
    pub(crate) sensitive: bool,
    #[prost(enumeration = "StringKind", tag = "8")]
    pub(crate) description_kind: i32,
    #[prost(bool, tag = "9")]
    pub(crate) deprecated: bool,
    #[prost(message, optional, tag = "10")]
    pub(crate) nested_type: Option<WireObject>,
    #[prost(bool, tag = "11")]
    pub(crate) write_only: bool,
    #[prost(string, tag = "12")]
    pub(crate) deprecation_message: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WireObject {
    #[prost(message, repeated, tag = "1")]
    pub(crate) attributes: Vec<WireAttribute>,
    #[prost(enumeration = "WireNesting", tag = "3")]
    pub(crate) nesting: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum WireNesting {
    Invalid = 0,
    Single = 1,
    List = 2,
    Set = 3,
    Map = 4,
}
