//! The server that is measured: the real one, as a process of its own.

use std::{
    fs::File,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use sless_api::client::{Client, ClientConfig};
use sless_core::Namespace;

use crate::{
    cores::Cores,
    http::{Answer, Connection},
    processes,
};

/// How long a server may take to be ready, or to end.
const PATIENCE: Duration = Duration::from_secs(60);
/// Whose functions are measured.
const SUBJECT: &str = "loadgen";

/// The program, and the data folder that it is started on.
#[derive(Debug)]
pub struct Setup {
    /// The program.
    pub program: PathBuf,
    /// Its data folder.
    pub data: PathBuf,
    /// Where its log goes.
    pub log: PathBuf,
    /// What its environment has beside that of this process.
    pub environment: Vec<(String, String)>,
}

impl Setup {
    /// Below this folder, which is made if it is not there.
    pub fn new(program: &Path, folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        Ok(Self {
            program: program.to_owned(),
            data: folder.join("data"),
            log: folder.join("server.log"),
            environment: Vec::new(),
        })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env("SLESS_DATA_DIR", &self.data)
            .env("SLESS_LOG", "warn")
            .envs(self.environment.iter().cloned());
        command
    }

    fn token(&self) -> Result<String> {
        let minted = self.command().args(["token", "--sub", SUBJECT]).output()?;
        if !minted.status.success() {
            bail!("no token: {}", String::from_utf8_lossy(&minted.stderr));
        }
        Ok(String::from_utf8(minted.stdout)?.trim().to_owned())
    }
}

/// A running server. Dropped, it is killed.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
    /// Speaks for the one whose functions are measured.
    pub client: Client,
    /// Theirs.
    pub namespace: Namespace,
    /// From its start to the first `/readyz` that says yes.
    pub ready_after: Duration,
    /// When it was started.
    pub started: Instant,
    log: PathBuf,
}

impl Server {
    /// Starts the server and waits until it is ready.
    pub async fn start(setup: &Setup, cores: &Cores) -> Result<Self> {
        let token = setup.token()?;
        // A port that is free now; that another takes it at once is unlikely and then is an error.
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let log = File::options().create(true).append(true).open(&setup.log)?;
        let mut command = setup.command();
        command
            .arg("serve")
            .env("SLESS_LISTEN", address.to_string());
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let started = Instant::now();
        let child = cores.for_server(|| command.spawn());
        let child = child.with_context(|| format!("cannot start {}", setup.program.display()))?;
        let config = ClientConfig::new(format!("http://{address}")).with_token(token);
        let mut server = Self {
            child,
            address,
            client: Client::new(config)?,
            namespace: Namespace::of_subject(SUBJECT),
            ready_after: Duration::ZERO,
            started,
            log: setup.log.clone(),
        };
        server.wait_until_ready().await?;
        server.ready_after = started.elapsed();
        Ok(server)
    }

    async fn wait_until_ready(&mut self) -> Result<()> {
        while self.started.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended with {status}: {}", self.last_lines());
            }
            let asked = async {
                let mut connection = Connection::open(self.address).await?;
                connection.get("/readyz").await
            };
            if let Ok(Answer { status: 200, .. }) = asked.await {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        bail!(
            "the server was not ready within {PATIENCE:?}: {}",
            self.last_lines()
        )
    }

    /// The end of its log.
    pub fn last_lines(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether there is a function of this name.
    pub async fn has(&self, function: &str) -> Result<bool> {
        match self
            .client
            .function(self.namespace.as_str(), function)
            .await
        {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Where a function is called.
    pub fn path(&self, function: &str) -> String {
        format!("/fn/{}/{function}", self.namespace)
    }

    /// What a metric without labels says.
    pub async fn metric(&self, name: &str) -> Result<u64> {
        let metrics = self.client.metrics().await?;
        let line = metrics
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = line.with_context(|| format!("no metric {name}"))?;
        Ok(value.trim().parse()?)
    }

    /// Tells it to end, and waits for that.
    pub async fn stop(mut self) -> Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        self.wait_for_end().await
    }

    /// Ends it as a crash does.
    pub async fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.wait_for_end().await
    }

    async fn wait_for_end(&mut self) -> Result<()> {
        let told = Instant::now();
        while told.elapsed() < PATIENCE {
            if self.child.try_wait()?.is_some() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        bail!(
            "the server did not end within {PATIENCE:?}: {}\n{}",
            self.last_lines(),
            processes::threads(self.pid())?
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Either has ended already, or has to now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
