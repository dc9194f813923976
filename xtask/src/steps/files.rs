//! What is true of every file of the repository.

use std::path::Path;

use anyhow::{Context as _, Result, bail};

use super::Outcome;
use crate::{
    process::{Command, Shell},
    workspace::Workspace,
};

/// The longest source file. They aim far below; past this one, a file holds two things.
const SOURCE_LINES: usize = 500;
/// The only place where the packages of a Cargo.lock come from.
const CRATES: &str = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";

pub(super) fn run(workspace: &Workspace, shell: &mut Shell) -> Result<Outcome> {
    let machine = Machine::here(&workspace.root);
    let files = shell.output(&Command::new("git").args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]))?;
    let mut seen = 0;
    let mut problems = vec![];
    for file in files.split('\0').filter(|file| !file.is_empty()) {
        let path = workspace.root.join(file);
        // A deleted file stays in the list until the deletion is committed; a link has no text.
        if !path
            .symlink_metadata()
            .is_ok_and(|metadata| metadata.is_file())
        {
            continue;
        }
        let bytes = std::fs::read(&path).with_context(|| format!("cannot read {file}"))?;
        seen += 1;
        if let Ok(text) = String::from_utf8(bytes) {
            problems.extend(check(file, &text, &machine));
        }
    }
    if seen == 0 {
        bail!("git knows no file here");
    }
    if std::env::var_os("CI").is_some() {
        // Building writes what is missing into the lock file: it was not committed as it must be.
        shell
            .run(&Command::new("git").args(["diff", "--exit-code", "HEAD", "--", "Cargo.lock"]))
            .context("Cargo.lock does not fit the manifests; commit what cargo made of it")?;
    }
    for problem in &problems {
        shell.say(problem);
    }
    if !problems.is_empty() {
        bail!("{} problems in files, listed above", problems.len());
    }
    Ok(Outcome::Noted(format!("{seen} files")))
}

/// The folders that no file may name, since they exist on this machine only.
#[derive(Debug)]
struct Machine {
    folders: Vec<String>,
}

impl Machine {
    fn here(root: &Path) -> Self {
        let home = std::env::home_dir().unwrap_or_default();
        Self::new(&[root, home.as_path()])
    }

    fn new(folders: &[&Path]) -> Self {
        let folders = folders
            .iter()
            .filter(|folder| folder.components().count() > 1)
            .map(|folder| format!("{}/", folder.display()))
            .collect();
        Self { folders }
    }
}

/// The rules that a file breaks, one line each.
fn check(file: &str, text: &str, machine: &Machine) -> Vec<String> {
    let name = file.rsplit('/').next().unwrap_or(file);
    let mut problems = vec![];
    if name.ends_with(".rs") {
        let lines = text.lines().count();
        if lines > SOURCE_LINES {
            problems.push(format!("{file}: {lines} lines; split it by {SOURCE_LINES}"));
        }
    }
    for (number, line) in (1..).zip(text.lines()) {
        let mut problem = |what: &str| problems.push(format!("{file}:{number}: {what}"));
        if name.ends_with(".rs") {
            if line.trim() == "#[ignore]" {
                problem("an ignored test says what it needs: #[ignore = \"needs …\"]");
            }
            if is_ignored_doctest(line) {
                problem("a doctest that is never run; mark it no_run, or text, or let it run");
            }
        }
        // The home folder of an image is no folder of this machine.
        if !name.starts_with("Dockerfile") {
            for folder in &machine.folders {
                if line.contains(folder.as_str()) {
                    problem(&format!("names {folder}, a folder of this machine"));
                }
            }
        }
        if let Some(what) = names_registry(name, line) {
            problem(what);
        }
    }
    problems
}

fn is_ignored_doctest(line: &str) -> bool {
    let line = line.trim_start();
    let Some(text) = line
        .strip_prefix("///")
        .or_else(|| line.strip_prefix("//!"))
    else {
        return false;
    };
    text.trim_start().strip_prefix("```").is_some_and(|info| {
        info.split(',')
            .any(|word| word.trim().starts_with("ignore"))
    })
}

/// Files that would send other people's package clients to the registry of one workplace.
fn names_registry(name: &str, line: &str) -> Option<&'static str> {
    let line = line.trim();
    match name {
        "package-lock.json" | "npm-shrinkwrap.json" if line.starts_with("\"resolved\": \"http") => {
            Some("names a registry; `npm install --omit-lockfile-registry-resolved` leaves it out")
        }
        ".npmrc" if line.contains("registry") => Some("names a registry"),
        "Cargo.lock" if line.starts_with("source = ") && line != CRATES => {
            Some("a package that is not from the public registry")
        }
        "config.toml" if line.starts_with("[source") || line.starts_with("[registries") => {
            Some("names a registry")
        }
        _ if name.ends_with(".txt") => {
            let option = line.split([' ', '=']).next().unwrap_or_default();
            let known = [
                "-i",
                "--index-url",
                "--extra-index-url",
                "-f",
                "--find-links",
                "--trusted-host",
            ];
            known.contains(&option).then_some("names a registry")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Machine, SOURCE_LINES, check};

    fn problems(file: &str, text: &str) -> Vec<String> {
        check(
            file,
            text,
            &Machine::new(&[Path::new("/srv/checkout"), Path::new("/")]),
        )
    }

    #[test]
    fn a_long_source_file_is_found() {
        assert!(problems("a/b.rs", &"\n".repeat(SOURCE_LINES)).is_empty());
        assert_eq!(
            problems("a/b.rs", &"\n".repeat(SOURCE_LINES + 1)),
            ["a/b.rs: 501 lines; split it by 500"]
        );
        assert!(problems("a/b.json", &"\n".repeat(9 * SOURCE_LINES)).is_empty());
    }

    #[test]
    fn folders_of_this_machine_are_found() {
        assert_eq!(
            problems("notes.md", "fine\nsee /srv/checkout/x\n"),
            ["notes.md:2: names /srv/checkout/, a folder of this machine"]
        );
        assert!(problems("notes.md", "a / b, /usr/bin/env").is_empty());
        assert!(problems("Dockerfile.python", "COPY x /srv/checkout/x").is_empty());
    }

    #[test]
    fn registries_are_found_where_clients_read_them() {
        let resolved = "      \"resolved\": \"https://registry.example/x.tgz\",";
        assert_eq!(problems("f/package-lock.json", resolved).len(), 1);
        assert!(problems("f/package-lock.json", "\"resolved\": \"../x\",").is_empty());
        assert!(problems("f/other.json", resolved).is_empty());
        assert_eq!(
            problems("requirements.txt", "--index-url=https://x\npillow==1").len(),
            1
        );
        assert_eq!(problems("requirements.txt", "-i https://x").len(), 1);
        assert_eq!(
            problems("Cargo.lock", "source = \"registry+https://x\"").len(),
            1
        );
        assert!(problems("Cargo.lock", super::CRATES).is_empty());
        assert_eq!(
            problems(".cargo/config.toml", "[source.crates-io]").len(),
            1
        );
    }

    #[test]
    fn tests_that_nobody_runs_are_found() {
        assert_eq!(problems("t.rs", "    #[ignore]\n").len(), 1);
        assert!(problems("t.rs", "#[ignore = \"needs RabbitMQ\"]").is_empty());
        assert_eq!(problems("t.rs", "/// ```ignore").len(), 1);
        assert_eq!(problems("t.rs", "//! ```rust,ignore").len(), 1);
        assert!(problems("t.rs", "/// ```no_run\n//! ```text").is_empty());
    }
}
