//! From a configuration to a worker that has imported its handler.

use std::io;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Child;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::assets;
use crate::command::{check, command};
use crate::config::{HostConfig, Language};
use crate::error::{Reason, StartError};
use crate::frame;
use crate::log::{LogStream, Tail};
use crate::output;
use crate::process::Process;
use crate::sandbox::Sandbox;
use crate::slot::Slot;
use crate::supervise::Message;
use crate::system::{
    Group, Inherited, Stream, double, numbers, pair, prepare, shut, signal_of, spawn,
};
use crate::worker::{Exit, Worker};
use crate::worker_log::WorkerLog;
use crate::zygote::Zygote;

/// A reason and a message: a worker cuts the message itself.
const MAX_CONTROL_FRAME: usize = 64 * 1024;
/// What a dead worker wrote is read for so long; a process that left the group may hold the
/// pipes open forever.
const OUTPUT_PATIENCE: Duration = Duration::from_millis(500);

/// A worker that is ready for calls.
#[derive(Debug)]
pub(crate) struct Launched {
    pub(crate) worker: Arc<Worker>,
    pub(crate) slots: Vec<Slot>,
}

/// Starts a worker and waits until it has imported the handler. Dropping the future kills it.
///
/// Where there is a zygote, the worker is forked from it, if that is safe.
pub(crate) async fn launch(
    config: &HostConfig,
    tail: &Arc<Tail>,
    supervisor: &mpsc::UnboundedSender<Message>,
    zygote: Option<&Zygote>,
) -> Result<Launched, StartError> {
    check(config)?;
    let start = Start {
        config,
        tail,
        supervisor,
    };
    match zygote {
        Some(zygote) => zygote.launch(&start).await,
        None => start.own_process().await,
    }
}

/// What is to be started, and for whom.
#[derive(Debug)]
pub(crate) struct Start<'a> {
    pub(crate) config: &'a HostConfig,
    pub(crate) tail: &'a Arc<Tail>,
    supervisor: &'a mpsc::UnboundedSender<Message>,
}

pub(crate) fn host_error(error: io::Error) -> StartError {
    StartError::new(
        Reason::Host,
        format!("the worker could not be set up: {error}"),
    )
}

impl Start<'_> {
    /// Starts a worker that imports the handler itself.
    pub(crate) async fn own_process(&self) -> Result<Launched, StartError> {
        let (slots, theirs) = self.slots()?;
        let newborn = self.interpreter(theirs).await?;
        let (newborn, _) = newborn.ready(self, self.config.start_timeout).await?;
        Ok(newborn.serve(self, slots))
    }

    /// Our ends of the slots' sockets, and the worker's.
    pub(crate) fn slots(&self) -> Result<(Slots, Vec<Inherited>), StartError> {
        let mut slots = Slots::default();
        let mut theirs = Vec::with_capacity(self.config.concurrency);
        for _ in 0..self.config.concurrency {
            let (stream, end) = pair().map_err(host_error)?;
            theirs.push(end);
            if self.config.language == Language::Node {
                slots.doubles.push(double(&stream).map_err(host_error)?);
            }
            slots.streams.push(stream);
        }
        Ok((slots, theirs))
    }

    /// Starts the interpreter with these slots; with none it becomes a zygote.
    pub(crate) async fn interpreter(&self, slots: Vec<Inherited>) -> Result<Newborn, StartError> {
        let config = self.config;
        let program = assets::unpack(config.runtime_dir.as_deref()).map_err(host_error)?;
        let (control, theirs) = pair().map_err(host_error)?;
        let mut inherited = vec![theirs];
        let (log, theirs) = pair().map_err(host_error)?;
        inherited.push(theirs);
        let known = numbers(&inherited);
        inherited.extend(slots);
        let command = command(config, &program, &inherited);
        if config.sandbox != Sandbox::Off {
            assets::compile(&program, config).await;
        }
        let prepared =
            prepare(config, &program).map_err(|why| StartError::new(Reason::Config, why))?;
        let mut child = spawn(command, inherited, prepared)
            .await
            .map_err(|error| not_started(config, &error))?;
        let Some(group) = Group::of(&child) else {
            return Err(host_error(io::Error::other("it has no process id")));
        };
        let output = (child.stdout.take(), child.stderr.take());
        let mut newborn = self.newborn(Process::Own(child), group, control, log);
        newborn.known = known;
        let (out, err) = output;
        newborn.reads(self, LogStream::Stdout, out);
        newborn.reads(self, LogStream::Stderr, err);
        Ok(newborn)
    }

    /// A process that was just started, with our ends of its control and log sockets.
    pub(crate) fn newborn(
        &self,
        process: Process,
        group: Group,
        control: Stream,
        log: Stream,
    ) -> Newborn {
        let worker = Arc::new(Worker::new(group, self.supervisor.clone()));
        let limit = self.config.limits.max_log_line_bytes;
        let log = WorkerLog::new(log, Arc::clone(self.tail), limit, self.config.concurrency);
        let log = Arc::new(log);
        let mut readers = JoinSet::new();
        readers.spawn(Arc::clone(&log).read());
        Newborn {
            process,
            guard: KillOnDrop(Some(Arc::clone(&worker))),
            worker,
            control,
            log,
            readers,
            known: Vec::new(),
        }
    }
}

