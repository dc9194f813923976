//! Commands that are run to their end.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use sless_core::{Clock, LogSource};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, BufReader},
    process::{Child, Command},
};

use super::kill::kill_group;
use crate::{logs::LogWriter, points, sandbox::Confined};

/// A command with its own environment, in a process group of its own.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) folder: PathBuf,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) confined: Option<Confined>,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// By itself, with the end of what it wrote.
    Exited { status: ExitStatus, tail: String },
    /// It took too long and was killed.
    TimedOut { tail: String },
    /// It could not be started.
    NotStarted(std::io::Error),
}

/// The longest line of a log, in bytes.
const LINE_BYTES: usize = 16 * 1024;

/// How much of the end of a log is kept for errors, in bytes.
const TAIL_BYTES: usize = 4 * 1024;

impl Program {
    pub(crate) fn new(program: impl Into<PathBuf>, folder: &Path) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            folder: folder.to_owned(),
            env: BTreeMap::new(),
            confined: None,
        }
    }

    pub(crate) fn arguments<S: Into<String>>(
        mut self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    pub(crate) fn env(mut self, env: BTreeMap<String, String>) -> Self {
        self.env.extend(env);
        self
    }

    pub(crate) fn confined(mut self, confined: Option<Confined>) -> Self {
        self.confined = confined;
        self
    }

    /// Runs the command for at most `limit`, writing what it says into a log. Dropping the future
    /// kills it, and everything that it started.
    pub(crate) async fn run(&self, clock: &dyn Clock, limit: Duration, log: &LogWriter) -> Ended {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .current_dir(&self.folder)
            .env_clear()
            .envs(&self.env)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let confining = self.confined.as_ref();
        let confining = confining.map(|it| it.command.confine(&mut command, &it.confinement));
        let confining = match confining.transpose() {
            Ok(confining) => confining,
            Err(why) => return Ended::NotStarted(std::io::Error::other(why)),
        };
        points::INSTALL_BEFORE.pass();
        let started = command.spawn();
        let started = match confining {
            Some(confining) => confining.started(command, started),
            None => started,
        };
        let mut child = match started {
            Ok(child) => child,
            Err(error) => return Ended::NotStarted(error),
        };
        let group = Group(child.id());
        points::INSTALL_AFTER.pass();
        let tail = Mutex::new(String::new());
        let ran = tokio::select! {
            status = read_and_wait(&mut child, log, &tail) => Some(status),
            () = clock.sleep(limit) => None,
        };
        drop(group);
        let tail = tail.into_inner().unwrap_or_else(PoisonError::into_inner);
        match ran {
            Some(Ok(status)) => Ended::Exited { status, tail },
            Some(Err(error)) => Ended::NotStarted(error),
            None => Ended::TimedOut { tail },
        }
    }
}

/// Copies both outputs to the log until the command and all that hold its outputs have ended.
async fn read_and_wait(
    child: &mut Child,
    log: &LogWriter,
    tail: &Mutex<String>,
) -> std::io::Result<ExitStatus> {
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let copied = futures::future::join(copy(out, log, tail), copy(err, log, tail));
    let (status, _) = futures::future::join(child.wait(), copied).await;
    status
}

/// Copies an output line by line; a line that is too long becomes several.
async fn copy(output: Option<impl AsyncRead + Unpin>, log: &LogWriter, tail: &Mutex<String>) {
    let Some(output) = output else { return };
    let mut reader = BufReader::with_capacity(LINE_BYTES, output);
    let mut line = Vec::new();
    // An error of the pipe is its end.
    while let Ok(chunk) = reader.fill_buf().await {
        if chunk.is_empty() {
            break;
        }
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let taken = end
            .map_or(chunk.len(), |end| end + 1)
            .min(LINE_BYTES - line.len());
        line.extend_from_slice(&chunk[..taken]);
        reader.consume(taken);
        if line.ends_with(b"\n") || line.len() == LINE_BYTES {
            write(&mut line, log, tail);
        }
    }
    if !line.is_empty() {
        write(&mut line, log, tail);
    }
}

fn write(line: &mut Vec<u8>, log: &LogWriter, tail: &Mutex<String>) {
    let text = String::from_utf8_lossy(line).trim_end().to_owned();
    line.clear();
    {
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.push_str(&text);
        tail.push('\n');
        if tail.len() > 2 * TAIL_BYTES {
            let mut from = tail.len() - TAIL_BYTES;
            while !tail.is_char_boundary(from) {
                from += 1;
            }
            tail.drain(..from);
        }
    }
    log.text(LogSource::Build, text);
}

/// Kills a process group when it is dropped: the command may have ended, what it started not.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(number) = self.0 {
            kill_group(number);
            sless_runtime::end_confined(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use sless_core::{LogOptions, SystemClock};

    use super::*;
    use crate::logs::{Logs, LogsConfig};

    async fn run(script: &str, limit: Duration) -> (Ended, Vec<String>) {
        let folder = tempfile::tempdir().expect("a folder");
        let logs = Logs::open(folder.path().to_owned(), &LogsConfig::default()).expect("logs");
        let writer = logs.writer("build");
        writer.text(LogSource::Build, "begins");
        let program = Program::new("/bin/sh", folder.path()).arguments(["-c", script]);
        let ended = program.run(&SystemClock, limit, &writer).await;
        let lines = logs
            .read("build", &LogOptions::default())
            .await
            .expect("a log");
        (
            ended,
            lines
                .skip(1)
                .map(|line| line.expect("a line").text)
                .collect()
                .await,
        )
    }

    #[tokio::test]
    async fn what_it_says_is_logged_and_its_end_is_told() {
        let script = "echo one; echo two >&2; exit 3";
        let (ended, mut lines) = run(script, Duration::from_secs(10)).await;
        lines.sort();
        assert_eq!(lines, ["one", "two"]);
        let Ended::Exited { status, tail } = ended else {
            panic!("{ended:?}")
        };
        assert_eq!(status.code(), Some(3));
        assert!(tail.contains("one\n"));
    }

    #[tokio::test]
    async fn one_that_takes_too_long_is_killed_with_all_it_started() {
        let began = std::time::Instant::now();
        let (ended, _) = run("sleep 60 & sleep 60; wait", Duration::from_millis(100)).await;
        assert!(matches!(ended, Ended::TimedOut { .. }), "{ended:?}");
        assert!(began.elapsed() < Duration::from_secs(10));
    }

    #[tokio::test]
    async fn a_long_line_becomes_several() {
        let script = "head -c 40000 /dev/zero | tr '\\0' x; echo; echo end";
        let (_, lines) = run(script, Duration::from_secs(10)).await;
        assert_eq!(
            lines.iter().map(String::len).collect::<Vec<_>>(),
            [16384, 16384, 7232, 3]
        );
    }
}
