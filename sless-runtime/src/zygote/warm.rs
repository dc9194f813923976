//! How a place is filled, and how workers start from it.

use std::io;
use std::time::Duration;

use bytes::Buf;
use tokio::task::JoinHandle;

use super::forker::{Forker, NotForked};
use super::safety::unsafe_to_fork;
use super::{Place, Zygote};
use crate::error::StartError;
use crate::frame::{self, Order};
use crate::launch::{Launched, Newborn, Start, host_error};
use crate::log::LogStream;
use crate::process::Process;
use crate::system::{Separation, give, output, pair};

/// How long a forked worker may take until it is ready, where the time of a start is not shorter.
const FORK_PATIENCE: Duration = Duration::from_secs(5);

/// How often one start takes a zygote that has just ended for one that lives.
const FILLS: u32 = 2;

/// A process that forks.
#[derive(Debug)]
pub(super) struct Warm {
    pid: u32,
    forker: Forker,
    tended: JoinHandle<()>,
}

/// How a start goes on.
enum Way {
    Fork(Forker),
    OwnProcess,
    /// By the process that has imported the handler, and cannot fork.
    Serve(Box<Newborn>),
}

impl Zygote {
    /// The process id, while there is one. It leads a process group of the same number.
    pub fn pid(&self) -> Option<u32> {
        match &*self.place() {
            Place::Warm(warm) if warm.forker.is_alive() => Some(warm.pid),
            _ => None,
        }
    }

    /// Empties the place, and waits until the process has ended: its workers first, by whoever holds
    /// them. Dropping the future takes nothing back.
    pub async fn end(&self) {
        let place = std::mem::take(&mut *self.place());
        if let Place::Warm(Warm { forker, tended, .. }) = place {
            drop(forker);
            // It fails only where the runtime ends.
            let _ = tended.await;
        }
    }

    pub(crate) async fn launch(&self, start: &Start<'_>) -> Result<Launched, StartError> {
        for _ in 0..FILLS {
            let forker = match self.way(start).await? {
                Way::Fork(forker) => forker,
                Way::OwnProcess => break,
                Way::Serve(newborn) => return serve(start, *newborn).await,
            };
            match fork(start, &forker).await {
                Ok(launched) => return Ok(launched),
                // The place is filled anew.
                Err(NotForked::Gone) => {}
                Err(NotForked::Failed(error)) => {
                    self.refuse(format!("a copy could not be forked: {error}"));
                    break;
                }
            }
        }
        start.own_process().await
    }

    /// Fills the place, if it is empty.
    async fn way(&self, start: &Start<'_>) -> Result<Way, StartError> {
        if let Some(way) = self.known_way() {
            return Ok(way);
        }
        let _filling = self.filling.lock().await;
        if let Some(way) = self.known_way() {
            return Ok(way);
        }
        if let Some(why) = Self::unfit(start.config) {
            self.refuse(why);
            return Ok(Way::OwnProcess);
        }
        let newborn = start.interpreter(Vec::new()).await?;
        let (newborn, about) = newborn.ready(start, start.config.start_timeout).await?;
        if let Some(why) = self.unsafe_to_fork(&newborn, about).await {
            self.refuse(why);
            return Ok(Way::Serve(Box::new(newborn)));
        }
        let pid = newborn.worker.pid();
        let Some((child, control, readers)) = newborn.into_child() else {
            return Ok(Way::OwnProcess);
        };
        let (forker, tended) = Forker::new(child, control, readers);
        *self.place() = Place::Warm(Warm {
            pid,
            forker: forker.clone(),
            tended,
        });
        Ok(Way::Fork(forker))
    }

    fn known_way(&self) -> Option<Way> {
        match &*self.place() {
            Place::Warm(warm) if warm.forker.is_alive() => Some(Way::Fork(warm.forker.clone())),
            Place::Refused(_) => Some(Way::OwnProcess),
            Place::Empty | Place::Warm(_) => None,
        }
    }

    async fn unsafe_to_fork(&self, newborn: &Newborn, mut about: bytes::Bytes) -> Option<String> {
        let pid = newborn.worker.pid();
        if about.try_get_u32().ok() != Some(pid) {
            return Some("its launcher gave it another process id".to_owned());
        }
        if !about.is_empty() {
            return Some(String::from_utf8_lossy(&about).into_owned());
        }
        unsafe_to_fork(pid, &newborn.known).await
    }
}

/// Forks a worker.
async fn fork(start: &Start<'_>, forker: &Forker) -> Result<Launched, NotForked> {
    let other = |error: StartError| io::Error::other(error.message);
    let (control, their_control) = pair()?;
    let (log, their_log) = pair()?;
    let (out, their_out) = output()?;
    let (err, their_err) = output()?;
    let (slots, theirs) = start.slots().map_err(other)?;
    let mut descriptors = vec![their_control, their_log, their_out, their_err];
    descriptors.extend(theirs);
    let forked = forker.fork(descriptors).await?;
    let group = forked.group();
    if let Some(separation) = Separation::of(start.config) {
        let process = group.number();
        tokio::task::spawn_blocking(move || separation.apply(process));
    }
    let mut newborn = start.newborn(Process::Forked(forked), group, control, log);
    newborn.reads(start, LogStream::Stdout, Some(out));
    newborn.reads(start, LogStream::Stderr, Some(err));
    let patience = FORK_PATIENCE.min(start.config.start_timeout);
    let (newborn, _) = newborn.ready(start, patience).await.map_err(other)?;
    Ok(newborn.serve(start, slots))
}

/// Lets the process that has imported the handler become the worker.
async fn serve(start: &Start<'_>, newborn: Newborn) -> Result<Launched, StartError> {
    let (slots, theirs) = start.slots()?;
    let order = Order::of(frame::SERVE).encode();
    let given = give(&newborn.control, &order, &theirs).await;
    given.map_err(host_error)?;
    drop(theirs);
    let (newborn, _) = newborn.ready(start, start.config.start_timeout).await?;
    Ok(newborn.serve(start, slots))
}
