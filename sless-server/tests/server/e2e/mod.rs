//! The whole system: the binary as people start it, real interpreters, real installs.

#[cfg(feature = "amqp")]
mod amqp;
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
#[cfg(feature = "s3")]
mod s3;
mod tokens;
mod validation;
