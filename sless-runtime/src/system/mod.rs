//! What this crate needs of the operating system: sockets that a worker inherits, process groups and
//! their signals, processes that end with their parent.
//!
//! On a system without these, everything builds, and starting a worker says what is lacking.

#[cfg(not(unix))]
mod other;
#[cfg(unix)]
mod spawn;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub(crate) use other::{
    Group, Inherited, Stop, Stream, double, make_private, numbers, pair, receive, shut, signal_of,
    spawn, user,
};
#[cfg(unix)]
pub(crate) use spawn::spawn;
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
