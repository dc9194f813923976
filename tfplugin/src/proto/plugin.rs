//! Messages of go-plugin, the layer below the provider protocol.

use prost::{Enumeration, Message};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum StdioChannel {
    Invalid = 0,
    Stdout = 1,
    Stderr = 2,
}

/// A piece of what the plugin prints. We print nothing: standard error goes its own way.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct StdioData {
    #[prost(enumeration = "StdioChannel", tag = "1")]
    pub(crate) channel: i32,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) data: Vec<u8>,
}
