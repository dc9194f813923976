//! This program under callgrind: one run, and a total for each case.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};

/// The function whose calls are counted, as callgrind names it: see [`counted`](crate::cases::counted).
const COUNTED: &str = "instructions::cases::counted";

/// Instructions of one round of each case, in order.
pub(crate) fn count() -> Result<Vec<(String, u64)>> {
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("out");
    let ran = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet"])
        .arg(format!("--zero-before={COUNTED}"))
        .arg(format!("--dump-after={COUNTED}"))
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe()?)
        .arg("--cases")
        .stdin(Stdio::null())
        .output()
        .context("cannot run valgrind (Debian: apt-get install valgrind)")?;
    let said = String::from_utf8_lossy(&ran.stderr);
    ensure!(
        ran.status.success(),
        "callgrind ended with {}: {said}",
        ran.status
    );
    let names = String::from_utf8(ran.stdout)?;
    let mut counts = Vec::new();
    for (number, line) in (1..).zip(names.lines()) {
        let (name, rounds) = line.rsplit_once('\t').context("a case without rounds")?;
        let file = folder.path().join(format!("out.{number}"));
        let instructions = total(&file).with_context(|| format!("{name}: {said}"))?;
        counts.push((name.to_owned(), instructions / rounds.parse::<u64>()?));
    }
    ensure!(!counts.is_empty(), "no case was run");
    Ok(counts)
}

/// What a dump holds in all.
fn total(dump: &Path) -> Result<u64> {
    let text = std::fs::read_to_string(dump)
        .context("no dump: the program has no symbols, or the function another name")?;
    let line = text.lines().find_map(|line| line.strip_prefix("totals: "));
    let total = line.context("a dump without totals")?.trim().parse()?;
    ensure!(total > 0, "nothing was counted");
    Ok(total)
}