fn not_started(config: &HostConfig, error: &io::Error) -> StartError {
    let name = config.command_prefix.first().map_or_else(
        || config.interpreter().display().to_string(),
        |command| command.clone(),
    );
    let reason = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => Reason::InterpreterMissing,
        _ => Reason::Host,
    };
    StartError::new(reason, format!("{name} could not be started: {error}"))
}

/// Our ends of slots, and doubles of them where the language needs some.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    streams: Vec<Stream>,
    doubles: Vec<Inherited>,
}

/// A process that has not imported the handler yet, or not said so. Dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Newborn {
    pub(crate) process: Process,
    pub(crate) worker: Arc<Worker>,
    guard: KillOnDrop,
    pub(crate) control: Stream,
    log: Arc<WorkerLog>,
    pub(crate) readers: JoinSet<()>,
    /// The numbers of the descriptors that it was given beside the standard ones and slots.
    pub(crate) known: Vec<String>,
}

impl Newborn {
    /// Reads what it writes past its log socket.
    pub(crate) fn reads(
        &mut self,
        start: &Start<'_>,
        stream: LogStream,
        from: Option<impl AsyncRead + Unpin + Send + 'static>,
    ) {
        if let Some(from) = from {
            let limit = start.config.limits.max_log_line_bytes;
            let tail = Arc::clone(start.tail);
            self.readers
                .spawn(output::read_raw(from, stream, tail, limit));
        }
    }

    /// Waits until it has imported the handler, and answers what it says of itself. Where it has not,
    /// nothing is left of it.
    pub(crate) async fn ready(
        mut self,
        start: &Start<'_>,
        patience: Duration,
    ) -> Result<(Self, Bytes), StartError> {
        let error = match timeout(patience, first_word(&mut self.control)).await {
            Ok(Some(Ok(about))) => return Ok((self, about)),
            Ok(Some(Err(error))) => Some(error),
            Ok(None) => None,
            Err(_) => Some(StartError::new(
                Reason::StartTimeout,
                format!(
                    "the handler was not imported within {} s",
                    patience.as_secs_f64()
                ),
            )),
        };
        let ends_itself = error
            .as_ref()
            .is_none_or(|error| error.reason != Reason::StartTimeout);
        if ends_itself {
            // It has said why, or closed its control socket: what it printed is on its way, and how it
            // ended says its status.
            let _ = timeout(OUTPUT_PATIENCE, self.process.wait(&self.worker)).await;
        }
        self.worker.kill_group();
        let status = self.process.wait(&self.worker).await;
        drain(&mut self.readers).await;
        let error = error.unwrap_or_else(|| {
            let exit = exit(status, start.tail);
            StartError::new(
                exit.reason,
                format!(
                    "the worker ended before the handler was imported: {}",
                    exit.message
                ),
            )
        });
        Err(error.with_tail(start.tail.text()))
    }

