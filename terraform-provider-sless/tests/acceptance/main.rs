//! The provider as its users have it: the real Terraform, the real server, real functions.

// Numbers that were measured are told.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

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
