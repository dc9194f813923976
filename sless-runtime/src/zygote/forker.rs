//! The process that forks, and the processes that it has forked.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use std::os::unix::process::ExitStatusExt as _;

use tokio::io::AsyncReadExt;
use tokio::process::Child;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use crate::frame::{self, Order};
use crate::launch::drain;
use crate::system::{Group, Inherited, Pidfd, Stop, Stream, give, kill_strays};
use crate::worker::Worker;

/// How long a zygote may take over one order: a fork takes about a millisecond.
const ORDER_PATIENCE: Duration = Duration::from_secs(5);

/// A handle on a zygote. It ends when the last handle is dropped, those that forked workers hold
/// included: it is their parent, and reaps them.
#[derive(Debug, Clone)]
pub(super) struct Forker(mpsc::UnboundedSender<Command>);

/// At most one of each kind waits for each worker.
#[derive(Debug)]
enum Command {
    Fork {
        descriptors: Vec<Inherited>,
        reply: oneshot::Sender<io::Result<Forked>>,
    },
    Reap {
        process: i32,
        reply: oneshot::Sender<ExitStatus>,
    },
}

impl Forker {
    pub(super) fn new(
        child: Child,
        control: Stream,
        readers: JoinSet<()>,
    ) -> (Self, JoinHandle<()>) {
        let (sender, commands) = mpsc::unbounded_channel();
        let tended = tokio::spawn(tend(child, control, readers, sender.downgrade(), commands));
        (Self(sender), tended)
    }

    pub(super) fn is_alive(&self) -> bool {
        !self.0.is_closed()
    }

    /// Forks a worker with these descriptors. Dropping the future kills it.
    pub(super) async fn fork(&self, descriptors: Vec<Inherited>) -> Result<Forked, NotForked> {
        let (reply, forked) = oneshot::channel();
        let sent = self.0.send(Command::Fork { descriptors, reply });
        sent.map_err(|_| NotForked::Gone)?;
        Ok(forked.await.map_err(|_| NotForked::Gone)??)
    }
}

/// Why there is no forked worker.
#[derive(Debug)]
pub(super) enum NotForked {
    /// The zygote has ended, or is about to.
    Gone,
    /// It could not, or its copy could not go on.
    Failed(io::Error),
}

impl From<io::Error> for NotForked {
    fn from(error: io::Error) -> Self {
        NotForked::Failed(error)
    }
}

fn gone() -> io::Error {
    io::Error::other("the process that forks has ended")
}

/// Obeys until nobody holds the zygote any more, or it ends by itself, when its copies go on.
async fn tend(
    mut child: Child,
    mut control: Stream,
    mut readers: JoinSet<()>,
    handle: mpsc::WeakUnboundedSender<Command>,
    mut commands: mpsc::UnboundedReceiver<Command>,
) {
    let group = Group::of(&child);
    let mut copies = 0_usize;
    loop {
        let command = tokio::select! {
            command = commands.recv() => command,
            _ = child.wait() => break,
        };
        let Some(command) = command else {
            // It has no copies any more. Whatever they have left behind goes too.
            if let Some(group) = group {
                group.stop(Stop::Kill);
            }
            break;
        };
        let ends = matches!(command, Command::Reap { .. });
        if obey(&mut control, &handle, command, &mut copies)
            .await
            .is_err()
        {
            break;
        }
        if ends
            && copies == 0
            && let Some(group) = group
        {
            // What copies have started outside their groups, where it can be told from others.
            kill_strays(group.number());
        }
    }
    // From here on nobody takes it for alive.
    drop(commands);
    let _ = child.start_kill();
    let _ = child.wait().await;
    drain(&mut readers).await;
}

