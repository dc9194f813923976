//! `sless-server dev`: what a newcomer types first.

mod changes;
mod life;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Instant,
};

use futures::StreamExt;
use rustix::process::Signal;
use sless_api::client::{Call, Client, ClientConfig};

use super::process::{DEADLINE, LOOK, Process, command};

const HELLO: &str = "def handle(event):\n    return 'one'\n";

/// A running `dev`.
pub(super) struct Dev {
    pub(super) process: Process,
    pub(super) url: String,
}

impl Dev {
    /// Starts it on these folders, on a port of its own.
    pub(super) async fn start(data: &Path, folders: &[&Path]) -> Self {
        let mut dev = command(Some(data), ["dev", "--port", "0"]);
        dev.args(folders);
        Self::run(dev).await
    }

    async fn run(dev: Command) -> Self {
        let process = Process::start(dev);
        let url = |lines: &[String]| {
            let line = lines
                .iter()
                .find_map(|line| line.strip_prefix("sless is up at "))?;
            Some(line.split(';').next()?.to_owned())
        };
        let began = Instant::now();
        let url = loop {
            if let Some(url) = url(&process.out.all()) {
                break url;
            }
            assert!(began.elapsed() < DEADLINE, "not up: {}", process.err.text());
            tokio::time::sleep(LOOK).await;
        };
        Self { process, url }
    }

    /// Waits until a function is ready.
    pub(super) async fn ready(&self, name: &str) {
        self.is_ready(name, 1).await;
    }

    /// Waits until a function was said to be ready so many times.
    async fn is_ready(&self, name: &str, times: usize) {
        self.process
            .out
            .until_there(&format!("{name} is ready ("), times)
            .await;
    }

    /// Speaks for nobody: functions are public.
    pub(super) fn client(&self) -> Client {
        let mut config = ClientConfig::new(&self.url);
        config.max_retries = 0;
        Client::new(config).unwrap()
    }

    async fn call(&self, name: &str) -> (u16, String) {
        let mut answer = self
            .client()
            .call("dev", name, Call::new("GET"))
            .await
            .unwrap();
        let mut body = Vec::new();
        while let Some(piece) = answer.body.next().await {
            body.extend_from_slice(&piece.unwrap());
        }
        (answer.status, String::from_utf8(body).unwrap())
    }

    async fn answers(&self, name: &str) -> String {
        let (status, body) = self.call(name).await;
        assert_eq!(status, 200, "{body}");
        body
    }

    /// Ends it as Ctrl-C does.
    pub(super) async fn stop(mut self) {
        self.process.signal(Signal::INT);
        let status = self.process.ended(DEADLINE).await;
        assert!(status.success(), "{status}: {}", self.process.err.text());
    }
}

/// A folder with these files, and a data folder.
struct Desk {
    root: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
        }
    }

    fn data(&self) -> PathBuf {
        self.root.path().join("data")
    }

    fn folder(&self, name: &str, files: &[(&str, &str)]) -> PathBuf {
        let folder = self.root.path().join(name);
        fs::create_dir_all(&folder).unwrap();
        for (file, text) in files {
            fs::write(folder.join(file), text).unwrap();
        }
        folder
    }
}

fn shell(line: &str, folder: &Path) -> Output {
    Command::new("sh")
        .args(["-c", line])
        .current_dir(folder)
        .output()
        .unwrap()
}
