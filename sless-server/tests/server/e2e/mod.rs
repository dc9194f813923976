//! The whole system: the binary as people start it, real interpreters, real installs.

#[cfg(feature = "amqp")]
mod amqp;
mod bodies;
mod cases;
mod crash;
mod dev;
#[cfg(feature = "full")]
mod flow;
mod functions;
mod gc;
mod handlers;
#[cfg(feature = "full")]
mod kubernetes;
pub(crate) mod machine;
mod messages;
mod names;
mod neighbour;
#[cfg(feature = "full")]
mod place;
#[cfg(feature = "postgres")]
mod postgres;
pub(crate) mod process;
mod redeploys;
#[cfg(feature = "s3")]
mod s3;
mod sandbox;
mod tokens;
mod validation;