/// An error means that the zygote is of no use any more.
async fn obey(
    control: &mut Stream,
    handle: &mpsc::WeakUnboundedSender<Command>,
    command: Command,
    copies: &mut usize,
) -> io::Result<()> {
    match command {
        Command::Fork { descriptors, reply } => {
            let order = Order::of(frame::FORK);
            let process = ask(control, order, descriptors, frame::FORKED)
                .await?
                .process;
            if process < 0 {
                let _ = reply.send(Err(io::Error::from_raw_os_error(-process)));
                return Ok(());
            }
            let group = Group::numbered(process.unsigned_abs());
            let group = group.ok_or_else(|| io::Error::other("a process without a number"))?;
            let forked = match (Pidfd::open(group), handle.upgrade()) {
                (Ok(pidfd), Some(forker)) => {
                    *copies += 1;
                    Ok(Forked {
                        group,
                        process,
                        pidfd,
                        forker: Forker(forker),
                        reaping: Reaping::Not,
                    })
                }
                (pidfd, _) => {
                    group.stop(Stop::Kill);
                    reap(control, process).await?;
                    Err(pidfd.err().unwrap_or_else(gone))
                }
            };
            // Where nobody waits any more it is dropped, and so killed.
            let _ = reply.send(forked);
        }
        Command::Reap { process, reply } => {
            let status = reap(control, process).await?;
            *copies = copies.saturating_sub(1);
            let _ = reply.send(status);
        }
    }
    Ok(())
}

async fn reap(control: &mut Stream, process: i32) -> io::Result<ExitStatus> {
    let order = Order {
        process,
        ..Order::of(frame::REAP)
    };
    let answer = ask(control, order, Vec::new(), frame::REAPED).await?;
    Ok(ExitStatus::from_raw(answer.status))
}

async fn ask(
    control: &mut Stream,
    order: Order,
    descriptors: Vec<Inherited>,
    kind: u8,
) -> io::Result<Order> {
    let answer = async {
        give(control, &order.encode(), &descriptors).await?;
        drop(descriptors);
        let mut bytes = [0; Order::LENGTH];
        control.read_exact(&mut bytes).await?;
        Order::decode(&bytes).map_err(io::Error::other)
    };
    let answer = timeout(ORDER_PATIENCE, answer).await??;
    if answer.kind == kind {
        Ok(answer)
    } else {
        Err(io::Error::other("a frame of an unknown kind"))
    }
}

/// A process that a zygote forked. Dropped, it is killed and reaped.
#[derive(Debug)]
pub(crate) struct Forked {
    group: Group,
    process: i32,
    pidfd: Pidfd,
    forker: Forker,
    reaping: Reaping,
}

#[derive(Debug)]
enum Reaping {
    Not,
    Asked(oneshot::Receiver<ExitStatus>),
    Done(Option<ExitStatus>),
}

impl Forked {
    pub(crate) fn group(&self) -> Group {
        self.group
    }

    /// As `Process::wait`. The status of a process whose zygote has ended first is lost, unless the
    /// system has made it a child of ours.
    pub(crate) async fn wait(&mut self, worker: &Worker) -> io::Result<ExitStatus> {
        loop {
            match &mut self.reaping {
                Reaping::Not => {
                    self.pidfd.ended().await;
                    // Before it is reaped: until then its number is nobody else's.
                    worker.reaped();
                    self.reaping = Reaping::Asked(self.reap());
                }
                Reaping::Asked(status) => {
                    let status = status.await.ok();
                    self.reaping = Reaping::Done(status.or_else(|| self.pidfd.adopted()));
                }
                Reaping::Done(status) => return status.ok_or_else(gone),
            }
        }
    }

    fn reap(&self) -> oneshot::Receiver<ExitStatus> {
        let (reply, status) = oneshot::channel();
        let process = self.process;
        // It fails where the zygote has ended, and then the receiver says so.
        let _ = self.forker.0.send(Command::Reap { process, reply });
        status
    }
}

impl Drop for Forked {
    fn drop(&mut self) {
        if matches!(self.reaping, Reaping::Not) {
            self.group.stop(Stop::Kill);
            drop(self.reap());
        }
    }
}
