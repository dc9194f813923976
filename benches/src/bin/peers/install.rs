//! What contestants need, in a cache folder outside of the checkout. Nothing of the system is changed.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::contestants::Need;

/// How long one installation may take.
const PATIENCE: Duration = Duration::from_secs(600);
/// Where Debian puts its interpreter. Another one on the machine may load hooks that add to every start.
const PYTHON: &str = "/usr/bin/python3.11";
/// In a folder that is complete.
const DONE: &str = ".complete";

/// Programs, and the folder where others are put.
#[derive(Debug)]
pub(crate) struct Cache {
    pub(crate) folder: PathBuf,
    pub(crate) python: Option<PathBuf>,
    pub(crate) node: Option<PathBuf>,
    pub(crate) runtime: Result<PathBuf, String>,
    pub(crate) server: Result<PathBuf, String>,
    /// Nothing is fetched: what is not there already is missing.
    pub(crate) offline: bool,
}

impl Cache {
    pub(crate) fn open(folder: PathBuf, offline: bool, build: bool) -> Result<Self> {
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let debian = Some(PathBuf::from(PYTHON)).filter(|path| path.is_file());
        Ok(Self {
            folder,
            python: debian.or_else(|| program("python3.11").or_else(|| program("python3"))),
            node: program("node"),
            runtime: ours("sless-runtime", &[], build).map_err(|error| format!("{error:#}")),
            server: ours("sless-server", &["--features", "kubernetes"], build)
                .map_err(|error| format!("{error:#}")),
            offline,
        })
    }

    /// Sees to it that something is there.
    pub(crate) fn ensure(&self, need: Need) -> Result<()> {
        match need {
            Need::Python => self.python.as_ref().map(drop).context("no python3.11"),
            Need::Node => self.node.as_ref().map(drop).context("no node"),
            Need::Runtime => has(&self.runtime),
            Need::Server => has(&self.server),
            Need::Pip(name, packages) => self.put(name, &packages.join(" "), |folder| {
                self.pip(folder, packages)
            }),
            Need::Npm(name, package) => self.put(name, package, |folder| {
                run(Command::new("npm")
                    .args(["install", "--no-audit", "--no-fund", "--loglevel=error"])
                    .arg("--prefix")
                    .arg(folder)
                    .arg(package))
            }),
            Need::Debian(package) => self.put(package, package, |folder| debian(folder, package)),
            Need::Go(path, version) => {
                let name = path.rsplit('/').next().unwrap_or(path);
                self.put(name, version, |folder| {
                    run(Command::new("go")
                        .arg("install")
                        .arg(format!("{path}@{version}"))
                        .env("GOBIN", folder)
                        .env("CGO_ENABLED", "0"))
                })
            }
        }
    }

    /// Fills a folder of the cache, unless this is in it already. It is there whole or not at all.
    fn put(&self, name: &str, what: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let folder = self.folder.join(name);
        if fs::read_to_string(folder.join(DONE)).is_ok_and(|there| there == what) {
            return Ok(());
        }
        ensure!(!self.offline, "not in the cache, and nothing is fetched");
        let partial = self.folder.join(format!("{name}.partial"));
        for old in [&folder, &partial] {
            if old.exists() {
                fs::remove_dir_all(old)?;
            }
        }
        fs::create_dir_all(&partial)?;
        fill(&partial)?;
        fs::write(partial.join(DONE), what)?;
        Ok(fs::rename(partial, folder)?)
    }

    /// Debian's interpreter mostly has no pip; that of another one of the same version does as well.
    fn pip(&self, folder: &Path, packages: &[&str]) -> Result<()> {
        let python = self.python.as_deref().context("no python3.11")?;
        let version = |python: &Path| {
            let asked = ["-c", "import sys, pip; print(sys.version_info[:2])"];
            let told = Command::new(python).args(asked).output().ok()?;
            told.status.success().then_some(told.stdout)
        };
        let own = Command::new(python)
            .args(["-c", "import sys; print(sys.version_info[:2])"])
            .output()?;
        let candidates = [
            Some(python.to_owned()),
            program("python3.11"),
            program("python3"),
        ];
        let with_pip = candidates
            .into_iter()
            .flatten()
            .find(|python| version(python).as_ref() == Some(&own.stdout))
            .context("no pip for this Python")?;
        run(Command::new(with_pip)
            .args(["-m", "pip", "install", "--quiet", "--no-input"])
            .arg("--target")
            .arg(folder)
            .args(packages))
    }
}

fn has(program: &Result<PathBuf, String>) -> Result<()> {
    match program {
        Ok(_) => Ok(()),
        Err(why) => bail!("{why}"),
    }
}

/// A program of this workspace, in the build that this program is of. `build` sees to it that it is not
/// older than its source; else the one beside this program is taken, if there is one.
fn ours(name: &str, more: &[&str], build: bool) -> Result<PathBuf> {
    let beside = std::env::current_exe()?.with_file_name(name);
    if beside.is_file() && !build {
        return Ok(beside);
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--package", name, "--bin", name]);
    command.args(more).current_dir(env!("CARGO_MANIFEST_DIR"));
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    // It takes as long as it takes.
    let status = command.stdin(Stdio::null()).status()?;
    ensure!(
        status.success(),
        "cargo build of {name} ended with {status}"
    );
    ensure!(beside.is_file(), "no {name} beside this program");
    Ok(beside)
}

/// Unpacks a package without installing it, so that nothing of the system is changed and nothing started.
fn debian(folder: &Path, package: &str) -> Result<()> {
    let fetch = || {
        run(Command::new("apt-get")
            .args(["download", "-qq", package])
            .current_dir(folder))
    };
    if let Err(error) = fetch() {
        // The lists may be missing, or old; only root may fetch them.
        if !rustix::process::geteuid().is_root() {
            return Err(error);
        }
        run(Command::new("apt-get").args(["update", "-qq"]))?;
        fetch()?;
    }
    let file = folder
        .read_dir()?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension() == Some(OsStr::new("deb")))
        .context("apt-get fetched no package")?;
    run(Command::new("dpkg").arg("-x").arg(&file).arg(folder))?;
    Ok(fs::remove_file(file)?)
}

/// Runs a command to its end, and answers what it said where it fails.
fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let told = tempfile::NamedTempFile::new()?;
    command
        .stdin(Stdio::null())
        .stdout(told.reopen()?)
        .stderr(told.reopen()?);
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot run {name}"))?;
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if begun.elapsed() > PATIENCE {
            // What is left of it is ended with it.
            let _ = child.kill();
            let _ = child.wait();
            bail!("{name} did not end within {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let text = fs::read_to_string(told.path()).unwrap_or_default();
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    ensure!(
        status.success(),
        "{name} ended with {status}: {}",
        last.unwrap_or_default()
    );
    Ok(())
}

/// Where a program is, by PATH.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}
