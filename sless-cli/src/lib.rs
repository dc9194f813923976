//! The command `sless`: what people and scripts type to deploy, call and watch functions.
//!
//! It knows a server by its REST API alone. `docs/cli.md` is its reference, made from the definitions
//! in here by [`reference`](reference::reference).
//!
//! What is to be kept over all commands: standard output carries data and nothing else, standard
//! error carries talk; colours and bars appear on a terminal only; the exit status is one of
//! [`Exit`]; an error says what to do next; a command that is cut off leaves nothing half-made.

mod args;
mod commands;
mod contexts;
mod failure;
mod interrupt;
mod output;
pub mod reference;
mod run;
mod session;
mod token;

pub use args::command;
pub use failure::Exit;
pub use run::main;
