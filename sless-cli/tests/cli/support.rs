//! A user of a server, and the commands that this user types.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use serde_json::Value;
use sless_api::client::{Client, ClientConfig};
use sless_core::Namespace;
use tempfile::TempDir;

use crate::{
    ground::{Ground, settings},
    server::Server,
};

/// How long anything in these tests may take.
pub(crate) const DEADLINE: Duration = Duration::from_secs(90);

/// A server, and alice in a folder of hers.
#[derive(Debug)]
pub(crate) struct World {
    /// First, so that it ends before its folder and its namespaces go.
    pub(crate) server: Server,
    pub(crate) token: String,
    pub(crate) namespace: String,
    pub(crate) endpoint: String,
    /// The namespaces, where functions run in a cluster.
    pub(crate) ground: Option<Ground>,
    folder: TempDir,
}

/// What a command came to.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(&folder.path().join("data"));
        Self::of(server, "alice", None, folder)
    }

    /// With functions that run in the cluster, and an alice whose namespace is no other test's.
    pub(crate) fn in_a_cluster() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let subject = format!("alice-{:08x}", fastrand::u32(..));
        let namespace = Namespace::of_subject(&subject).to_string();
        let ground = Ground::new(&namespace);
        let server = Server::start_with(settings("kubernetes", &namespace, folder.path()));
        Self::of(server, &subject, Some(ground), folder)
    }

    fn of(server: Server, subject: &str, ground: Option<Ground>, folder: TempDir) -> Self {
        for name in ["home", "work"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self {
            token: server.token(subject, Duration::from_secs(7200)),
            namespace: Namespace::of_subject(subject).to_string(),
            endpoint: format!("http://{}", server.address),
            server,
            ground,
            folder,
        }
    }

    /// Where alice types.
    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub(crate) fn contexts(&self) -> PathBuf {
        self.folder.path().join("home/.config/sless/contexts.toml")
    }

    /// Writes files below the folder where alice types.
    pub(crate) fn write(&self, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = self.work().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    /// The command, with a clean environment in which nothing is signed in.
    pub(crate) fn bare(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sless"));
        command
            .args(arguments)
            .current_dir(self.work())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.folder.path().join("home"))
            .stdin(Stdio::null());
        command
    }

    /// The command, as alice.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.bare(arguments);
        command
            .env("SLESS_ENDPOINT", &self.endpoint)
            .env("SLESS_API_TOKEN", &self.token);
        command
    }

    /// Does it, whatever comes of it.
    pub(crate) fn run(&self, arguments: &[&str]) -> Done {
        run(self.command(arguments), None)
    }

    /// Does it, and it works. Answers standard output.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let done = self.run(arguments);
        assert_eq!(done.status, 0, "{arguments:?}: {done:#?}");
        done.out
    }

    /// Does it with `-o json`.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let out = self.ok(&[arguments, &["-o", "json"]].concat());
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {out}"))
    }

    /// Does it, and it ends with this status and says this.
    pub(crate) fn fails(&self, arguments: &[&str], status: i32, said: &str) -> Done {
        let done = self.run(arguments);
        assert_eq!(done.status, status, "{arguments:?}: {done:#?}");
        assert!(
            done.err.contains(said),
            "{arguments:?}: {said:?}: {done:#?}"
        );
        done
    }

    /// A function that says hello, deployed.
    pub(crate) fn hello(&self) {
        self.ok(&["init", "hello"]);
        self.ok(&["deploy", "hello"]);
    }

    /// Asks the API beside the command.
    pub(crate) fn api<T>(&self, ask: impl AsyncFnOnce(Client, &str) -> T) -> T {
        let config = ClientConfig::new(&self.endpoint).with_token(&self.token);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(ask(Client::new(config).unwrap(), &self.namespace))
    }
}

pub(crate) fn run(mut command: Command, stdin: Option<&[u8]>) -> Done {
    use std::io::Write as _;
    if stdin.is_some() {
        command.stdin(Stdio::piped());
    }
    let mut running = Running::start(command);
    if let Some(bytes) = stdin {
        let mut input = running.child.stdin.take().unwrap();
        let _ = input.write_all(bytes);
    }
    running.ended()
}

/// A command under way. It does not outlive the test.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) child: Child,
    out: Stream,
    err: Stream,
}

/// What a stream has brought so far.
#[derive(Clone, Debug, Default)]
struct Stream(Arc<Mutex<Vec<u8>>>);

impl Stream {
    fn read(&self, mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<()> {
        let bytes = self.0.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = from.read(&mut buffer) {
                bytes.lock().unwrap().extend_from_slice(&buffer[..read]);
            }
        })
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (out, err) = (Stream::default(), Stream::default());
        out.read(child.stdout.take().unwrap());
        err.read(child.stderr.take().unwrap());
        Self { child, out, err }
    }

    pub(crate) fn out(&self) -> String {
        self.out.text()
    }

    pub(crate) fn err(&self) -> String {
        self.err.text()
    }

    /// Waits until standard error says this.
    pub(crate) fn says(&self, text: &str) {
        until(
            &format!("{text:?} is said"),
            || self.err().contains(text),
            || format!("{} {}", self.out(), self.err()),
        );
    }

    /// Sends a signal as Ctrl-C and `kill` do.
    pub(crate) fn signal(&self, name: &str) {
        let kill = Command::new("kill")
            .args(["-s", name, &self.child.id().to_string()])
            .status();
        assert!(kill.unwrap().success());
    }

    pub(crate) fn ended(mut self) -> Done {
        use std::os::unix::process::ExitStatusExt as _;
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(began.elapsed() < DEADLINE, "{} {}", self.out(), self.err());
            std::thread::sleep(Duration::from_millis(5));
        };
        // What was written at the end is read when the streams say so.
        let whole = |stream: &Stream| Arc::strong_count(&stream.0) == 1;
        until(
            "the streams end",
            || whole(&self.out) && whole(&self.err),
            String::new,
        );
        Done {
            status: status
                .code()
                .unwrap_or_else(|| 128 + status.signal().unwrap()),
            out: self.out(),
            err: self.err(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Looks until it is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool, state: impl Fn() -> String) {
    let began = Instant::now();
    while !is_so() {
        assert!(
            began.elapsed() < DEADLINE,
            "not in time: {what}: {}",
            state()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Copies a folder without folders in it.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}
