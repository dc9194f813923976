//! Measures the whole: starts the real server, deploys, calls, fills it with functions, restarts it,
//! and prints what it saw. `benches/README.md` says what each number means.
//!
//! `cargo run --release -p sless-benches -- --help`

#[cfg(target_os = "linux")]
mod calls;
#[cfg(target_os = "linux")]
mod itself;
#[cfg(target_os = "linux")]
mod many;
#[cfg(target_os = "linux")]
mod run;

use std::{path::PathBuf, time::Duration};

use clap::Parser;

/// Measures a server of sless and prints what it saw.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Arguments {
    /// Few requests and few functions: shows that everything works, and little of how fast.
    #[arg(long)]
    smoke: bool,

    /// The server's program. Where absent, this program is started once more and serves: the same
    /// library, in the same build.
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,

    /// What to measure; all of it where nothing is given.
    #[arg(long, value_delimiter = ',', value_name = "PART")]
    parts: Vec<Part>,

    /// How often each figure is taken.
    #[arg(long)]
    rounds: Option<usize>,

    /// How long each case of a round lasts, in seconds.
    #[arg(long)]
    seconds: Option<f64>,

    /// How many functions the server is filled with.
    #[arg(long)]
    functions: Option<usize>,

    /// How long a server with many functions is looked at, in seconds.
    #[arg(long)]
    rest: Option<u64>,

    /// Where the many functions are kept: those that an earlier run left there are used again. A
    /// temporary folder where absent.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// A part of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// From an upload to the first answer.
    Deploy,
    /// Calls of a function that is awake.
    Calls,
    /// Many functions.
    Many,
}

impl Arguments {
    fn measures(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }

    fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.smoke { 1 } else { 5 }).max(1)
    }

    fn duration(&self) -> Duration {
        let seconds = self.seconds.unwrap_or(if self.smoke { 0.5 } else { 2.0 });
        Duration::from_secs_f64(seconds.max(0.1))
    }

    const fn requests(&self) -> u64 {
        if self.smoke { 200 } else { u64::MAX }
    }

    fn functions(&self) -> usize {
        self.functions
            .unwrap_or(if self.smoke { 100 } else { 10_000 })
            .max(self.started() + 1)
    }

    /// How many of the functions really run.
    const fn started(&self) -> usize {
        if self.smoke { 2 } else { 16 }
    }

    fn rest(&self) -> Duration {
        Duration::from_secs(self.rest.unwrap_or(if self.smoke { 3 } else { 60 }))
    }
}

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    if itself::is_asked() {
        return itself::run();
    }
    run::run(&Arguments::parse())
}

#[cfg(not(target_os = "linux"))]
fn main() -> anyhow::Result<()> {
    let _ = Arguments::parse();
    anyhow::bail!("the load generator reads /proc, which only Linux has")
}