    /// It has imported the handler, and takes calls from now on.
    pub(crate) fn serve(self, start: &Start<'_>, slots: Slots) -> Launched {
        let Slots { streams, doubles } = slots;
        let (worker, log) = (self.worker, self.log);
        self.guard.disarm();
        let tend = tend(
            self.process,
            Arc::clone(&worker),
            self.control,
            doubles,
            self.readers,
            Arc::clone(start.tail),
        );
        tokio::spawn(tend);
        let max_head = start.config.limits.max_response_head_bytes;
        let slot = |(number, stream)| {
            let log = (Arc::clone(&log), number);
            Slot::new(Arc::clone(&worker), stream, log, max_head)
        };
        let slots = streams.into_iter().enumerate().map(slot).collect();
        Launched { worker, slots }
    }

    /// The process itself, for somebody who tends it.
    #[cfg(target_os = "linux")]
    pub(crate) fn into_child(self) -> Option<(Child, Stream, JoinSet<()>)> {
        match self.process {
            Process::Own(child) => {
                self.guard.disarm();
                Some((child, self.control, self.readers))
            }
            Process::Forked(_) => None,
        }
    }
}

/// Kills a process that nobody waits for any more.
#[derive(Debug)]
struct KillOnDrop(Option<Arc<Worker>>);

impl KillOnDrop {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let Some(worker) = &self.0 {
            worker.kill_group();
        }
    }
}

/// READY, REFUSED, or nothing when the worker ends before it says either.
async fn first_word(control: &mut Stream) -> Option<Result<Bytes, StartError>> {
    let protocol = |error: frame::Malformed| {
        StartError::new(
            Reason::Host,
            format!("the worker broke the protocol: {error}"),
        )
    };
    let mut buffer = BytesMut::new();
    loop {
        match frame::take_frame(&mut buffer, MAX_CONTROL_FRAME) {
            Ok(None) => {}
            Ok(Some((header, about))) if header.kind == frame::READY => return Some(Ok(about)),
            Ok(Some((header, payload))) if header.kind == frame::REFUSED => {
                return Some(Err(match frame::word_and_rest(&payload) {
                    Ok((word, message)) => StartError::new(refusal(&word), message),
                    Err(error) => protocol(error),
                }));
            }
            Ok(Some(_)) => {
                return Some(Err(protocol(frame::Malformed(
                    "a frame of an unknown kind",
                ))));
            }
            Err(error) => return Some(Err(protocol(error))),
        }
        if !matches!(control.read_buf(&mut buffer).await, Ok(1..)) {
            return None;
        }
    }
}

fn refusal(word: &str) -> Reason {
    match word {
        "handler_signature" => Reason::HandlerSignature,
        "handler_missing" => Reason::HandlerMissing,
        "out_of_memory" => Reason::OutOfMemory,
        _ => Reason::HandlerImport,
    }
}

/// Waits for a worker's end and tells it. Holds the control socket, whose end the worker takes as
/// the order to end, and doubles of the slots' sockets: Node cannot keep its subprocesses from
/// inheriting the other ends, so that a subprocess may hold them open after its death.
async fn tend(
    mut process: Process,
    worker: Arc<Worker>,
    control: Stream,
    doubles: Vec<Inherited>,
    mut readers: JoinSet<()>,
    tail: Arc<Tail>,
) {
    let status = process.wait(&worker).await;
    for double in &doubles {
        shut(double);
    }
    drain(&mut readers).await;
    worker.ended(exit(status, &tail));
    drop(control);
}

/// Waits until all output has been read.
pub(crate) async fn drain(readers: &mut JoinSet<()>) {
    let all = async { while readers.join_next().await.is_some() {} };
    if timeout(OUTPUT_PATIENCE, all).await.is_err() {
        readers.abort_all();
    }
}

fn exit(status: io::Result<ExitStatus>, tail: &Tail) -> Exit {
    let message = match &status {
        Ok(status) => match (status.code(), signal_of(*status)) {
            (Some(code), _) => format!("it exited with status {code}"),
            (None, Some(signal)) => format!("it was killed by signal {signal}"),
            (None, None) => "it ended in an unknown way".to_owned(),
        },
        Err(error) => format!("its status is unknown: {error}"),
    };
    // V8 aborts when its heap is full, and Python ends with MemoryError.
    let tail = tail.text();
    let starved = status.is_ok_and(|status| !status.success())
        && ["heap out of memory", "MemoryError"]
            .iter()
            .any(|text| tail.contains(text));
    let reason = if starved {
        Reason::OutOfMemory
    } else {
        Reason::Crash
    };
    Exit { reason, message }
}
