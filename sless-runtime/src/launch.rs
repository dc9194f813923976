//! From a configuration to a worker that has imported its handler.

use std::ffi::OsString;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::assets;
use crate::config::{HostConfig, Language};
use crate::error::{Reason, StartError};
use crate::frame;
use crate::log::{LogStream, Tail};
use crate::output;
use crate::sandbox::Sandbox;
use crate::slot::Slot;
use crate::supervise::Message;
use crate::system::{Group, Inherited, Stream, double, numbers, pair, prepare, shut, signal_of, spawn};
use crate::worker::{Exit, Worker};
use crate::worker_log::WorkerLog;

const MAX_CONCURRENCY: usize = 1024;
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
pub(crate) async fn launch(
    config: &HostConfig,
    tail: &Arc<Tail>,
    supervisor: &mpsc::UnboundedSender<Message>,
) -> Result<Launched, StartError> {
    check(config)?;
    let host = |error: io::Error| {
        StartError::new(
            Reason::Host,
            format!("the worker could not be set up: {error}"),
        )
    };
    let program = assets::unpack(config.runtime_dir.as_deref()).map_err(host)?;
    let (mut control, theirs) = pair().map_err(host)?;
    let mut inherited = vec![theirs];
    let (log, theirs) = pair().map_err(host)?;
    inherited.push(theirs);
    let mut streams = Vec::with_capacity(config.concurrency);
    let mut doubles = Vec::new();
    for _ in 0..config.concurrency {
        let (stream, theirs) = pair().map_err(host)?;
        inherited.push(theirs);
        if config.language == Language::Node {
            doubles.push(double(&stream).map_err(host)?);
        }
        streams.push(stream);
    }

    let command = command(config, &program, &inherited);
    if config.sandbox != Sandbox::Off {
        assets::compile(&program, config).await;
    }
    let prepared =
        prepare(config, &program).map_err(|why| StartError::new(Reason::Config, why))?;
    let mut child = spawn(command, inherited, prepared)
        .await
        .map_err(|error| {
            let name = config.command_prefix.first().map_or_else(
                || config.interpreter().display().to_string(),
                |command| command.clone(),
            );
            let reason = match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => {
                    Reason::InterpreterMissing
                }
                _ => Reason::Host,
            };
            StartError::new(reason, format!("{name} could not be started: {error}"))
        })?;
    let Some(group) = Group::of(&child) else {
        return Err(host(io::Error::other("it has no process id")));
    };
    let worker = Arc::new(Worker::new(group, supervisor.clone()));

    let mut readers = JoinSet::new();
    let limit = config.limits.max_log_line_bytes;
    let log = WorkerLog::new(log, Arc::clone(tail), limit, config.concurrency);
    let log = Arc::new(log);
    readers.spawn(Arc::clone(&log).read());
    if let Some(out) = child.stdout.take() {
        readers.spawn(output::read_raw(
            out,
            LogStream::Stdout,
            Arc::clone(tail),
            limit,
        ));
    }
    if let Some(err) = child.stderr.take() {
        readers.spawn(output::read_raw(
            err,
            LogStream::Stderr,
            Arc::clone(tail),
            limit,
        ));
    }

    let guard = KillOnDrop(&worker);
    let first = timeout(config.start_timeout, first_word(&mut control)).await;
    let error = match first {
        Ok(Some(Ok(()))) => {
            std::mem::forget(guard);
            let tend = tend(
                child,
                Arc::clone(&worker),
                control,
                doubles,
                readers,
                Arc::clone(tail),
            );
            tokio::spawn(tend);
            let max_head = config.limits.max_response_head_bytes;
            let slot = |(number, stream)| {
                let log = (Arc::clone(&log), number);
                Slot::new(Arc::clone(&worker), stream, log, max_head)
            };
            let slots = streams.into_iter().enumerate().map(slot).collect();
            return Ok(Launched { worker, slots });
        }
        Ok(Some(Err(error))) => {
            // What it printed is on its way; it ends by itself.
            let _ = timeout(OUTPUT_PATIENCE, child.wait()).await;
            Some(error)
        }
        Ok(None) => None,
        Err(_) => Some(StartError::new(
            Reason::StartTimeout,
            format!(
                "the handler was not imported within {} s",
                config.start_timeout.as_secs_f64()
            ),
        )),
    };
    if error.is_none() {
        // It closed its control socket, so it ends or has ended; how, says its status.
        let _ = timeout(OUTPUT_PATIENCE, child.wait()).await;
    }
    worker.kill_group();
    let status = child.wait().await;
    worker.reaped();
    drain(&mut readers).await;
    let error = error.unwrap_or_else(|| {
        let exit = exit(status, tail);
        StartError::new(
            exit.reason,
            format!(
                "the worker ended before the handler was imported: {}",
                exit.message
            ),
        )
    });
    Err(error.with_tail(tail.text()))
}

