//! How functions and installers are kept apart from each other and from this process.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sless_core::{Error, ErrorKind, Result};
use sless_runtime::{
    ConfinedCommand, Confinement, Enforcement, Protection, Sandbox, SandboxReport,
};

use crate::error::BACKEND;

/// Whether functions and installers are confined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxMode {
    /// As far as this machine can enforce it; [`Local::sandbox`](crate::Local::sandbox) tells what it
    /// lacks.
    #[default]
    Auto,
    /// Fully: where something is lacking, nothing is opened.
    Required,
    /// Not at all: they may do what the user of this process may do.
    Off,
}

/// Settings of the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SandboxConfig {
    /// Whether there is one.
    pub mode: SandboxMode,
    /// Its limits, and what may be read and written beyond what functions are made of.
    pub confinement: Confinement,
    /// The longest file that an installer may write, in bytes: packages hold longer ones than functions
    /// write.
    pub build_file_bytes: u64,
    /// What the folder of one function may hold, its `HOME` and `TMPDIR`, in bytes. The kernel does not
    /// bound it: it is looked at, and a function that has more loses its workers and its files.
    pub home_bytes: u64,
    /// How many files and folders it may hold.
    pub home_files: usize,
    /// How often it is looked at, in milliseconds.
    pub home_look_ms: u64,
}

impl Default for SandboxConfig {
    fn default() -> Self {
        Self {
            mode: SandboxMode::Auto,
            confinement: Confinement::default(),
            build_file_bytes: 8 << 30,
            home_bytes: 1 << 30,
            home_files: 100_000,
            home_look_ms: 2_000,
        }
    }
}

impl SandboxConfig {
    /// What is enforced here for this data folder, or `None` where nothing is asked for. Looks at the
    /// machine, and blocks for some milliseconds.
    pub(crate) fn report(&self, data_dir: &Path) -> Option<SandboxReport> {
        if self.mode == SandboxMode::Off {
            return None;
        }
        let mut report = SandboxReport::of_this_machine();
        if let Some(open) = self.opens(data_dir) {
            let why = format!(
                "the data folder is below {}, which functions read",
                open.display()
            );
            for protection in &mut report.protections {
                if protection.name == "files" {
                    protection.enforcement = Enforcement::Lacking(why.clone());
                }
            }
        }
        let why = format!(
            "the folder of a function is looked at every {} ms, so that more can be written in between; a \
             file that was deleted and is still open does not count",
            self.home_look_ms
        );
        report.protections.push(Protection::new(
            "disk_total",
            "many files that fill the disk",
            Enforcement::Partly(why),
        ));
        Some(report)
    }

    /// A folder that functions read, and that the data folder lies in.
    fn opens(&self, data_dir: &Path) -> Option<PathBuf> {
        let plain = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let data_dir = plain(data_dir);
        let system = ["/usr", "/nix/store"].map(PathBuf::from);
        let (read, write) = (&self.confinement.read, &self.confinement.write);
        let mut folders = system.iter().chain(read).chain(write);
        folders
            .find(|folder| data_dir.starts_with(plain(folder)))
            .cloned()
    }

    /// Refuses a machine that lacks something, where it is required.
    pub(crate) fn check(&self, report: Option<&SandboxReport>) -> Result<()> {
        if self.mode != SandboxMode::Required {
            return Ok(());
        }
        let lacking: Vec<_> = report
            .iter()
            .flat_map(|report| report.lacking())
            .map(|(name, why)| format!("{name} ({why})"))
            .collect();
        if lacking.is_empty() {
            return Ok(());
        }
        let message = format!(
            "a sandbox is required, and this machine lacks: {}",
            lacking.join(", ")
        );
        Err(Error::new(ErrorKind::Unsupported, message)
            .with_reason("sandbox_lacking")
            .at(BACKEND))
    }

    /// That of a worker.
    pub(crate) fn of_worker(&self) -> Sandbox {
        match self.mode {
            SandboxMode::Off => Sandbox::Off,
            // What is required was looked at when this was opened.
            SandboxMode::Auto | SandboxMode::Required => {
                Sandbox::Confined(self.confinement.clone())
            }
        }
    }

    /// That of an installer.
    pub(crate) fn of_installer(&self, command: ConfinedCommand) -> Option<Confined> {
        (self.mode != SandboxMode::Off).then(|| {
            let mut confinement = self.confinement.clone();
            confinement.file_bytes = self.build_file_bytes;
            Confined {
                command,
                confinement,
            }
        })
    }
}

/// A command and its sandbox.
#[derive(Clone, Debug)]
pub(crate) struct Confined {
    pub(crate) command: ConfinedCommand,
    pub(crate) confinement: Confinement,
}

/// Whether a folder holds more than it may. It is looked at only so far as it takes to know that.
pub(crate) fn is_over(folder: &Path, bytes: u64, files: usize) -> bool {
    let (mut held, mut count) = (0_u64, 0_usize);
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        // What goes away meanwhile is not there.
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(found) = entry.metadata() else {
                continue;
            };
            count += 1;
            held = held.saturating_add(size_on_disk(&found));
            if held > bytes || count > files {
                return true;
            }
            if found.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    false
}

#[cfg(unix)]
fn size_on_disk(found: &std::fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    found.blocks().saturating_mul(512)
}

#[cfg(not(unix))]
fn size_on_disk(found: &std::fs::Metadata) -> u64 {
    found.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_over_by_its_bytes_or_by_its_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        std::fs::create_dir(path.join("a")).expect("made");
        std::fs::write(path.join("a/one"), vec![1; 100_000]).expect("written");
        std::fs::write(path.join("two"), "").expect("written");
        assert!(!is_over(path, 1 << 20, 3));
        assert!(is_over(path, 50_000, 3));
        assert!(is_over(path, 1 << 20, 2));
        assert!(!is_over(&path.join("nothing"), 0, 0));
    }

    #[test]
    fn a_data_folder_that_functions_could_read_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        std::fs::create_dir(&data).expect("made");
        let mut config = SandboxConfig::default();
        assert_eq!(config.opens(&data), None);
        assert_eq!(
            config.opens(Path::new("/usr/local/sless")),
            Some("/usr".into())
        );
        config.confinement.read.push(folder.path().to_owned());
        assert!(config.opens(&data).is_some());
        let report = config.report(&data).expect("a report");
        let lacking: Vec<_> = report.lacking().map(|(name, _)| name).collect();
        assert!(lacking.contains(&"files"), "{report}");
    }

    #[test]
    fn what_is_required_and_lacking_is_named() {
        let mut config = SandboxConfig::default();
        let lacking = Enforcement::Lacking("too old".to_owned());
        let mut report = SandboxReport::default();
        report
            .protections
            .push(Protection::new("signals", "signals", lacking));
        assert!(config.check(Some(&report)).is_ok());
        config.mode = SandboxMode::Required;
        let error = config.check(Some(&report)).expect_err("lacking");
        assert_eq!(error.reason(), "sandbox_lacking");
        assert!(error.message().contains("signals (too old)"), "{error}");
        assert!(config.check(Some(&SandboxReport::default())).is_ok());
    }
}
