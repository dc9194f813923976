//! Ends processes by their number. Where there are no process groups, as on Windows, only what tokio
//! ends with its handle is ended.

/// Kills a process and its group; nobody may be left in it.
#[cfg(unix)]
pub(super) fn kill_group(number: u32) {
    use rustix::process::{Pid, Signal, kill_process_group};
    if let Some(group) = i32::try_from(number).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// Kills one process, and says whether it was there.
#[cfg(unix)]
pub(super) fn kill(number: u32) -> bool {
    use rustix::process::{Pid, Signal, kill_process};
    let process = i32::try_from(number).ok().and_then(Pid::from_raw);
    process.is_some_and(|process| kill_process(process, Signal::KILL).is_ok())
}

/// Whether no process has this number, as far as one can tell.
#[cfg(unix)]
pub(crate) fn is_gone(number: u32) -> bool {
    use rustix::{
        io::Errno,
        process::{Pid, test_kill_process},
    };
    let process = i32::try_from(number).ok().and_then(Pid::from_raw);
    process.is_some_and(|process| test_kill_process(process) == Err(Errno::SRCH))
}

#[cfg(not(unix))]
pub(crate) fn is_gone(_: u32) -> bool {
    false
}

#[cfg(not(unix))]
pub(super) fn kill_group(_: u32) {}

#[cfg(not(unix))]
pub(super) fn kill(_: u32) -> bool {
    false
}
