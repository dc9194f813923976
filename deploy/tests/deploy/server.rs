//! The server that was built beside these tests, and what is made with it.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::Value;
use sless_api::client::{Client, ClientConfig};
use sless_core::Namespace;
use tempfile::TempDir;

/// Whose tokens these are.
pub(crate) const SUBJECT: &str = "deploy";

/// The program, as `cargo test --workspace` leaves it beside the tests.
pub(crate) fn binary() -> PathBuf {
    let tests = std::env::current_exe().expect("a path");
    let built = tests.ancestors().nth(2).expect("a target folder");
    let binary = built.join("sless-server");
    assert!(
        binary.is_file(),
        "{} is not there: cargo build --workspace --all-features --bin sless-server",
        binary.display()
    );
    binary
}

/// A command of the server with nothing in its environment but this.
pub(crate) fn command(environment: &[(&str, &Path)]) -> Command {
    let mut command = Command::new(binary());
    command.env_clear();
    // Interpreters are looked for there.
    for name in ["PATH", "HOME"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.envs(environment.iter().copied());
    command
}

/// A secret for tokens, in a file of this folder.
pub(crate) fn secret(folder: &Path) -> PathBuf {
    let file = folder.join("hs256.key");
    // It is made with the first token.
    token(&file, SUBJECT);
    file
}

/// A token that opens the namespace of a subject.
pub(crate) fn token(secret: &Path, subject: &str) -> String {
    let made = command(&[("SLESS_HS256_KEY_FILE", secret)])
        .args(["token", "--sub", subject])
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{said}");
    String::from_utf8(made.stdout)
        .expect("text")
        .trim()
        .to_owned()
}

/// A client that speaks for this token.
pub(crate) fn client(url: &str, token: &str) -> Client {
    Client::new(ClientConfig::new(url).with_token(token)).expect("a client")
}

/// A server on this machine, with the local backend.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    address: String,
    token: String,
    _folder: TempDir,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let token = token(&secret(folder.path()), SUBJECT);
        let mut child = command(&[
            ("SLESS_DATA_DIR", folder.path()),
            ("SLESS_LISTEN", Path::new("127.0.0.1:0")),
            ("SLESS_LOG_FORMAT", Path::new("json")),
        ])
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let reading = tokio::task::spawn_blocking(move || {
            let mut read = Vec::new();
            while let Some(Ok(line)) = lines.next() {
                let said: Value = serde_json::from_str(&line).unwrap_or_default();
                if said["message"] == "serving" {
                    let address = said["address"].as_str().map(str::to_owned);
                    // Whoever writes to a pipe that nobody reads waits.
                    std::thread::spawn(move || lines.for_each(drop));
                    return Ok(address.expect("an address"));
                }
                read.push(line);
            }
            Err(read.join("\n"))
        });
        let told = tokio::time::timeout(Duration::from_secs(60), reading).await;
        let address = told.expect("in time").expect("it reads");
        Self {
            child,
            address: address.unwrap_or_else(|said| panic!("the server did not start: {said}")),
            token,
            _folder: folder,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn client(&self) -> Client {
        client(&self.url(), &self.token)
    }

    pub(crate) fn namespace(&self) -> String {
        Namespace::of_subject(SUBJECT).to_string()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
