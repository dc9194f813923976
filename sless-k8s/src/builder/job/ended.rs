//! What the end of a Job means.

use sless_core::{Failure, reason, source::Dependencies};

use super::{follow::Run, why};
use crate::builder::builds::Broken;

/// Lines of the end of a log that go along with a failure.
const TAIL: usize = 60;
/// What BuildKit and kaniko say where a command of the Dockerfile failed.
const COMMAND_FAILED: [&str; 2] = [
    "did not complete successfully",
    "waiting for process to exit",
];
/// The exit code of a process that was killed, as one is that takes too much memory.
const KILLED: &str = "137";

/// Whether a Job has made its image, and else why not.
pub(super) fn verdict(run: &Run, dependencies: &Dependencies, asked: &str) -> Result<(), Broken> {
    let Some(ended) = &run.ended else {
        return Ok(());
    };
    if ended.exit_code == 0 {
        return Ok(());
    }
    let lines: Vec<&str> = run.lines.iter().map(String::as_str).collect();
    let tail = lines[lines.len().saturating_sub(TAIL)..].join("\n");
    let failed = lines
        .iter()
        .rev()
        .find(|line| COMMAND_FAILED.iter().any(|mark| line.contains(mark)));
    let killed = failed.is_some_and(|line| line.trim_end_matches('.').ends_with(KILLED));
    if ended.out_of_memory || killed {
        let message = "the build took more memory than it may (builds.memory)";
        let failure = Failure::new(reason::OUT_OF_MEMORY, message).with_log(&tail);
        return Err(Broken::Failed(failure));
    }
    if failed.is_some() {
        let message = why::of(dependencies, asked, &lines);
        let failure = Failure::new(reason::INSTALL_FAILED, message).with_log(&tail);
        return Err(Broken::Failed(failure));
    }
    // Nothing of the function's own has run: the tool could not start, pull or push.
    let telling = |line: &&&str| {
        let lower = line.to_ascii_lowercase();
        lower.contains("error:") || lower.contains("failed to solve")
    };
    let said = lines.iter().rev().find(telling).or(lines.last());
    let said = said.map_or("it wrote nothing", |line| line.trim());
    let word = match said.to_ascii_lowercase() {
        text if text.contains("unauthorized") || text.contains("denied") => "registry_auth",
        text if text.contains("no space left on device") => "disk_full",
        _ => reason::BACKEND_UNAVAILABLE,
    };
    let message = format!("the build ended with code {}: {said}", ended.exit_code);
    let failure = Failure::new(word, message).with_log(&tail);
    Err(Broken::Later(failure))
}
