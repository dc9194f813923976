//! How a child tells which part of the sandbox it could not enter: the standard library carries only the
//! number of the error.

use std::io::{self, PipeReader, PipeWriter, Read as _};
use std::os::fd::AsFd as _;

use super::calls;

/// The parts, in the order in which they are entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Stage {
    Group,
    Namespaces,
    Identity,
    Mounts,
    Root,
    Limits,
    Capabilities,
    Landlock,
    Filter,
    /// All were entered; told where somebody asks.
    Done,
}

const STAGES: [(Stage, &str); 9] = [
    (Stage::Group, "joining its control group"),
    (Stage::Namespaces, "making a user namespace"),
    (Stage::Identity, "keeping its user in a user namespace"),
    (Stage::Mounts, "mounting in a user namespace"),
    (Stage::Root, "changing its root folder"),
    (Stage::Limits, "setting its limits"),
    (Stage::Capabilities, "giving up capabilities"),
    (Stage::Landlock, "entering Landlock"),
    (Stage::Filter, "filtering system calls"),
];

/// The child's end.
#[derive(Debug)]
pub(super) struct Trace(PipeWriter);

/// Our end.
#[derive(Debug)]
pub(super) struct Told(PipeReader);

pub(super) fn trace() -> io::Result<(Trace, Told)> {
    let (ours, theirs) = io::pipe()?;
    Ok((Trace(theirs), Told(ours)))
}

impl Trace {
    /// Called in the child: what went wrong where, and the same error again.
    pub(super) fn failed(&self, stage: Stage, error: io::Error) -> io::Error {
        self.tell(stage, error.raw_os_error().unwrap_or(0));
        error
    }

    /// Called in the child: nothing went wrong.
    pub(super) fn done(&self) {
        self.tell(Stage::Done, 0);
    }

    fn tell(&self, stage: Stage, error: i32) {
        let [a, b, c, d] = error.to_ne_bytes();
        // Where even this fails, the number of the error is told all the same.
        let _ = calls::write(self.0.as_fd(), &[stage as u8, a, b, c, d]);
    }
}

impl Told {
    /// What the child said, if anything. It has ended, and its end is closed here.
    pub(super) fn read(mut self) -> Option<Result<(), String>> {
        let mut message = [0; 5];
        self.0.read_exact(&mut message).ok()?;
        let [stage, number @ ..] = message;
        let error = io::Error::from_raw_os_error(i32::from_ne_bytes(number));
        let found = STAGES.iter().find(|(each, _)| *each as u8 == stage);
        Some(found.map_or(Ok(()), |(_, what)| Err(format!("{what}: {error}"))))
    }
}
