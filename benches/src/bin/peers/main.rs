//! Measures sless and its peers side by side: the same machine, interpreter, handler and body, in turns.
//! `benches/README.md` says what each number means.
//!
//! `cargo run --release -p sless-benches --bin peers -- --out peers.md`

#[cfg(target_os = "linux")]
mod cluster;
#[cfg(target_os = "linux")]
mod contestants;
#[cfg(target_os = "linux")]
mod goals;
#[cfg(target_os = "linux")]
mod install;
#[cfg(target_os = "linux")]
mod measure;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod tables;
#[cfg(target_os = "linux")]
mod upstream;

use std::{path::PathBuf, time::Duration};

use clap::Parser;

/// Measures sless and its peers side by side, and prints tables.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Arguments {
    /// One short round, and nothing is fetched: shows that it works, and nothing of how fast.
    #[arg(long)]
    smoke: bool,

    /// What to measure; all of it where nothing is given.
    #[arg(long, value_delimiter = ',', value_name = "PART")]
    parts: Vec<Part>,

    /// How often each figure is taken.
    #[arg(long)]
    rounds: Option<usize>,

    /// How long each case of a round lasts, in seconds.
    #[arg(long)]
    seconds: Option<f64>,

    /// Where the tables are written; standard output where absent.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Where peers are installed [~/.cache/sless/peers].
    #[arg(long, value_name = "FOLDER", env = "SLESS_PEERS")]
    cache: Option<PathBuf>,

    /// Fetches nothing: peers that are not in the cache are told to be missing.
    #[arg(long)]
    offline: bool,

    /// Takes `sless-runtime` and `sless-server` from beside this program as they are, and builds them
    /// only where they are not there.
    #[arg(long)]
    no_build: bool,
}

/// A part of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Proxies in front of the same server.
    Proxy,
    /// What runs Python handlers.
    Python,
    /// What runs Node handlers.
    Node,
    /// From an upload to the first answer.
    Deploy,
}

impl Arguments {
    fn measures(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }

    fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.smoke { 1 } else { 5 }).max(1)
    }

    fn duration(&self) -> Duration {
        let seconds = self.seconds.unwrap_or(if self.smoke { 0.2 } else { 0.8 });
        Duration::from_secs_f64(seconds.max(0.05))
    }

    const fn requests(&self) -> u64 {
        if self.smoke { 100 } else { u64::MAX }
    }
}

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    let mut words = std::env::args().skip(1);
    if let (Some(upstream::WORD), Some(address)) = (words.next().as_deref(), words.next()) {
        return upstream::serve(address.parse()?);
    }
    run::run(&Arguments::parse())
}

#[cfg(not(target_os = "linux"))]
fn main() -> anyhow::Result<()> {
    let _ = Arguments::parse();
    anyhow::bail!("the harness reads /proc, which only Linux has")
}
