//! A contestant as a process of its own.

use std::{
    collections::HashMap,
    fs::{self, File},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process_group};
use sless_benches::{
    cores::Cores,
    deploy,
    http::{Answer, Connection},
    server::{Server, Setup},
};

use crate::{
    contestants::{Contestant, Start},
    install::Cache,
};

/// How long the first answer may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is asked for.
const LOOK: Duration = Duration::from_micros(500);
/// JSON, so that whoever insists on that understands it.
pub(crate) const SHORTEST: &[u8] = b"\"\"";

/// One that runs. Dropped, it is ended with all that it has started.
#[derive(Debug)]
pub(crate) struct Running {
    guard: Guard,
    pub(crate) address: SocketAddr,
    pub(crate) path: String,
    /// From its start to its first answer.
    pub(crate) first_answer: Duration,
}

#[derive(Debug)]
enum Guard {
    Group(Group),
    Server(Box<Server>),
}

/// A process that leads a group.
#[derive(Debug)]
pub(crate) struct Group(Child);

impl Group {
    /// Starts it at the cores of what is measured, with its output in this file.
    pub(crate) fn start(mut command: Command, log: &Path, cores: &Cores) -> Result<Self> {
        let log = File::create(log)?;
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0);
        let name = command.get_program().to_string_lossy().into_owned();
        let child = cores.for_server(|| command.spawn());
        Ok(Self(child.with_context(|| format!("cannot start {name}"))?))
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn has_ended(&mut self) -> Result<bool> {
        Ok(self.0.try_wait()?.is_some())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // It has ended already, or has to now.
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a contestant's texts may hold.
#[derive(Debug)]
pub(crate) struct Words(HashMap<&'static str, String>);

impl Words {
    /// Those that are the same for all.
    pub(crate) fn new(cache: &Cache, upstream: SocketAddr) -> Self {
        let shown = |path: &Option<PathBuf>| {
            let path = path.as_ref();
            path.map_or_else(String::new, |path| path.display().to_string())
        };
        let ours = |path: &Result<PathBuf, String>| shown(&path.as_ref().ok().cloned());
        Self(HashMap::from([
            ("{cache}", cache.folder.display().to_string()),
            ("{python}", shown(&cache.python)),
            ("{node}", shown(&cache.node)),
            ("{runtime}", ours(&cache.runtime)),
            ("{server}", ours(&cache.server)),
            ("{upstream}", upstream.to_string()),
        ]))
    }

    /// Those, and the ones of one contestant in this folder.
    fn of(&self, folder: &Path) -> Result<(SocketAddr, Self)> {
        // Both at once, so that they differ. That another takes one of them now is unlikely, and an error.
        let (port, spare) = (free()?, free()?);
        let address = port.local_addr()?;
        let mut words = self.0.clone();
        words.insert("{address}", address.to_string());
        words.insert("{port}", address.port().to_string());
        words.insert("{spare}", spare.local_addr()?.port().to_string());
        words.insert("{folder}", folder.display().to_string());
        Ok((address, Self(words)))
    }

    pub(crate) fn fill(&self, text: &str) -> String {
        let fill = |text: String, (word, value): (&&str, &String)| text.replace(word, value);
        self.0.iter().fold(text.to_owned(), fill)
    }
}

fn free() -> Result<TcpListener> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?)
}

/// A command that sees nothing of this process's environment but where programs are.
pub(crate) fn command(words: &Words, parts: &[&str], folder: &Path) -> Command {
    let mut parts = parts.iter().map(|part| words.fill(part));
    let mut command = Command::new(parts.next().unwrap_or_default());
    command.args(parts).env_clear().current_dir(folder);
    command.env("HOME", folder).env("PATH", path(words));
    command
}

/// The interpreters that are measured first.
fn path(words: &Words) -> String {
    let beside = |word| {
        Some(
            Path::new(words.0.get(word)?)
                .parent()?
                .display()
                .to_string(),
        )
    };
    let ours = [beside("{python}"), beside("{node}")].into_iter().flatten();
    let all = ours.chain(["/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin".to_owned()]);
    all.filter(|folder| !folder.is_empty())
        .collect::<Vec<_>>()
        .join(":")
}

impl Running {
    /// Starts a contestant in a folder of its own and waits for its first answer.
    pub(crate) async fn start(
        contestant: &Contestant,
        words: &Words,
        folder: &Path,
        cores: &Cores,
    ) -> Result<Self> {
        let (address, words) = words.of(folder)?;
        fs::create_dir_all(folder)?;
        for (name, text) in contestant.files {
            fs::write(folder.join(name), words.fill(text))?;
        }
        let parts = match contestant.start {
            Start::Command(parts) => parts,
            Start::Upload(runtime) => {
                return Self::upload(runtime, &words, folder, cores).await;
            }
        };
        let mut command = command(&words, parts, folder);
        for (name, value) in contestant.environment {
            command.env(name, words.fill(value));
        }
        let log = folder.join("log");
        let begun = Instant::now();
        let mut group = Group::start(command, &log, cores)?;
        while begun.elapsed() < PATIENCE {
            let asked = async {
                let mut connection = Connection::open(address).await?;
                let body = Bytes::from_static(SHORTEST);
                connection.post(contestant.path, body).await
            };
            // What is not up yet refuses, breaks off, or says that it is not.
            if let Ok(Answer { status: 200, body }) = asked.await
                && body == SHORTEST
            {
                return Ok(Self {
                    first_answer: begun.elapsed(),
                    path: contestant.path.to_owned(),
                    guard: Guard::Group(group),
                    address,
                });
            }
            if group.has_ended()? {
                bail!("it ended: {}", last_line(&log));
            }
            tokio::time::sleep(LOOK).await;
        }
        bail!("no answer within {PATIENCE:?}: {}", last_line(&log))
    }

    /// Starts the server, and uploads a function. Its first answer is that of the function, counted from
    /// the start of the server.
    async fn upload(
        runtime: sless_core::Runtime,
        words: &Words,
        folder: &Path,
        cores: &Cores,
    ) -> Result<Self> {
        let program = PathBuf::from(words.fill("{server}"));
        let mut setup = Setup::new(&program, folder)?;
        setup.environment.push(("PATH".to_owned(), path(words)));
        let server = Server::start(&setup, cores).await?;
        let name = "echo";
        server
            .client
            .ensure_namespace(server.namespace.as_str())
            .await?;
        if !server.has(name).await? {
            deploy::create(&server, name, runtime, None).await?;
        }
        let zip = deploy::zip(runtime, &format!("{:?}", server.started))?;
        deploy::until_first_answer(&server, name, zip).await?;
        Ok(Self {
            first_answer: server.started.elapsed(),
            address: server.address,
            path: server.path(name),
            guard: Guard::Server(Box::new(server)),
        })
    }

    pub(crate) fn id(&self) -> u32 {
        match &self.guard {
            Guard::Group(group) => group.id(),
            Guard::Server(server) => server.pid(),
        }
    }
}

fn last_line(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    last.unwrap_or("it said nothing")
        .chars()
        .take(300)
        .collect()
}
