//! Workers that are forked from a process that has imported the handler already.

#[cfg(target_os = "linux")]
mod forker;
#[cfg(target_os = "linux")]
mod safety;
#[cfg(target_os = "linux")]
mod warm;

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::config::{HostConfig, Language};
#[cfg(not(target_os = "linux"))]
use crate::error::StartError;
#[cfg(not(target_os = "linux"))]
use crate::launch::{Launched, Start};

#[cfg(target_os = "linux")]
pub(crate) use self::forker::Forked;
#[cfg(target_os = "linux")]
use self::warm::Warm;

/// A place for a process that has imported a function's handler, and from which workers are forked
/// ([`Host::start_from`](crate::Host::start_from)): in about a millisecond, and with all memory shared
/// that neither side has written to since.
///
/// It is for one configuration: code, entrypoint and environment of all hosts that use it are the same.
/// It is empty at first; the first host that starts from it fills it. The process ends once the place is
/// dropped or emptied by [`Zygote::end`] and the last worker that was forked from it has ended. Where it
/// ends before, its workers go on, and the next start fills the place anew. A server that dies takes all
/// of them along.
///
/// # When no worker is forked
/// A fork shares what the import made, so that it must be the process's own and at rest. Each worker is a
/// process of its own, as without a zygote, where after the import
/// - a thread runs, be it one of Python's or of a library's (OpenBLAS: set `OPENBLAS_NUM_THREADS=1`);
/// - anything is open beside the standard streams: a socket, a file, a pipe, an event loop, a database;
/// - a process that was started has not ended, memory is shared with others, a timer runs, or `SIGCHLD` is
///   taken care of;
/// - a temporary file or folder was made, which the first worker's end might remove for all;
/// - the handler says so: `handle.own_process = True`.
///
/// So it is too for Node, for more than 249 calls at once in one worker, behind a launcher that gives the
/// worker a process id of another namespace, and on systems other than Linux.
/// [`Zygote::own_process`] says which of these it was. No state that only the handler knows of is seen: a
/// value that is drawn at random or read from the clock during the import is the same in all workers.
/// `random` and `numpy.random` are seeded anew in each; `os.urandom`, `secrets`, `uuid4` and `ssl` need no
/// seed; generators that the handler made itself go on alike. In the [`Sandbox`](crate::Sandbox) workers
/// of one zygote share `/tmp` and `/dev/shm`, which last as long as it does, and see no `/proc/self`.
#[derive(Debug, Default)]
pub struct Zygote {
    place: Mutex<Place>,
    /// Held while the place is filled, so that starts at once fill it once.
    filling: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
enum Place {
    #[default]
    Empty,
    #[cfg(target_os = "linux")]
    Warm(Warm),
    /// No worker can be forked, and why.
    Refused(String),
}

impl Zygote {
    /// An empty place.
    pub fn new() -> Self {
        Self::default()
    }

    /// Why workers are processes of their own. `None` where they are forked, and before the first start.
    pub fn own_process(&self) -> Option<String> {
        match &*self.place() {
            Place::Refused(why) => Some(why.clone()),
            _ => None,
        }
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refuse(&self, why: impl Into<String>) {
        *self.place() = Place::Refused(why.into());
    }

    /// Why no worker of this configuration can be forked, whatever its handler does.
    fn unfit(config: &HostConfig) -> Option<String> {
        if !cfg!(target_os = "linux") {
            return Some("this system is not Linux".to_owned());
        }
        if config.language != Language::Python {
            return Some("only Python's workers are forked".to_owned());
        }
        let most = MOST_SLOTS;
        (config.concurrency > most).then(|| format!("concurrency is more than {most}"))
    }
}

/// The descriptors that a worker gets beside its slots: control, log, standard output and error.
const OTHER_DESCRIPTORS: usize = 4;
#[cfg(target_os = "linux")]
const MOST_SLOTS: usize = crate::system::MAX_DESCRIPTORS - OTHER_DESCRIPTORS;
#[cfg(not(target_os = "linux"))]
const MOST_SLOTS: usize = OTHER_DESCRIPTORS;

#[cfg(not(target_os = "linux"))]
impl Zygote {
    /// The process id, while there is one.
    pub fn pid(&self) -> Option<u32> {
        None
    }

    /// Empties the place.
    pub async fn end(&self) {
        *self.place() = Place::Empty;
    }

    pub(crate) async fn launch(&self, start: &Start<'_>) -> Result<Launched, StartError> {
        let _filling = self.filling.lock().await;
        if let Some(why) = Self::unfit(start.config) {
            self.refuse(why);
        }
        start.own_process().await
    }
}
