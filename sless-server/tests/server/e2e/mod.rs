//! The whole system: the binary as people start it, real interpreters, real installs.

mod cases;
mod crash;
mod dev;
mod functions;
mod handlers;
mod machine;
mod messages;
mod names;
mod process;
mod tokens;
