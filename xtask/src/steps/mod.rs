//! The steps of `cargo xtask test`, in the order in which they run: what is quick comes first.

mod cargo;
mod dependencies;
mod files;
mod layers;
mod programs;
mod testing;

use std::time::Duration;

use anyhow::Result;

use crate::{process::Shell, tools, workspace::Workspace};

/// One thing that must hold.
#[derive(Debug)]
pub(crate) struct Step {
    /// What `--only` and `--skip` call it.
    pub(crate) name: &'static str,
    /// One line for people.
    pub(crate) about: &'static str,
    /// How long its programs may take together, from nothing built, on two cores.
    pub(crate) limit: Duration,
    /// Whether the services of `testing/` run meanwhile.
    pub(crate) services: bool,
    /// Does it.
    pub(crate) run: fn(&Workspace, &mut Shell) -> Result<Outcome>,
}

/// What came of a step that did not fail.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It holds.
    Passed,
    /// It holds, and there is something to tell about it.
    Noted(String),
}

/// The limit of steps that only read.
const SHORT: Duration = Duration::from_secs(2 * 60);
/// The limit of steps that install a tool.
pub(crate) const TOOLS_LIMIT: Duration = Duration::from_secs(15 * 60);
/// The limit of steps that compile the whole workspace.
const BUILD: Duration = Duration::from_secs(25 * 60);
/// The limit of the step that compiles and runs the tests.
const TESTS: Duration = Duration::from_secs(55 * 60);

/// All steps.
pub(crate) const STEPS: &[Step] = &[
    Step {
        name: "tools",
        about: "the language runtimes and programs that tests use are there",
        limit: TOOLS_LIMIT,
        services: false,
        run: |_, shell| tools::check_system(shell).map(|()| Outcome::Passed),
    },
    Step {
        name: "files",
        about: "sizes of files, and nothing of the machine they were written on",
        limit: SHORT,
        services: false,
        run: files::run,
    },
    Step {
        name: "layers",
        about: "crates depend downwards only; the core pulls no backend and no socket",
        limit: SHORT,
        services: false,
        run: layers::run,
    },
    Step {
        name: "fmt",
        about: "formatting",
        limit: SHORT,
        services: false,
        run: cargo::fmt,
    },
    Step {
        name: "deny",
        about: "licences, sources and forbidden packages of all dependencies",
        limit: TOOLS_LIMIT,
        services: false,
        run: dependencies::deny,
    },
    Step {
        name: "clippy",
        about: "lints of the whole workspace",
        limit: BUILD,
        services: false,
        run: cargo::clippy,
    },
    Step {
        name: "features",
        about: "lints of each crate alone, with each of its features and without",
        limit: BUILD,
        services: false,
        run: cargo::features,
    },
    Step {
        name: "tests",
        about: "unit, property, conformance and end-to-end tests, the ignored ones too",
        limit: TESTS,
        services: true,
        run: testing::run,
    },
    Step {
        name: "doctests",
        about: "examples in the documentation",
        limit: BUILD,
        services: false,
        run: cargo::doctests,
    },
    Step {
        name: "docs",
        about: "documentation, warnings denied",
        limit: BUILD,
        services: false,
        run: cargo::docs,
    },
    Step {
        name: "third-party",
        about: "a backend written by an outsider, outside the workspace, passes its suites",
        limit: BUILD,
        services: false,
        run: programs::third_party,
    },
    Step {
        name: "examples",
        about: "each program of examples/ runs and exits with 0",
        limit: BUILD,
        services: true,
        run: programs::examples,
    },
    Step {
        name: "benches",
        about: "each benchmark runs once, the load generators shortly; instructions as counted before",
        limit: BUILD,
        services: true,
        run: programs::benches,
    },
];
