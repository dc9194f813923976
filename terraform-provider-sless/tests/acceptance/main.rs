//! The provider as its users have it: the real Terraform, the real server, real functions.

#![allow(clippy::unwrap_used)]

mod configuration;
mod drift;
mod ends;
mod errors;
mod examples;
mod import;
mod life;
mod many;
mod pages;
mod peer;
mod plans;
mod secrets;
mod server;
mod testing;
