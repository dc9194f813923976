//! The host of one function.

use std::error::Error as StdError;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::body::Body;
use crate::call::call;
use crate::config::HostConfig;
use crate::error::{CallError, Reason, StartError};
use crate::launch::launch;
use crate::log::{LogSink, Tail};
use crate::pool::{Pool, Refusal};
use crate::supervise::{Message, Shared, supervise};
use crate::zygote::Zygote;

/// What a call brings along beside its request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallContext {
    /// Names the call in the handler's context and on its log lines. At most 256 bytes are used.
    pub request_id: String,
    /// The call's time, queue included, when it is shorter than
    /// [`HostConfig::timeout`](crate::HostConfig::timeout).
    pub timeout: Option<Duration>,
    /// Where the end of what the call writes to its log goes, if somebody wants it.
    pub log_tail: Option<LogTail>,
}

/// Takes the newest lines of one call, oldest first, each with its line end.
///
/// It is filled, at most once, before the answer's body ends or breaks off, or before
/// [`Host::call`] fails; never where the call wrote nothing. Lines that a handler's own threads write
/// later, and those of subprocesses, which nobody can tell apart, are in the log only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogTail {
    /// Where the text goes.
    pub cell: Arc<OnceLock<String>>,
    /// The most bytes of it.
    pub limit: usize,
}

impl CallContext {
    /// A call with this request id and the configured timeout.
    pub fn new(request_id: impl Into<String>) -> Self {
        Self {
            request_id: request_id.into(),
            timeout: None,
            log_tail: None,
        }
    }

    /// With a place for the end of what the call writes to its log, at most `limit` bytes.
    pub fn with_log_tail(mut self, cell: Arc<OnceLock<String>>, limit: usize) -> Self {
        self.log_tail = Some(LogTail { cell, limit });
        self
    }

    /// With a shorter timeout.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

/// Whether calls are taken.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostState {
    /// A worker has imported the handler.
    Ready,
    /// The worker ended or is being replaced; calls wait in the queue.
    Restarting {
        /// Why the last worker is gone.
        reason: Reason,
        /// One sentence.
        message: String,
    },
    /// The worker ended several times in a row; calls are refused until one stays. The host goes
    /// on trying, with pauses.
    Failing {
        /// `crash_loop`, or the reason of the last failed start.
        reason: Reason,
        /// One sentence.
        message: String,
        /// The newest log lines.
        log_tail: String,
        /// When the next try begins.
        next_try: SystemTime,
    },
    /// New calls are refused, those in flight go on.
    Draining,
    /// No worker is there and none will be.
    Stopped,
}

impl HostState {
    /// Whether a call that comes now can run.
    pub fn is_ready(&self) -> bool {
        matches!(self, HostState::Ready)
    }
}

/// Runs one function: keeps a worker process with its handler imported, gives it calls, and
/// replaces it when it ends or a call overruns.
///
/// One task supervises the worker, one waits for its end and three read its output; they end
/// with the host. Dropping the host kills the worker and all processes of its group at once;
/// [`Host::drain`] first is the gentle way. A response body that is still being read then breaks
/// off with [`CallError::WorkerDied`].
#[derive(Debug)]
pub struct Host {
    shared: Arc<Shared>,
    supervision: JoinHandle<()>,
}

impl Host {
    /// Starts the worker and answers when its handler has been imported and its signature
    /// checked.
    ///
    /// Must be called within a Tokio runtime with time and I/O; the host's tasks run there.
    /// Dropping the future kills the worker.
    pub async fn start(config: HostConfig, log_sink: Arc<dyn LogSink>) -> Result<Host, StartError> {
        Self::launch(config, log_sink, None).await
    }

    /// As [`Host::start`], with all workers of the host forked from a process that has imported the
    /// handler, where that is safe. All hosts of a zygote have the same configuration.
    ///
    /// What the import writes goes to the sink of the host that filled the place, once for all workers
    /// that are forked. An import that fails, fails as it does without.
    pub async fn start_from(
        zygote: Arc<Zygote>,
        config: HostConfig,
        log_sink: Arc<dyn LogSink>,
    ) -> Result<Host, StartError> {
        Self::launch(config, log_sink, Some(zygote)).await
    }

