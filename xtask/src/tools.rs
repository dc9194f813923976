//! The programs that the steps need: those that are installed here, and those that must be there.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::process::{Command, Shell};

/// Cargo subcommands that the steps use, in the order in which `cargo xtask tools` installs them.
pub(crate) const CARGO_TOOLS: [&CargoTool; 2] = [&CARGO_HACK, &CARGO_DENY];

/// Runs a command for each feature of each package.
pub(crate) const CARGO_HACK: CargoTool = CargoTool {
    name: "cargo-hack",
    version: "0.6.46",
};
/// Checks licences, sources and forbidden packages.
pub(crate) const CARGO_DENY: CargoTool = CargoTool {
    name: "cargo-deny",
    version: "0.20.2",
};

/// Programs that tests compare archives with, and what counts instructions; and the Debian package of each.
const PACKAGED_PROGRAMS: [(&str, &str); 4] = [
    ("zip", "zip"),
    ("unzip", "unzip"),
    ("bsdtar", "libarchive-tools"),
    ("valgrind", "valgrind"),
];

/// A published program in an exact version, so that a new release breaks nobody's run.
#[derive(Debug)]
pub(crate) struct CargoTool {
    name: &'static str,
    version: &'static str,
}

impl CargoTool {
    /// The path of the program, which is built and installed first where it is missing.
    pub(crate) fn ensure(&self, shell: &mut Shell) -> Result<PathBuf> {
        // A folder per version: an upgrade never meets the old program.
        let root = cache_folder()?
            .join("tools")
            .join(format!("{}-{}", self.name, self.version));
        let program =
            root.join("bin")
                .join(format!("{}{}", self.name, std::env::consts::EXE_SUFFIX));
        if !program.is_file() {
            shell.say(format_args!(
                "{} {} is not there yet",
                self.name, self.version
            ));
            let install = Command::cargo("install")
                .args(["--locked", "--version", self.version, "--root"])
                .arg(&root)
                .arg(self.name)
                // Into a folder of its own: the target folder may be locked by somebody's build.
                .env_remove("CARGO_TARGET_DIR")
                .env_remove("CARGO_BUILD_TARGET_DIR");
            shell
                .run(&install)
                .with_context(|| format!("cannot install {}", self.name))?;
        }
        Ok(program)
    }
}

/// Where this repository keeps what can be made again: `$XDG_CACHE_HOME/sless` or `~/.cache/sless`.
fn cache_folder() -> Result<PathBuf> {
    let folder = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let base = folder("XDG_CACHE_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| std::env::home_dir().map(|home| home.join(".cache")))
        .context("neither XDG_CACHE_HOME nor HOME is set; one must name a folder for tools")?;
    Ok(base.join("sless"))
}

/// Checks the language runtimes, and installs the archive programs where that can be done.
pub(crate) fn check_system(shell: &mut Shell) -> Result<()> {
    let mut missing = vec![];
    for requirement in REQUIREMENTS {
        if let Err(error) = requirement.check(shell) {
            missing.push(format!("{error:#}"));
        }
    }
    if !missing.is_empty() {
        bail!("{}", missing.join("; "));
    }
    ensure_packaged_programs(shell)
}

/// A program that this repository does not install.
struct Requirement {
    /// Names to try, the best first.
    programs: &'static [&'static str],
    args: &'static [&'static str],
    /// What the first line of the answer must start with.
    answer: &'static str,
    needed: &'static str,
}

const REQUIREMENTS: &[Requirement] = &[
    Requirement {
        programs: &["python3.11", "python3"],
        args: &["--version"],
        answer: "Python 3.11.",
        needed: "Python 3.11, which runs the Python functions (Debian: apt-get install python3)",
    },
    Requirement {
        programs: &["python3.11", "python3"],
        args: &["-m", "pip", "--version"],
        answer: "pip ",
        needed: "pip for Python 3.11, which installs the requirements of functions \
                 (Debian: apt-get install python3-pip)",
    },
    Requirement {
        programs: &["node"],
        args: &["--version"],
        answer: "v20.",
        needed: "Node.js 20, which runs the Node functions",
    },
    Requirement {
        programs: &["npm"],
        args: &["--version"],
        answer: "",
        needed: "npm, which installs the packages of Node functions",
    },
    Requirement {
        programs: &["git"],
        args: &["--version"],
        answer: "git version ",
        needed: "git, which tells the files of this repository",
    },
];

