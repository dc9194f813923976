//! Programs of this machine: which interpreters there are, commands that are run to their end, and
//! what an earlier process left running.

mod command;
#[cfg(target_os = "linux")]
pub(crate) mod fair;
mod kill;
mod sweep;
mod tools;

pub use self::tools::ToolsConfig;
pub(crate) use self::{
    command::{Ended, Program},
    kill::is_gone,
    sweep::{MARK, kill_leftovers},
    tools::Tools,
};