    async fn launch(
        config: HostConfig,
        log_sink: Arc<dyn LogSink>,
        zygote: Option<Arc<Zygote>>,
    ) -> Result<Host, StartError> {
        let limits = &config.limits;
        let tail = Tail::new(log_sink, limits.log_tail_bytes);
        let tail = Arc::new(tail.paced(limits.log_bytes_per_second, limits.log_burst_bytes));
        let (supervisor, messages) = mpsc::unbounded_channel();
        let launched = launch(&config, &tail, &supervisor, zygote.as_deref()).await?;
        let pool = Arc::new(Pool::new(config.limits.queue_length, Handle::current()));
        let shared = Arc::new(Shared::new(config, tail, pool, supervisor, zygote));
        let first = shared.admit(launched);
        let supervision = tokio::spawn(supervise(Arc::clone(&shared), first.id, messages));
        Ok(Host {
            shared,
            supervision,
        })
    }

    /// Runs one call.
    ///
    /// Waits for a free slot in order of arrival, then for the head of the handler's answer. The
    /// request's body is sent while the handler runs and the answer's body is given as it comes,
    /// both in constant memory.
    ///
    /// Dropping the future, or the body of the response before its end, tells the handler that
    /// the client has left: an async handler is cancelled, `context.cancelled` becomes true, a
    /// generator is closed. The slot is free when the handler has let go of it, at the latest at
    /// the call's deadline, when the worker is replaced.
    pub async fn call<B>(
        &self,
        request: http::Request<B>,
        context: CallContext,
    ) -> Result<http::Response<Body>, CallError>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn StdError + Send + Sync>>,
    {
        call(&self.shared, request, context).await
    }

    /// Calls that have a slot, those that the client has left included.
    pub fn in_flight(&self) -> usize {
        self.shared.pool.in_flight()
    }

    /// Calls that wait for a slot.
    pub fn queued(&self) -> usize {
        self.shared.pool.queued()
    }

    /// When a call last began or ended; the start of the host when there was none.
    pub fn last_activity(&self) -> Instant {
        self.shared.pool.last_activity().into_std()
    }

    /// What the host was started with.
    pub fn config(&self) -> &HostConfig {
        &self.shared.config
    }

    /// The state now.
    pub fn state(&self) -> HostState {
        self.shared.state.borrow().clone()
    }

    /// The state now and each change. A receiver that is slow sees only the newest.
    pub fn changes(&self) -> watch::Receiver<HostState> {
        self.shared.state.subscribe()
    }

    /// The worker's process id, while there is one; it leads a process group of the same number.
    pub fn worker_pid(&self) -> Option<u32> {
        self.shared.workers().last().map(|worker| worker.pid())
    }

    /// The newest log lines, at most
    /// [`Limits::log_tail_bytes`](crate::Limits::log_tail_bytes).
    pub fn log_tail(&self) -> String {
        self.shared.tail.text()
    }

    /// Stops: refuses new calls, lets queued and running ones end for at most `patience`, sends
    /// SIGTERM, and after [`HostConfig::stop_grace`](crate::HostConfig::stop_grace) SIGKILL to
    /// the whole process group. Answers when no worker is left.
    ///
    /// May be repeated; all callers wait for the same end, with the shortest patience. Dropping
    /// the future does not take the stop back.
    pub async fn drain(&self, patience: Duration) {
        let until = tokio::time::Instant::now() + patience;
        // It fails when the supervision has ended, and then the state says so.
        let _ = self.shared.supervisor.send(Message::Drain(until));
        let mut state = self.shared.state.subscribe();
        let _ = state.wait_for(|state| *state == HostState::Stopped).await;
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.supervision.abort();
        self.shared.pool.refuse(Refusal::Stopped);
        self.shared.pool.turn_away(&Refusal::Stopped);
        for worker in self.shared.workers() {
            worker.retire();
            self.shared.pool.purge(&worker);
            worker.kill_group();
        }
        self.shared.state.send_replace(HostState::Stopped);
    }
}
