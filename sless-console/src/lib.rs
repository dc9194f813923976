#![doc = include_str!("../README.md")]

mod assets;
mod config;
mod console;
mod data;
mod error;
mod events;
mod extract;
mod format;
mod frame;
mod gate;
mod highlight;
mod negotiate;
mod pages;
mod plot;
mod routes;
mod session;
mod text;

pub use config::ConsoleConfig;
pub use console::Console;
pub use gate::{Gate, Identity, Refusal};
pub use session::{SESSION_COOKIE, SessionKey};
