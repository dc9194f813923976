//! Many functions: what they cost at rest, in memory, and at a restart.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use sless_api::client::Content;
use sless_benches::{
    cores::Cores,
    deploy,
    http::Connection,
    processes,
    server::{Server, Setup},
};
use sless_core::Runtime;

/// Requests to the API at once while functions are made.
const AT_ONCE: usize = 16;
/// How long the server may take to have looked at everything.
const PATIENCE: Duration = Duration::from_secs(900);

/// What is known of a server at rest.
#[derive(Debug)]
pub(crate) struct Rest {
    /// Files of the data folder that were changed, and how.
    pub(crate) changes: Vec<String>,
    /// Bytes that the process caused to be written.
    pub(crate) written: u64,
    /// Share of one core.
    pub(crate) cpu: f64,
}

/// Makes functions through the API. The first `started` of them run; all others are off (`replicas`
/// 0) and differ from one that sleeps only in that no worker was ever started for them, which would
/// take most of an hour.
pub(crate) async fn make(server: &Server, functions: usize, started: usize) -> Result<Duration> {
    let zip = deploy::zip(Runtime::Python311, "many")?;
    let begun = Instant::now();
    stream::iter((0..functions).map(Ok))
        .try_for_each_concurrent(AT_ONCE, |number| {
            let zip = zip.clone();
            async move {
                let name = name(number);
                let off = (number >= started).then_some(0);
                deploy::create(server, &name, Runtime::Python311, off).await?;
                let zip = Content::bytes(zip);
                server
                    .client
                    .upload(server.namespace.as_str(), &name, zip)
                    .await?;
                anyhow::Ok(())
            }
        })
        .await?;
    settle(server).await?;
    Ok(begun.elapsed())
}

pub(crate) fn name(number: usize) -> String {
    format!("many-{number:05}")
}

/// Waits until the server has looked at everything that it wants to look at.
pub(crate) async fn settle(server: &Server) -> Result<()> {
    let begun = Instant::now();
    let mut quiet = 0;
    while quiet < 3 {
        let waiting = server.metric("sless_reconciles_waiting").await?;
        let running = server.metric("sless_reconciles_running").await?;
        quiet = if waiting + running == 0 { quiet + 1 } else { 0 };
        if begun.elapsed() > PATIENCE {
            bail!(
                "{waiting} objects still wait after {PATIENCE:?}:\n{}",
                server.last_lines()
            );
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// Checks that functions are as they were made.
pub(crate) async fn check(server: &Server, functions: usize, started: usize) -> Result<()> {
    let numbers = [
        0,
        started.saturating_sub(1),
        started,
        functions / 2,
        functions - 1,
    ];
    let seen: Vec<_> = stream::iter(numbers)
        .then(|number| async move {
            let name = name(number);
            let function = server
                .client
                .function(server.namespace.as_str(), &name)
                .await?;
            anyhow::Ok((number, function))
        })
        .try_collect()
        .await?;
    for (number, function) in seen {
        let expected = if number < started { "Ready" } else { "Stopped" };
        let phase = format!("{:?}", function.phase);
        if phase != expected {
            bail!(
                "{} is {phase}, expected {expected}: {function:?}",
                function.name
            );
        }
    }
    Ok(())
}

/// A server that was started over what is there.
#[derive(Debug)]
pub(crate) struct Restarted {
    pub(crate) server: Server,
    /// From its start until it was ready.
    pub(crate) ready: Duration,
    /// From its start until a function that slept had answered.
    pub(crate) answered: Duration,
}

/// Starts the server over what is there, calls a function that sleeps, and waits until the server has
/// looked at everything.
pub(crate) async fn restart(setup: &Setup, cores: &Cores, function: &str) -> Result<Restarted> {
    let server = Server::start(setup, cores).await?;
    let mut connection = Connection::open(server.address).await?;
    let answer = connection
        .post(&server.path(function), Bytes::from_static(b"ok"))
        .await?;
    let answered = server.started.elapsed();
    if answer.status != 200 || answer.body != "ok" {
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        bail!(
            "{function} answered {} after a restart: {body}",
            answer.status
        );
    }
    settle(&server).await?;
    Ok(Restarted {
        ready: server.ready_after,
        answered,
        server,
    })
}

/// Looks on for a while, without asking the server for anything.
pub(crate) async fn rest(server: &Server, data: &Path, duration: Duration) -> Result<Rest> {
    let files = glance(data)?;
    let (written, cpu) = (
        processes::written(server.pid())?,
        processes::cpu(server.pid())?,
    );
    tokio::time::sleep(duration).await;
    let used = processes::cpu(server.pid())?.since(cpu);
    let written = processes::written(server.pid())?.saturating_sub(written);
    let now = glance(data)?;
    let mut changes = Vec::new();
    for path in files.keys().chain(now.keys()) {
        let (before, after) = (files.get(path), now.get(path));
        let change = format!("{}: {before:?} → {after:?}", path.display());
        if before != after && !changes.contains(&change) {
            changes.push(change);
        }
    }
    Ok(Rest {
        changes,
        written,
        cpu: used.server.as_secs_f64() / duration.as_secs_f64(),
    })
}

/// Size and time of every file.
fn glance(folder: &Path) -> Result<BTreeMap<PathBuf, (u64, SystemTime)>> {
    let mut files = BTreeMap::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(folder) = pending.pop() {
        for entry in folder
            .read_dir()
            .with_context(|| folder.display().to_string())?
        {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_dir() {
                pending.push(entry.path());
            } else {
                files.insert(entry.path(), (metadata.len(), metadata.modified()?));
            }
        }
    }
    Ok(files)
}