impl Requirement {
    fn check(&self, shell: &mut Shell) -> Result<()> {
        let mut found = vec![];
        for program in self.programs {
            match std::process::Command::new(program).args(self.args).output() {
                Ok(output) => {
                    let text = String::from_utf8_lossy(&output.stdout);
                    let line = text.lines().next().unwrap_or_default().trim();
                    if output.status.success() && line.starts_with(self.answer) {
                        shell.say(format_args!("{program} {}: {line}", self.args.join(" ")));
                        return Ok(());
                    }
                    found.push(format!("`{program} {}` says {line:?}", self.args.join(" ")));
                }
                Err(error) => found.push(format!("`{program}`: {error}")),
            }
        }
        bail!("missing: {} ({})", self.needed, found.join(", "))
    }
}

fn ensure_packaged_programs(shell: &mut Shell) -> Result<()> {
    let missing = || -> Vec<&str> {
        let absent = |(program, _): &&(&str, &str)| !on_path(program);
        PACKAGED_PROGRAMS
            .iter()
            .filter(absent)
            .map(|(_, package)| *package)
            .collect()
    };
    let packages = missing();
    if packages.is_empty() {
        shell.say("zip, unzip, bsdtar, valgrind: there");
        return Ok(());
    }
    let by_hand = format!("apt-get install {}", packages.join(" "));
    if !on_path("apt-get") || !is_root() {
        bail!("missing: programs that tests and benchmarks run; as root: {by_hand}");
    }
    let apt = || Command::new("apt-get").env("DEBIAN_FRONTEND", "noninteractive");
    shell
        .run(&apt().args(["update", "--quiet"]))
        .with_context(|| by_hand.clone())?;
    shell
        .run(
            &apt()
                .args(["install", "--quiet", "--yes", "--no-install-recommends"])
                .args(&packages),
        )
        .with_context(|| by_hand.clone())?;
    let still = missing();
    if !still.is_empty() {
        bail!(
            "`{by_hand}` succeeded and gave no program of {}",
            still.join(", ")
        );
    }
    Ok(())
}

fn on_path(program: &str) -> bool {
    let name = format!("{program}{}", std::env::consts::EXE_SUFFIX);
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(&name).is_file()))
}

fn is_root() -> bool {
    // The owner of a process's own folder is its effective user.
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::MetadataExt as _;
        std::fs::metadata(Path::new("/proc/self")).is_ok_and(|own| own.uid() == 0)
    }
    #[cfg(not(target_os = "linux"))]
    {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::{Requirement, on_path};
    use crate::process::Shell;
    use std::time::Duration;

    fn requirement(programs: &'static [&'static str], answer: &'static str) -> Requirement {
        Requirement {
            programs,
            args: &["--version"],
            answer,
            needed: "cargo, for this test",
        }
    }

    #[test]
    fn a_missing_program_and_a_wrong_version_are_both_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut shell =
            Shell::new(folder.path().join("log"), Duration::from_secs(60)).expect("a shell");
        requirement(&["no-such-program-here", "cargo"], "cargo ")
            .check(&mut shell)
            .expect("the second name counts too");
        let error = requirement(&["no-such-program-here", "cargo"], "cargo 0.")
            .check(&mut shell)
            .expect_err("no such version")
            .to_string();
        for part in [
            "cargo, for this test",
            "`no-such-program-here`",
            "`cargo --version` says",
        ] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn programs_are_found_by_name() {
        assert!(on_path("cargo"));
        assert!(!on_path("no-such-program-here"));
    }
}
