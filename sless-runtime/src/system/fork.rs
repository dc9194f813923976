//! What workers need that another worker forked: descriptors sent to it, and a process that is no child
//! of ours.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};
use tokio::io::Interest;
use tokio::net::unix::pipe::Receiver;

use super::{Group, Inherited, Stream};

/// What one message carries on Linux (`SCM_MAX_FD`).
pub(crate) const MAX_DESCRIPTORS: usize = 253;

impl Group {
    /// The group that a process of this number leads, or is about to.
    pub(crate) fn numbered(number: u32) -> Option<Self> {
        let number = i32::try_from(number).ok()?;
        Pid::from_raw(number).map(Self)
    }
}

/// Sends a short message, whole, with descriptors.
pub(crate) async fn give(
    stream: &Stream,
    message: &[u8],
    descriptors: &[Inherited],
) -> io::Result<()> {
    let descriptors: Vec<BorrowedFd<'_>> = descriptors.iter().map(|each| each.as_fd()).collect();
    loop {
        stream.writable().await?;
        let rights = SendAncillaryMessage::ScmRights(&descriptors);
        let mut space = vec![MaybeUninit::uninit(); rights.size()];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(rights) {
            return Err(io::Error::other("too many descriptors"));
        }
        let sent = stream.try_io(Interest::WRITABLE, || {
            let message = [IoSlice::new(message)];
            Ok(sendmsg(
                stream,
                &message,
                &mut control,
                SendFlags::NOSIGNAL,
            )?)
        });
        match sent {
            Ok(length) if length == message.len() => return Ok(()),
            Ok(_) => return Err(io::ErrorKind::WriteZero.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// Our end of a worker's output, and the end that it writes to.
pub(crate) fn output() -> io::Result<(Receiver, Inherited)> {
    let (ours, theirs) = io::pipe()?;
    Ok((Receiver::from_owned_fd(ours.into())?, theirs.into()))
}

/// A process that somebody else reaps. Its number stays its own until then.
///
/// The runtime has no type for its descriptor. That of a pipe does what is needed: it waits until there
/// is something to read.
#[derive(Debug)]
pub(crate) struct Pidfd(Receiver);

impl Pidfd {
    /// It must not have been reaped.
    pub(crate) fn open(group: Group) -> io::Result<Self> {
        let descriptor = pidfd_open(group.0, PidfdFlags::NONBLOCK)?;
        Receiver::from_owned_fd_unchecked(descriptor).map(Self)
    }

    /// Waits until it has ended, and is there to be reaped.
    pub(crate) async fn ended(&self) {
        // An error would mean that the runtime ends.
        let _ = self.0.readable().await;
    }

    /// Reaps it, where the system has made it a child of ours since the one that forked it has ended.
    pub(crate) fn adopted(&self) -> Option<ExitStatus> {
        let id = WaitId::PidFd(self.0.as_fd());
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let status = waitid(id, options).ok()??;
        let raw = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => code << 8,
            (None, signal) => signal?,
        };
        Some(ExitStatus::from_raw(raw))
    }
}
