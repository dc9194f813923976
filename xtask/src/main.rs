//! Every chore of this repository, as one command: `cargo xtask`.
//!
//! `cargo xtask test` is the one test command. What CI runs is this command and nothing else, so a
//! green run on a developer's machine means the same as a green run there. It is made of named
//! steps (`--list`), each of which can be run alone (`--only clippy,tests`), is timed, and may take
//! no longer than its limit.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command that people read; the lint is meant for libraries"
)]

mod process;
mod report;
mod services;
mod steps;
mod tools;
mod workspace;

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Args, Parser, Subcommand};

use crate::{report::Plan, workspace::Workspace};

#[derive(Debug, Parser)]
#[command(
    bin_name = "cargo xtask",
    about = "Every chore of this repository, as one command"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run everything that CI runs: lints, tests, documentation, policies, examples, benchmarks.
    Test(TestArgs),
    /// Install the programs that the steps of `test` need, and nothing else.
    Tools,
    /// Start or end the services that tests need, to run some of the tests by hand.
    #[command(subcommand)]
    Services(Services),
}

#[derive(Debug, Subcommand)]
enum Services {
    /// Start them, and print what tests need: `eval "$(cargo xtask services up s3)"`.
    Up {
        /// Folders of testing/; all where none is given.
        names: Vec<String>,
    },
    /// End them, and remove their state.
    Down {
        /// Folders of testing/; all where none is given.
        names: Vec<String>,
    },
}

#[derive(Debug, Args)]
struct TestArgs {
    /// Run these steps only (comma-separated; see --list).
    #[arg(long, value_delimiter = ',', value_name = "STEP")]
    only: Vec<String>,
    /// Leave these steps out (comma-separated).
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "STEP",
        conflicts_with = "only"
    )]
    skip: Vec<String>,
    /// Go on after a failed step, and show the end of each failed step's output at the end.
    #[arg(long)]
    keep_going: bool,
    /// Say what the steps are and stop.
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode> {
    ctrlc::set_handler(process::interrupt).context("cannot listen for signals")?;
    let workspace = Workspace::load()?;
    match cli.command {
        Command::Test(args) if args.list => {
            report::list();
            Ok(ExitCode::SUCCESS)
        }
        Command::Test(args) => {
            let plan = Plan::new(&args.only, &args.skip, args.keep_going)?;
            Ok(plan.run(&workspace))
        }
        Command::Tools => {
            let mut shell = process::Shell::new(workspace.log("tools"), steps::TOOLS_LIMIT)?;
            tools::check_system(&mut shell)?;
            for tool in tools::CARGO_TOOLS {
                tool.ensure(&mut shell)?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Services(Services::Up { names }) => {
            services::up(&workspace, &names).map(|()| ExitCode::SUCCESS)
        }
        Command::Services(Services::Down { names }) => {
            services::down(&workspace, &names).map(|()| ExitCode::SUCCESS)
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_well_formed() {
        super::Cli::command().debug_assert();
    }
}
