//! What this crate needs of the operating system: sockets that a worker inherits, process groups and
//! their signals, processes that end with their parent.
//!
//! On a system without these, everything builds, and starting a worker says what is lacking.

#[cfg(target_os = "linux")]
mod fork;
#[cfg(not(unix))]
mod other;
#[cfg(target_os = "linux")]
mod sandbox;
#[cfg(unix)]
mod spawn;
#[cfg(not(target_os = "linux"))]
mod unconfined;
#[cfg(unix)]
mod unix;

#[cfg(target_os = "linux")]
pub(crate) use fork::{MAX_DESCRIPTORS, Pidfd, give, output};
#[cfg(not(unix))]
pub(crate) use other::{
    Group, Inherited, Stop, Stream, double, make_private, numbers, pair, receive, shut, signal_of,
    spawn, user,
};
#[cfg(target_os = "linux")]
pub(crate) use sandbox::{
    Prepared, Separation, Watch, abilities, kill_left, kill_strays, prepare, prepare_command,
};
#[cfg(target_os = "linux")]
pub use sandbox::{Turn, give_turn};
#[cfg(unix)]
pub(crate) use spawn::{confine, spawn};
#[cfg(not(unix))]
pub(crate) use unconfined::confine;
#[cfg(not(target_os = "linux"))]
pub(crate) use unconfined::{Prepared, Watch, abilities, kill_left, prepare, prepare_command};
#[cfg(unix)]
pub(crate) use unix::{
    Group, Inherited, Stop, Stream, double, make_private, numbers, pair, receive, shut, signal_of,
    user,
};

/// What this system lacks, so that no worker can be started; `None` where it has all.
pub const fn lacking() -> Option<&'static str> {
    if cfg!(unix) {
        None
    } else {
        Some(
            "this system has no Unix sockets that a process can inherit, so functions cannot be run: \
             expected Linux or macOS",
        )
    }
}