fn check(config: &HostConfig) -> Result<(), StartError> {
    let wrong = |message: String| Err(StartError::new(Reason::Config, message));
    if !(1..=MAX_CONCURRENCY).contains(&config.concurrency) {
        return wrong(format!(
            "concurrency is {}; expected 1 to {MAX_CONCURRENCY}",
            config.concurrency
        ));
    }
    if !config.code_dir.is_dir() {
        return wrong(format!(
            "code_dir {} is no folder",
            config.code_dir.display()
        ));
    }
    match config.entrypoint.rsplit_once('.') {
        Some((module, function)) if !module.is_empty() && !function.is_empty() => {}
        _ => {
            return wrong(format!(
                "entrypoint {:?} is not of the form module.function",
                config.entrypoint
            ));
        }
    }
    let bad = |text: &str| text.contains('\0');
    if let Some(name) = config.env.iter().find_map(|(name, value)| {
        (name.is_empty() || name.contains('=') || bad(name) || bad(value)).then_some(name)
    }) {
        return wrong(format!("env has {name:?}, which is no variable"));
    }
    Ok(())
}

fn command(config: &HostConfig, program: &std::path::Path, inherited: &[Inherited]) -> Command {
    let mut line: Vec<OsString> = config.command_prefix.iter().map(OsString::from).collect();
    line.push(config.interpreter().into());
    match config.language {
        Language::Python => {
            // No user site, no site-packages of the system, nothing on the path but what we put
            // there. Unlike -I this leaves the PYTHON… variables of the function alone.
            line.extend(["-s", "-S", "-P", "-c"].map(OsString::from));
            line.push("import sys;sys.path.insert(0,sys.argv[1]);import sless_worker as w;w.main(sys.argv[2:])".into());
            line.push(program.into());
        }
        Language::Node => {
            if let Some(bytes) = config.memory_limit {
                line.push(format!("--max-old-space-size={}", (bytes >> 20).max(16)).into());
            }
            line.push(program.join("worker.js").into());
        }
    }
    line.push(config.entrypoint.as_str().into());
    line.push(config.code_dir.as_os_str().into());
    line.push(config.namespace.as_str().into());
    line.push(config.name.as_str().into());
    line.push(config.uid.as_str().into());
    line.push(config.limits.max_log_line_bytes.to_string().into());
    line.push(numbers(inherited).join(",").into());
    line.extend(config.dependency_dirs.iter().map(OsString::from));

    let mut line = line.into_iter();
    let mut command = Command::new(line.next().unwrap_or_default());
    command.args(line).current_dir(&config.code_dir).env_clear();
    command.env("PATH", &config.path);
    command
        .env("HOME", &config.temp_dir)
        .env("TMPDIR", &config.temp_dir);
    command.env("LANG", "C.UTF-8").env("PYTHONUNBUFFERED", "1");
    if config.language == Language::Node && !config.dependency_dirs.is_empty() {
        let mut path = OsString::new();
        for (at, folder) in config.dependency_dirs.iter().enumerate() {
            if at > 0 {
                path.push(":");
            }
            path.push(folder);
        }
        command.env("NODE_PATH", path);
    }
    command.envs(&config.env);
    command.env("SLESS_FUNCTION", &config.name);
    command.env("SLESS_NAMESPACE", &config.namespace);
    command.env("SLESS_ENTRYPOINT", &config.entrypoint);
    command.env("SLESS_INSTANCE", &config.instance);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

struct KillOnDrop<'a>(&'a Worker);

impl Drop for KillOnDrop<'_> {
    fn drop(&mut self) {
        self.0.kill_group();
    }
}

/// READY, REFUSED, or nothing when the worker ends before it says either.
async fn first_word(control: &mut Stream) -> Option<Result<(), StartError>> {
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
            Ok(Some((header, _))) if header.kind == frame::READY => return Some(Ok(())),
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
    mut child: Child,
    worker: Arc<Worker>,
    control: Stream,
    doubles: Vec<Inherited>,
    mut readers: JoinSet<()>,
    tail: Arc<Tail>,
) {
    let status = child.wait().await;
    worker.reaped();
    for double in &doubles {
        shut(double);
    }
    drain(&mut readers).await;
    worker.ended(exit(status, &tail));
    drop(control);
}

/// Waits until all output has been read.
async fn drain(readers: &mut JoinSet<()>) {
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
