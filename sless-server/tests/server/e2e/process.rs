//! The server as a process of its own.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use sless_server::settings::table::SETTINGS;

/// How long anything may take, an installation included.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// How often a condition is looked at.
pub(crate) const LOOK: Duration = Duration::from_millis(10);

/// A command of the server on this data folder, without settings of whoever runs the tests.
pub(crate) fn command<I, S>(data: Option<&Path>, arguments: I) -> Command
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    let mut command = Command::new(env!("CARGO_BIN_EXE_sless-server"));
    for setting in SETTINGS {
        command.env_remove(setting.name);
    }
    if let Some(data) = data {
        command.env("SLESS_DATA_DIR", data);
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

/// What a process has written so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    fn read(&self, stream: impl Read + Send + 'static) {
        let lines = self.0.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines() {
                let Ok(line) = line else { break };
                lines.lock().unwrap().push(line);
            }
        });
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn text(&self) -> String {
        self.all().join("\n")
    }

    pub(crate) fn count(&self, text: &str) -> usize {
        self.all().iter().filter(|line| line.contains(text)).count()
    }

    /// Waits for what is looked for in the lines.
    pub(crate) async fn until<T>(&self, what: &str, found: impl Fn(&[String]) -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            if let Some(found) = found(&self.all()) {
                return found;
            }
            assert!(
                began.elapsed() < DEADLINE,
                "{what} did not come:\n{}",
                self.text()
            );
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until so many lines hold this text.
    pub(crate) async fn until_there(&self, text: &str, times: usize) {
        self.until(text, |_| (self.count(text) >= times).then_some(()))
            .await;
    }
}

/// A process that is ended with the test.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// What it wrote on standard output.
    pub(crate) out: Lines,
    /// What it wrote on standard error.
    pub(crate) err: Lines,
}

impl Process {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (out, err) = (Lines::default(), Lines::default());
        out.read(child.stdout.take().unwrap());
        err.read(child.stderr.take().unwrap());
        Self { child, out, err }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits until it says that it serves, and answers where.
    pub(crate) async fn serving(&mut self) -> SocketAddr {
        let began = Instant::now();
        loop {
            let address = self.err.all().iter().find_map(|line| {
                let line: serde_json::Value = serde_json::from_str(line).ok()?;
                let serving = line["message"] == "serving";
                serving.then(|| line["address"].as_str().unwrap().parse().unwrap())
            });
            if let Some(address) = address {
                return address;
            }
            if self.out.all().is_empty() && self.err.text().contains("sless-server:") {
                let status = self.ended(DEADLINE).await;
                panic!("the server did not start ({status}): {}", self.err.text());
            }
            assert!(began.elapsed() < DEADLINE, "{}", self.err.text());
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Whether it has ended.
    pub(crate) fn is_over(&self) -> bool {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), options).unwrap().is_some()
    }

    /// Waits until it has ended.
    pub(crate) async fn ended(&mut self, within: Duration) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(
                began.elapsed() < within,
                "not ended within {within:?}:\n{}\n{}",
                self.out.text(),
                self.err.text()
            );
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Kills it as a power cut would, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The processes that run now: number, parent, and the data folder's mark in their environment.
pub(crate) fn marked_processes() -> Vec<(u32, u32, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(id) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        // What ends meanwhile is not there any more.
        let Ok(environment) = fs::read(entry.path().join("environ")) else {
            continue;
        };
        let Ok(status) = fs::read_to_string(entry.path().join("status")) else {
            continue;
        };
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.trim().to_owned())
        };
        if field("State:").is_none_or(|state| state.starts_with('Z')) {
            continue;
        }
        let parent = field("PPid:")
            .and_then(|parent| parent.parse().ok())
            .unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        let mark = variables.find_map(|line| line.strip_prefix(b"SLESS_INSTANCE="));
        if let Some(mark) = mark {
            found.push((id, parent, String::from_utf8_lossy(mark).into_owned()));
        }
    }
    found
}

/// The marks of what a server has started.
pub(crate) fn marks_below(server: u32) -> BTreeSet<String> {
    let processes = marked_processes().into_iter();
    processes
        .filter(|(_, parent, _)| *parent == server)
        .map(|(_, _, mark)| mark)
        .collect()
}
