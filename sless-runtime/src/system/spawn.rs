//! Starts worker processes so that none outlives its parent.
//!
//! The kernel's parent-death signal fires when the *thread* that forked ends, not the process. So
//! all workers are forked on one thread that lives as long as the process. Preparing the child
//! between fork and exec is what needs `unsafe` here and in the sandbox (`sandbox/calls.rs`), and nowhere
//! else in this crate: what runs there must not allocate or lock, since other threads may have held a lock
//! at the moment of the fork.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError, mpsc};

use rustix::io::{FdFlags, fcntl_setfd};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::{Prepared, Watch};

type Job = Box<dyn FnOnce() + Send>;

/// Starts `command` in a process group of its own.
///
/// The child inherits `inherited` under the same numbers, is confined as `prepared` says, and gets SIGKILL
/// when this process dies (Linux). The descriptors are closed here when the command has started.
pub(crate) async fn spawn(
    mut command: Command,
    inherited: Vec<OwnedFd>,
    mut prepared: Prepared,
) -> io::Result<Child> {
    command.process_group(0).kill_on_drop(true);
    let numbers: Vec<i32> = inherited.iter().map(AsRawFd::as_raw_fd).collect();
    let parent = rustix::process::getpid();
    let watch = prepared.watch();
    let prepare = move || {
        for &number in &numbers {
            // SAFETY: `inherited` keeps the descriptor open until after the fork, and the child
            // has a copy of it.
            let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
            fcntl_setfd(descriptor, FdFlags::empty())?;
        }
        prepared.enter()?;
        // Last, since the kernel forgets it where rights change.
        die_with(parent)
    };
    // SAFETY: `prepare` makes system calls only; it neither allocates nor locks.
    unsafe { command.pre_exec(prepare) };

    let (sender, receiver) = oneshot::channel();
    let runtime = Handle::current();
    run(Box::new(move || {
        let _runtime = runtime.enter();
        let child = command.spawn();
        drop(inherited);
        // And with it what the child was prepared by, so that all ends of the child's are closed.
        drop(command);
        let child = watch.outcome(child);
        // Nobody waits any more: the child is dropped, and with it killed.
        let _ = sender.send(child);
    }))?;
    receiver
        .await
        .map_err(|_| io::Error::other("the spawning thread has ended"))?
}

/// Confines a command that is started otherwise.
pub(crate) fn confine(command: &mut Command, mut prepared: Prepared) -> Watch {
    let watch = prepared.watch();
    // SAFETY: it makes system calls only; it neither allocates nor locks.
    unsafe { command.pre_exec(move || prepared.enter()) };
    watch
}

#[cfg(target_os = "linux")]
fn die_with(parent: rustix::process::Pid) -> io::Result<()> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died before the signal was armed.
    if getppid() == Some(parent) {
        Ok(())
    } else {
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

#[cfg(not(target_os = "linux"))]
fn die_with(_parent: rustix::process::Pid) -> io::Result<()> {
    Ok(())
}

/// Hands a job to the spawning thread, which is started with the first job.
fn run(job: Job) -> io::Result<()> {
    static JOBS: Mutex<Option<mpsc::Sender<Job>>> = Mutex::new(None);
    let mut jobs = JOBS.lock().unwrap_or_else(PoisonError::into_inner);
    let sender = match &*jobs {
        Some(sender) => sender,
        None => {
            let (sender, receiver) = mpsc::channel::<Job>();
            std::thread::Builder::new()
                .name("sless-spawner".to_owned())
                .spawn(move || {
                    for job in receiver {
                        job();
                    }
                })?;
            jobs.insert(sender)
        }
    };
    sender
        .send(job)
        .map_err(|_| io::Error::other("the spawning thread has ended"))
}
