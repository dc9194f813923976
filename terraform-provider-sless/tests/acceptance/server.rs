//! A server of its own for each test, and a workspace that speaks to it.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    ops::{Deref, DerefMut},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    time::{Duration, Instant},
};

use sless_api::{
    ListQuery,
    client::{Client, ClientConfig},
};
use sless_core::Namespace;
use tfplugin_acceptance::{DEADLINE, Workspace};
use tokio::runtime::Runtime;

/// The subject of most tokens.
pub(crate) const ALICE: &str = "alice";

pub(crate) fn provider() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_terraform-provider-sless"))
}

/// The server's program, beside the provider's. Testing the whole workspace has built it; where it is
/// missing, it is built.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let beside = provider().with_file_name("sless-server");
        if !beside.is_file() {
            let mut build = Command::new(env!("CARGO"));
            build.args([
                "build",
                "--package",
                "sless-server",
                "--bin",
                "sless-server",
            ]);
            if provider()
                .components()
                .any(|part| part.as_os_str() == "release")
            {
                build.arg("--release");
            }
            let built = build
                .current_dir(env!("CARGO_MANIFEST_DIR"))
                .status()
                .unwrap();
            assert!(built.success(), "sless-server cannot be built");
        }
        beside
    })
}

/// A server that is ended with the test.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
    data: tempfile::TempDir,
    pub(crate) runtime: Runtime,
}

impl Server {
    pub(crate) fn start() -> Self {
        let data = tempfile::tempdir().unwrap();
        let address = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let child = spawn(data.path(), address);
        let server = Self {
            child,
            address,
            data,
            runtime: Runtime::new().unwrap(),
        };
        server.wait();
        server
    }

    fn wait(&self) {
        let began = Instant::now();
        while !is_ready(self.address) {
            assert!(
                began.elapsed() < DEADLINE,
                "the server is not ready: {}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.data.path().join("log")).unwrap_or_default()
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends it as a power cut would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again on what it had.
    pub(crate) fn start_again(&mut self) {
        self.child = spawn(self.data.path(), self.address);
        self.wait();
    }

    /// A token of this subject.
    pub(crate) fn token(&self, subject: &str, valid: &str) -> String {
        let minted = command(self.data.path())
            .args(["token", "--sub", subject, "--ttl", valid])
            .output()
            .unwrap();
        assert!(
            minted.status.success(),
            "{}",
            String::from_utf8_lossy(&minted.stderr)
        );
        String::from_utf8(minted.stdout).unwrap().trim().to_owned()
    }

    pub(crate) fn namespace(&self) -> String {
        Namespace::of_subject(ALICE).to_string()
    }

    /// Somebody else who changes what is there.
    pub(crate) fn client(&self) -> Client {
        let config = ClientConfig::new(self.endpoint()).with_token(self.token(ALICE, "1h"));
        Client::new(config).unwrap()
    }

    /// A workspace whose provider is told everything by the environment.
    pub(crate) fn workspace(&self) -> Sless {
        self.workspace_of(ALICE)
    }

    pub(crate) fn workspace_of(&self, subject: &str) -> Sless {
        let mut workspace = Workspace::new("sless", provider());
        workspace.set("SLESS_ENDPOINT", &self.endpoint());
        workspace.set("SLESS_API_TOKEN", &self.token(subject, "1h"));
        Sless(workspace)
    }

    /// How many functions, triggers and jobs there are.
    pub(crate) fn count(&self) -> [usize; 3] {
        let (client, namespace) = (self.client(), self.namespace());
        let query = ListQuery::default();
        self.runtime.block_on(async {
            [
                client
                    .functions(&namespace, &query)
                    .await
                    .unwrap()
                    .items
                    .len(),
                client
                    .triggers(&namespace, &query)
                    .await
                    .unwrap()
                    .items
                    .len(),
                client.jobs(&namespace, &query).await.unwrap().items.len(),
            ]
        })
    }

    /// What a function's address answers.
    pub(crate) fn call(&self, name: &str) -> (u16, String) {
        let namespace = self.namespace();
        let request = format!("GET /fn/{namespace}/{name} HTTP/1.0\r\nHost: x\r\n\r\n");
        let answer = exchange(self.address, &request).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        (status, body.to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its functions go with it: they notice that it is gone.
        let pid = i32::try_from(self.child.id())
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let began = Instant::now();
        while self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            if began.elapsed() > Duration::from_secs(10) {
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn command(data: &Path) -> Command {
    let mut command = Command::new(program());
    // Settings of whoever runs the tests are none of ours.
    command
        .env_clear()
        .env("SLESS_DATA_DIR", data)
        .env("SLESS_DRAIN_TIMEOUT", "2s")
        .stdin(Stdio::null());
    for kept in ["PATH", "HOME", "TMPDIR"] {
        if let Some(value) = std::env::var_os(kept) {
            command.env(kept, value);
        }
    }
    command
}

fn spawn(data: &Path, address: SocketAddr) -> Child {
    let log = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(data.join("log"))
        .unwrap();
    command(data)
        .arg("serve")
        .env("SLESS_LISTEN", address.to_string())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap()
}

fn exchange(address: SocketAddr, request: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn is_ready(address: SocketAddr) -> bool {
    exchange(address, "GET /readyz HTTP/1.0\r\nHost: x\r\n\r\n")
        .is_ok_and(|answer| answer.contains(" 200 "))
}

/// A workspace for the provider of sless.
#[derive(Debug)]
pub(crate) struct Sless(pub(crate) Workspace);

impl Sless {
    /// A folder with a handler that answers this Python expression.
    pub(crate) fn code(&self, folder: &str, answer: &str) {
        let handler = format!("def handle(event):\n    return {answer}\n");
        self.write(&format!("{folder}/handler.py"), &handler);
    }

    /// The function `f` of the folder `src`, with more attributes.
    pub(crate) fn function(&self, more: &str) {
        self.config(&function("f", more));
    }

    #[track_caller]
    pub(crate) fn nothing_to_do(&self) {
        let planned = self.plan();
        assert_eq!(planned.code, 0, "{}", planned.text);
    }
}

/// The block of a function with the code in `src`.
pub(crate) fn function(name: &str, more: &str) -> String {
    format!(
        "resource \"sless_function\" {name:?} {{\n name = {name:?}\n runtime = \"python3.11\"\n \
         source_dir = \"src\"\n{more}\n}}\n"
    )
}

impl Deref for Sless {
    type Target = Workspace;

    fn deref(&self) -> &Workspace {
        &self.0
    }
}

impl DerefMut for Sless {
    fn deref_mut(&mut self) -> &mut Workspace {
        &mut self.0
    }
}
