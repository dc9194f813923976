//! The step that compiles and runs the tests.

use anyhow::{Context as _, Result};

use super::Outcome;
use crate::{
    process::{Command, Shell},
    workspace::Workspace,
};

/// How many failed tests are run again. More are no accident of a busy machine.
const AGAIN_AT_MOST: usize = 4;

/// Runs all tests. Where a few failed, those are run once more, alone: a machine that is shared can hold a test
/// of real services up beyond any patience. One that fails again has failed; one that passes is named in the
/// summary, for somebody to find out why.
pub(super) fn run(workspace: &Workspace, shell: &mut Shell) -> Result<Outcome> {
    // A test that needs a service is marked `#[ignore = "needs …"]`, so that a plain `cargo test`
    // works anywhere. Here everything runs, and a service that is missing is a failure.
    let test = Command::cargo("test")
        .args(["--workspace", "--all-features", "--tests", "--no-fail-fast"])
        .args(["--", "--include-ignored"]);
    let Err(error) = shell.run(&test) else {
        return Ok(Outcome::Passed);
    };
    let log = workspace.log("tests");
    let read = || std::fs::read_to_string(&log).context("the log of the tests cannot be read");
    let first = read()?;
    let Some(failed) = failed_few(&first) else {
        return Err(error);
    };
    shell.say(format_args!("==> once more, alone: {}", failed.join(", ")));
    shell.run(&test.arg("--exact").args(&failed))?;
    let second = read()?.split_off(first.len());
    let passed = |name: &str| second.contains(&format!("test {name} ... ok"));
    if let Some(name) = failed.iter().find(|name| !passed(name)) {
        return Err(error.context(format!("{name} did not run again")));
    }
    let note = format!("failed, and passed alone: {}", failed.join(", "));
    Ok(Outcome::Noted(note))
}

/// The tests that failed, if that is all that went wrong, and they are few.
fn failed_few(log: &str) -> Option<Vec<&str>> {
    let count = |is: &dyn Fn(&str) -> bool| log.lines().filter(|line| is(line)).count();
    // A program that crashed, or did not compile, is a target that failed without a result.
    let targets = count(&|line| line.trim_start().starts_with("`-p "));
    let results = count(&|line| line.starts_with("test result: FAILED"));
    let failed: Vec<_> = log.lines().filter_map(failed_name).collect();
    let few = (1..=AGAIN_AT_MOST).contains(&failed.len());
    (few && targets > 0 && targets == results).then_some(failed)
}

fn failed_name(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

#[cfg(test)]
mod tests {
    use super::{AGAIN_AT_MOST, failed_few};

    /// As cargo and the test harness write it.
    fn log(failed: &[&str], results: usize, targets: usize) -> String {
        let failed = failed
            .iter()
            .map(|name| format!("test {name} ... FAILED\n"));
        let results = (0..results).map(|_| "test result: FAILED. 1 passed; 1 failed\n".to_owned());
        let targets = (0..targets).map(|at| format!("    `-p crate-{at} --test it`\n"));
        let ok = "test a::b ... ok\ntest result: ok. 1 passed; 0 failed\n".to_owned();
        let all = std::iter::once(ok).chain(failed).chain(results);
        all.chain(["error: some targets failed:\n".to_owned()])
            .chain(targets)
            .collect()
    }

    #[test]
    fn a_few_failures_are_named() {
        assert_eq!(
            failed_few(&log(&["x::y", "z"], 2, 2)),
            Some(vec!["x::y", "z"])
        );
    }

    #[test]
    fn whatever_else_went_wrong_is_final() {
        assert_eq!(failed_few("error: could not compile `x`\n"), None);
        assert_eq!(failed_few(&log(&["x"], 1, 2)), None, "one crashed");
        assert_eq!(failed_few(&log(&["x"], 0, 0)), None, "it was stopped");
        let many = ["x"; AGAIN_AT_MOST + 1];
        assert_eq!(failed_few(&log(&many, 1, 1)), None);
    }
}
