//! A package index for pip and a registry for npm, on the machine's address as pods see it.

use std::{
    collections::BTreeMap,
    io::Write as _,
    process::{Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use super::world;

/// Serves the packages that it was given, and keeps what it was asked for.
pub(crate) struct Index {
    pub(crate) host: String,
    state: Arc<State>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    files: Mutex<BTreeMap<String, (&'static str, Vec<u8>)>>,
    asked: Mutex<Vec<String>>,
    held: AtomicBool,
}

impl Drop for Index {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Index {
    /// One with the Python package `brought` and the npm package `carried`, both of version 1.0.0.
    pub(crate) async fn start() -> Self {
        let address = world::variable("SLESS_TEST_KUBERNETES_HOST");
        let listener = TcpListener::bind((address.as_str(), 0))
            .await
            .expect("a port of this machine");
        let host = listener.local_addr().expect("its address").to_string();
        let state = Arc::new(State::default());
        let served = state.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, served.clone()));
            }
        });
        let index = Self { host, state, task };
        let wheel = "brought-1.0.0-py3-none-any.whl";
        let page = format!("<html><a href=\"/files/{wheel}\">{wheel}</a></html>");
        index.put("/simple/brought/", "text/html", page.into_bytes());
        index.put(
            &format!("/files/{wheel}"),
            "application/octet-stream",
            packed(WHEEL),
        );
        index.put(
            "/carried",
            "application/json",
            json!({
                "name": "carried",
                "dist-tags": {"latest": "1.0.0"},
                "versions": {"1.0.0": {
                    "name": "carried",
                    "version": "1.0.0",
                    "dist": {"tarball": format!("http://{}/files/carried-1.0.0.tgz", index.host)},
                }},
            })
            .to_string()
            .into_bytes(),
        );
        index.put(
            "/files/carried-1.0.0.tgz",
            "application/octet-stream",
            packed(TARBALL),
        );
        index
    }

    fn put(&self, path: &str, kind: &'static str, body: Vec<u8>) {
        let mut files = self
            .state
            .files
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        files.insert(path.to_owned(), (kind, body));
    }

    /// The variables that send pip and npm here.
    pub(crate) fn variables(&self) -> BTreeMap<String, String> {
        let (name, _) = self.host.split_once(':').expect("a port");
        [
            ("PIP_INDEX_URL", format!("http://{}/simple/", self.host)),
            ("PIP_TRUSTED_HOST", name.to_owned()),
            ("PIP_RETRIES", "1".to_owned()),
            ("NPM_CONFIG_REGISTRY", format!("http://{}/", self.host)),
            ("NPM_CONFIG_FETCH_RETRIES", "1".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// Lets everybody wait, or no more.
    pub(crate) fn hold(&self, held: bool) {
        self.state.held.store(held, Ordering::Relaxed);
    }

    /// The paths that were asked for.
    pub(crate) fn asked(&self) -> Vec<String> {
        let asked = self.state.asked.lock();
        asked.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn answer(mut stream: TcpStream, state: Arc<State>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < 64 << 10 {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8_lossy(&head);
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    state
        .asked
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(path.clone());
    while state.held.load(Ordering::Relaxed) {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let found = {
        let files = state.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.get(&path).cloned()
    };
    let (status, kind, body) = match found {
        Some((kind, body)) => ("200 OK", kind, body),
        None => ("404 Not Found", "text/plain", b"not here".to_vec()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    // Whoever asked may have gone.
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.write_all(&body).await;
    let _ = stream.shutdown().await;
}

/// What a Python program writes.
fn packed(program: &str) -> Vec<u8> {
    let mut child = Command::new("/usr/bin/env")
        .args(["python3", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin
        .write_all(program.as_bytes())
        .expect("python3 reads its program");
    drop(stdin);
    let output = child.wait_with_output().expect("python3 ends");
    assert!(output.status.success(), "python3 failed");
    output.stdout
}

const WHEEL: &str = r#"
import io, sys, zipfile
out, info = io.BytesIO(), "brought-1.0.0.dist-info"
files = {
    "brought.py": "ANSWER = 42\n",
    f"{info}/METADATA": "Metadata-Version: 2.1\nName: brought\nVersion: 1.0.0\n",
    f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    f"{info}/RECORD": f"brought.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n",
}
with zipfile.ZipFile(out, "w") as archive:
    for name, text in files.items():
        archive.writestr(name, text)
sys.stdout.buffer.write(out.getvalue())
"#;

const TARBALL: &str = r#"
import io, sys, tarfile
out = io.BytesIO()
with tarfile.open(fileobj=out, mode="w:gz") as archive:
    for name, text in {
        "package/package.json": '{"name":"carried","version":"1.0.0","main":"index.js"}',
        "package/index.js": "module.exports = 43;\n",
    }.items():
        entry = tarfile.TarInfo(name)
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text.encode()))
sys.stdout.buffer.write(out.getvalue())
"#;
