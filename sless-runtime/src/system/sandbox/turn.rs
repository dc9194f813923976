//! When a thread gets the processor.

use std::io;

use super::calls;

/// When a thread gets the processor. What it starts gets it in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// In turn with all others, by its priority (`SCHED_OTHER` of sched(7)).
    Even,
    /// When nobody else wants it (`SCHED_IDLE`): who wakes up takes it at once. Others are those of the same
    /// control group, and where there is none of the same session.
    Last,
}

/// Says when a thread of a process of this user gets the processor.
///
/// Any user may put a thread last. To take it back needs `CAP_SYS_NICE`, since a confined process has no
/// right to it (`RLIMIT_NICE` is 0).
///
/// # Errors
/// The system's: no such thread, or no right to it.
pub fn give_turn(thread: i32, turn: Turn) -> io::Result<()> {
    let policy = match turn {
        Turn::Even => libc::SCHED_OTHER,
        Turn::Last => libc::SCHED_IDLE,
    };
    calls::set_policy(thread, policy)
}
