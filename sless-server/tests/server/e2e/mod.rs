//! The whole system: the binary as people start it, real interpreters, real installs.

mod cases;
mod crash;
mod dev;
mod functions;
mod handlers;
mod machine;
mod messages;
mod names;
#[cfg(feature = "postgres")]
mod postgres;
mod process;
mod tokens;
mod validation;
