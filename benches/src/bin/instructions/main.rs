//! Counts the instructions of the hot path and holds them against what was counted before: unlike times,
//! they repeat on a busy machine. It runs itself under `valgrind --tool=callgrind`.
//!
//! ```sh
//! cargo run -p sless-benches --all-features --bin instructions              # hold against
//! cargo run -p sless-benches --all-features --bin instructions -- --update  # write down
//! ```
//!
//! The counts of each build lie in `benches/instructions.json`. Another compiler or build has others, and
//! then nothing is held against anything, and that is said.

#[cfg(target_os = "linux")]
mod callgrind;
#[cfg(target_os = "linux")]
mod cases;
#[cfg(target_os = "linux")]
mod counts;

use clap::Parser;

/// Counts the instructions of the hot path.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Arguments {
    /// Writes down what is counted, in the place of what was.
    #[arg(long)]
    update: bool,

    /// How much more, in percent, is taken for the same.
    #[arg(long, default_value_t = 3.0)]
    tolerance: f64,

    /// Runs the cases, and counts nothing: what callgrind is given.
    #[arg(long, hide = true)]
    cases: bool,
}

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if arguments.cases {
        return cases::run();
    }
    counts::run(arguments.update, arguments.tolerance)
}

#[cfg(not(target_os = "linux"))]
fn main() -> anyhow::Result<()> {
    let _ = Arguments::parse();
    anyhow::bail!("valgrind is only asked on Linux")
}
