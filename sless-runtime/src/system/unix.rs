//! Unix.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;

use rustix::net::{RecvFlags, Shutdown};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;

/// Our end of a socket to a worker.
pub(crate) type Stream = tokio::net::UnixStream;

/// A descriptor that a worker inherits.
pub(crate) type Inherited = OwnedFd;

/// Our end, and the end that the worker inherits.
pub(crate) fn pair() -> io::Result<(Stream, Inherited)> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    Ok((Stream::from_std(ours)?, theirs.into()))
}

/// Another descriptor of our end.
pub(crate) fn double(stream: &Stream) -> io::Result<Inherited> {
    stream.as_fd().try_clone_to_owned()
}

/// Ends a socket for all who hold it.
pub(crate) fn shut(double: &Inherited) {
    // It fails where the other end is closed, as it should be.
    let _ = rustix::net::shutdown(double, Shutdown::Both);
}

/// Reads what is there now, past the runtime's own notion of it.
pub(crate) fn receive(stream: &Stream, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::net::recv(stream, buffer, RecvFlags::DONTWAIT)?.0)
}

/// The numbers under which a worker finds what it inherits.
pub(crate) fn numbers(inherited: &[Inherited]) -> Vec<String> {
    let numbers = inherited.iter().map(|each| each.as_raw_fd().to_string());
    numbers.collect()
}

/// The signal that ended a process.
pub(crate) fn signal_of(status: ExitStatus) -> Option<i32> {
    status.signal()
}

/// The user that this process runs as.
pub(crate) fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Makes a folder, and sees to it that nobody else can write it or what it lies in.
pub(crate) fn make_private(base: &Path, folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(folder)?;
    for folder in [base, folder] {
        // In a shared temporary folder somebody else may have been there first.
        let found = fs::symlink_metadata(folder)?;
        let safe = found.is_dir() && found.uid() == user() && found.mode() & 0o022 == 0;
        if !safe {
            let text = format!("{} is not a folder of ours alone", folder.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
    }
    Ok(())
}

/// How a group of processes is told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It may finish what it does.
    Ask,
    /// At once.
    Kill,
}

/// A worker's process and whatever it started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group(pub(super) Pid);

impl Group {
    /// The group of a process that was started as the head of one.
    pub(crate) fn of(child: &Child) -> Option<Self> {
        let number = i32::try_from(child.id()?).ok()?;
        Pid::from_raw(number).map(Self)
    }

    /// The number of the group's first process.
    pub(crate) fn number(self) -> u32 {
        self.0.as_raw_nonzero().get().unsigned_abs()
    }

    /// Ends all that are left; nobody may be.
    pub(crate) fn stop(self, how: Stop) {
        let signal = match how {
            Stop::Ask => Signal::TERM,
            Stop::Kill => Signal::KILL,
        };
        let _ = kill_process_group(self.0, signal);
        #[cfg(target_os = "linux")]
        if how == Stop::Kill {
            super::kill_left(self.number());
        }
    }
}
