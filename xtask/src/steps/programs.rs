//! Steps that run programs of this repository: the third-party backend, examples, benchmarks.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result, bail};
use cargo_metadata::{Package, TargetKind};

use super::Outcome;
use crate::{
    process::{Command, Shell},
    workspace::Workspace,
};

/// How long one example may take, once built.
const EXAMPLE_LIMIT: Duration = Duration::from_secs(120);
/// How long one smoke run may take, once built.
const SMOKE_LIMIT: Duration = Duration::from_secs(180);

/// A crate that is no member and has only the published interface to work with.
const THIRD_PARTY: &str = "examples/third-party-backend";

pub(super) fn third_party(_: &Workspace, shell: &mut Shell) -> Result<Outcome> {
    let manifest = format!("{THIRD_PARTY}/Cargo.toml");
    if !Path::new(&manifest).is_file() {
        bail!("{manifest} is missing; it shows that a backend can be written from outside");
    }
    let test = Command::cargo("test").args(["--manifest-path", &manifest, "--no-fail-fast"]);
    shell.run(&test.args(["--", "--include-ignored"]))?;
    let clippy = Command::cargo("clippy").args(["--manifest-path", &manifest, "--all-targets"]);
    shell.run(&clippy.args(["--", "-D", "warnings"]))?;
    shell.run(&Command::cargo("fmt").args(["--manifest-path", &manifest, "--check"]))?;
    Ok(Outcome::Passed)
}

pub(super) fn examples(workspace: &Workspace, shell: &mut Shell) -> Result<Outcome> {
    let package = workspace.member("sless-examples")?;
    let examples = targets(package, &TargetKind::Example);
    let strays = strays(package, &workspace.root.join("examples"))?;
    if !strays.is_empty() {
        bail!(
            "no target of sless-examples, so nobody can run them: {}",
            strays.join(", ")
        );
    }
    if examples.is_empty() {
        bail!("sless-examples has no example");
    }
    shell.run(&Command::cargo("build").args([
        "--package",
        &package.name,
        "--all-features",
        "--examples",
    ]))?;
    for example in &examples {
        let run = Command::cargo("run").args([
            "--quiet",
            "--package",
            &package.name,
            "--all-features",
            "--example",
        ]);
        shell.run(&run.arg(*example).limit(EXAMPLE_LIMIT))?;
    }
    Ok(Outcome::Noted(examples.join(", ")))
}

pub(super) fn benches(workspace: &Workspace, shell: &mut Shell) -> Result<Outcome> {
    let package = workspace.member("sless-benches")?;
    let benches = targets(package, &TargetKind::Bench);
    if benches.is_empty() {
        bail!("sless-benches has no benchmark");
    }
    // `cargo test` runs each benchmark once, with the packages that the tests have built already;
    // `cargo bench -- --test` would do the same after compiling everything again, optimized.
    let test =
        Command::cargo("test").args(["--package", &package.name, "--all-features", "--benches"]);
    shell.run(&test)?;
    let smokes = smokes(package)?;
    for Smoke { bin, args } in &smokes {
        let built = ["--package", &package.name, "--all-features", "--bin", bin];
        shell.run(&Command::cargo("build").args(built))?;
        let run = Command::cargo("run").arg("--quiet").args(built);
        shell.run(&run.arg("--").args(args).limit(SMOKE_LIMIT))?;
    }
    Ok(Outcome::Noted(format!(
        "{} benchmarks, {} smoke runs",
        benches.len(),
        smokes.len()
    )))
}

fn targets<'a>(package: &'a Package, kind: &TargetKind) -> Vec<&'a str> {
    let of_kind = |target: &&cargo_metadata::Target| target.kind.contains(kind);
    package
        .targets
        .iter()
        .filter(of_kind)
        .map(|target| target.name.as_str())
        .collect()
}

/// Files in the folder of the examples that look like examples and are none for cargo.
fn strays(package: &Package, folder: &Path) -> Result<Vec<String>> {
    let mut strays = vec![];
    for entry in folder
        .read_dir()
        .with_context(|| format!("cannot read {}", folder.display()))?
    {
        let path = entry?.path();
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        let known = package
            .targets
            .iter()
            .any(|target| target.src_path.as_std_path() == path);
        if is_source && !known {
            strays.push(path.display().to_string());
        }
    }
    strays.sort();
    Ok(strays)
}

/// A short run of a program whose full run takes long.
#[derive(Debug, PartialEq)]
struct Smoke {
    bin: String,
    args: Vec<String>,
}

/// Reads `[package.metadata.xtask] smoke = [["bin", "argument", …], …]`.
fn smokes(package: &Package) -> Result<Vec<Smoke>> {
    let smoke = &package.metadata["xtask"]["smoke"];
    if smoke.is_null() {
        return Ok(vec![]);
    }
    let lines: Vec<Vec<String>> = smoke
        .as_array()
        .and_then(|lines| {
            let words = |line: &serde_json::Value| {
                let words = line.as_array()?.iter();
                words.map(|word| word.as_str().map(str::to_owned)).collect()
            };
            lines.iter().map(words).collect()
        })
        .with_context(|| {
            format!(
                "package.metadata.xtask.smoke of {} must be a list of lists of words, not {smoke}",
                package.name
            )
        })?;
    lines
        .into_iter()
        .map(|mut words| {
            if words.is_empty() {
                bail!(
                    "package.metadata.xtask.smoke of {} has an empty line",
                    package.name
                );
            }
            let bin = words.remove(0);
            Ok(Smoke { bin, args: words })
        })
        .collect()
}
