//! Tests of the crate's public face: the shapes on the wire, and the client against a scripted peer.

#![allow(clippy::unwrap_used)]

#[cfg(feature = "client")]
mod client;
mod wire;
