//! `dev`: each folder is a function, deployed at the start and again whenever it changes.

use std::{
    collections::BTreeMap,
    fs, io,
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use futures::StreamExt;
use sless_core::{
    Deploy, Function, FunctionPhase, FunctionSpec, LogOptions, Name, Namespace, Runtime, Sless,
    source::{SourceLimits, SourceTree, pack},
};
use tokio::task::JoinSet;

use crate::{convert::log_text, settings::Settings};

/// How often folders are looked at. They are compared by name, size and time of their files, which
/// costs little for folders that people write by hand and needs nothing of the system.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// The namespace of what `dev` deploys.
const NAMESPACE: &str = "dev";

/// Folders that are never part of a function's code.
const NEVER_TAKEN: &[&str] = &[
    ".git",
    ".hg",
    ".idea",
    ".mypy_cache",
    ".pytest_cache",
    ".venv",
    ".vscode",
    "__pycache__",
    "node_modules",
    "venv",
];

/// Deploys and watches, until it is dropped.
#[derive(Debug)]
pub(super) struct Session {
    _tasks: JoinSet<()>,
}

/// One folder and the function that it is.
#[derive(Clone, Debug)]
struct Project {
    folder: PathBuf,
    name: Name,
    runtime: Runtime,
}

impl Session {
    /// Begins to deploy these folders.
    ///
    /// # Errors
    /// A sentence that names the folder that is none, whose name cannot be a function's, or whose
    /// language cannot be told.
    pub(super) fn begin(
        sless: Sless,
        folders: &[PathBuf],
        settings: &Settings,
    ) -> Result<Self, String> {
        let mut projects = BTreeMap::new();
        for folder in folders {
            let project = Project::of(folder)?;
            if let Some(other) = projects.insert(project.name.clone(), project) {
                return Err(format!(
                    "two folders are named {}: one function each",
                    other.name
                ));
            }
        }
        let mut tasks = JoinSet::new();
        let limits = sless.options().source_limits.clone();
        tracing::debug!(url = settings.external_url, "deploying folders");
        for project in projects.into_values() {
            tasks.spawn(project.clone().show_logs(sless.clone()));
            tasks.spawn(project.keep_deployed(sless.clone(), limits.clone()));
        }
        Ok(Self { _tasks: tasks })
    }
}

impl Project {
    fn of(folder: &Path) -> Result<Self, String> {
        let shown = folder.display();
        let folder = folder
            .canonicalize()
            .map_err(|error| format!("{shown}: {error}"))?;
        if !folder.is_dir() {
            return Err(format!(
                "{shown} is a file: expected a folder with a function's code"
            ));
        }
        let name = folder
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let name = name.to_ascii_lowercase().replace(['_', ' ', '.'], "-");
        let name = Name::new(&name).map_err(|error| format!("{shown}: {}", error.message()))?;
        let runtime = language(&folder).ok_or_else(|| {
            format!("{shown}: expected handler.py or handler.js (or index.js and package.json)")
        })?;
        Ok(Self {
            folder,
            name,
            runtime,
        })
    }

    async fn keep_deployed(self, sless: Sless, limits: SourceLimits) {
        let mut seen = None;
        loop {
            let now = glance(&self.folder);
            if seen.as_ref() != Some(&now) {
                self.deploy(&sless, &limits).await;
                seen = Some(now);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn deploy(&self, sless: &Sless, limits: &SourceLimits) {
        let name = &self.name;
        match self.deployed(sless, limits).await {
            Ok(function) if function.status.phase == FunctionPhase::Ready => {
                let url = sless.function_url(&function.metadata.namespace, name);
                say(&format!(
                    "{name} is ready at {url}\n  curl {url} -H 'content-type: application/json' \
                     -d '{{}}'"
                ));
            }
            Ok(function) => {
                let status = &function.status;
                let phase = status.phase.as_str();
                say(&format!(
                    "{name} is {phase}: {} {}",
                    status.reason, status.message
                ));
            }
            Err(error) => say(&format!("{name} was not deployed: {}", error.message())),
        }
    }

    async fn deployed(&self, sless: &Sless, limits: &SourceLimits) -> sless_core::Result<Function> {
        let zip = self.zip(limits)?;
        let namespace = Namespace::new(NAMESPACE)?;
        let spec = FunctionSpec::new(self.runtime);
        sless
            .deploy(Deploy::zip(namespace, self.name.clone(), spec, zip))
            .await
    }

    fn zip(&self, limits: &SourceLimits) -> sless_core::Result<Vec<u8>> {
        let keep = |path: &str| is_taken(path.rsplit('/').next().unwrap_or(path));
        let tree: SourceTree = pack::read_dir(&self.folder, limits, keep)?;
        Ok(pack::write_zip(&tree, io::Cursor::new(Vec::new()))?.into_inner())
    }

    /// Shows what the function writes, from now on; waits where it is not there yet.
    async fn show_logs(self, sless: Sless) {
        let Ok(namespace) = Namespace::new(NAMESPACE) else {
            return;
        };
        let mut since = jiff::Timestamp::now();
        loop {
            let options = LogOptions::default().following().with_since(since);
            if let Ok(mut lines) = sless.logs(&namespace, &self.name, &options).await {
                while let Some(Ok(line)) = lines.next().await {
                    since = line.at + jiff::SignedDuration::from_nanos(1);
                    say(format!("{} | {}", self.name, log_text(&line)).trim_end());
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

fn is_taken(name: &str) -> bool {
    !NEVER_TAKEN.contains(&name) && !name.ends_with(".pyc") && !name.ends_with('~')
}

/// The language, by the files that a function of each begins with.
fn language(folder: &Path) -> Option<Runtime> {
    let has = |name: &str| folder.join(name).is_file();
    if has("handler.py") || has("requirements.txt") {
        Some(Runtime::Python311)
    } else if has("handler.js") || has("handler.mjs") || has("handler.cjs") || has("package.json") {
        Some(Runtime::NodeJs20)
    } else {
        None
    }
}

/// Every file below a folder, with its size and time.
fn glance(folder: &Path) -> BTreeMap<PathBuf, (u64, Option<SystemTime>)> {
    let mut files = BTreeMap::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(folder) = pending.pop() {
        // What goes while it is looked at is seen at the next look.
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            if !is_taken(&entry.file_name().to_string_lossy()) {
                continue;
            }
            if metadata.is_dir() {
                pending.push(entry.path());
            } else {
                files.insert(entry.path(), (metadata.len(), metadata.modified().ok()));
            }
        }
    }
    files
}

/// For whoever sits in front: standard output, beside the log on standard error.
fn say(text: &str) {
    // A reader that left wants to hear no more.
    let _ = writeln!(io::stdout(), "{text}");
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_folder_is_a_function_of_its_name_and_language() {
        let root = tempfile::tempdir().unwrap();
        let folder = |name: &str, file: &str| {
            let folder = root.path().join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(file), "").unwrap();
            folder
        };
        let python = Project::of(&folder("My_Function", "handler.py")).unwrap();
        assert_eq!(
            (python.name.as_str(), python.runtime),
            ("my-function", Runtime::Python311)
        );
        let node = Project::of(&folder("web", "package.json")).unwrap();
        assert_eq!(node.runtime, Runtime::NodeJs20);
        let error = Project::of(&folder("other", "main.go")).unwrap_err();
        assert!(
            error.contains("expected handler.py or handler.js"),
            "{error}"
        );
        let error = Project::of(&root.path().join("nowhere")).unwrap_err();
        assert!(error.contains("nowhere"), "{error}");
    }

    #[test]
    fn a_change_is_seen_and_what_is_not_taken_is_not() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("handler.py"), "1").unwrap();
        let before = glance(root.path());
        fs::create_dir(root.path().join("__pycache__")).unwrap();
        fs::write(root.path().join("__pycache__/handler.pyc"), "1").unwrap();
        assert_eq!(glance(root.path()), before);
        fs::write(root.path().join("handler.py"), "22").unwrap();
        assert_ne!(glance(root.path()), before);
    }
}
