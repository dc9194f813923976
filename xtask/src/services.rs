//! The real services that tests run against: each folder of `testing/` with a program `up` is one.
//!
//! `up STATE_DIR` installs what is missing, starts the service with all its state in that folder,
//! waits until it answers, and prints what tests need as `NAME=VALUE` lines; `down STATE_DIR` ends
//! exactly that one. A new service is a new folder, and nothing here changes.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use crate::{
    process::{Command, Shell},
    workspace::Workspace,
};

/// How long one service may take to be installed and started: the first time on a machine, some are
/// built from source. Kubernetes takes 15 to 26 minutes for that, by how fast its sources come, and some
/// more for the images.
const UP_LIMIT: Duration = Duration::from_secs(45 * 60);
/// How long one may take to end.
const DOWN_LIMIT: Duration = Duration::from_secs(2 * 60);

/// One service.
#[derive(Clone, Debug)]
struct Service {
    name: String,
    folder: PathBuf,
    state: PathBuf,
}

/// Services that were started, and are ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    started: Vec<Service>,
    variables: Vec<(String, String)>,
    log: PathBuf,
}

impl Running {
    /// What tests are told.
    pub(crate) fn variables(&self) -> &[(String, String)] {
        &self.variables
    }

    /// Lets them run on, for a person to use.
    fn leave(mut self) -> Vec<(String, String)> {
        self.started.clear();
        std::mem::take(&mut self.variables)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for service in self.started.iter().rev() {
            if let Err(error) = end(service, &self.log) {
                eprintln!("warning: {} was not ended: {error:#}", service.name);
            }
        }
    }
}

/// Starts every service; where one does not start, those before it are ended again.
pub(crate) fn start_all(workspace: &Workspace) -> Result<Running> {
    start(workspace, &all(workspace)?)
}

/// Starts these, or all where none is named, and says what tests need of them, in a form that a
/// shell can read.
pub(crate) fn up(workspace: &Workspace, names: &[String]) -> Result<()> {
    let running = start(workspace, &chosen(workspace, names)?)?;
    for (name, value) in running.leave() {
        println!("export {name}='{}'", value.replace('\'', r"'\''"));
    }
    Ok(())
}

/// Ends these, or all where none is named.
pub(crate) fn down(workspace: &Workspace, names: &[String]) -> Result<()> {
    for service in chosen(workspace, names)?.iter().rev() {
        end(service, &workspace.log("services"))?;
    }
    Ok(())
}

fn all(workspace: &Workspace) -> Result<Vec<Service>> {
    let testing = workspace.root.join("testing");
    let mut found = vec![];
    for entry in std::fs::read_dir(&testing).context("cannot read testing/")? {
        let folder = entry.context("cannot read testing/")?.path();
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        if folder.join("up").is_file() {
            found.push(Service {
                name: name.clone().into_owned(),
                state: workspace.state("services").join(&*name),
                folder: folder.clone(),
            });
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn chosen(workspace: &Workspace, names: &[String]) -> Result<Vec<Service>> {
    let all = all(workspace)?;
    let known: Vec<_> = all.iter().map(|service| service.name.clone()).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        bail!(
            "there is no service named {unknown:?}; there are {}",
            known.join(", ")
        );
    }
    let wanted = |service: &Service| names.is_empty() || names.contains(&service.name);
    Ok(all.into_iter().filter(wanted).collect())
}

fn start(workspace: &Workspace, services: &[Service]) -> Result<Running> {
    let mut running = Running {
        started: vec![],
        variables: vec![],
        log: workspace.log("services"),
    };
    for service in services {
        // What an interrupted run left behind is ended first.
        end(service, &running.log)?;
        running.started.push(service.clone());
        let mut shell = Shell::new(running.log.clone(), UP_LIMIT)?.on_stderr();
        let up = Command::new(service.folder.join("up")).arg(&service.state);
        let told = shell
            .run_for_answer(&up)
            .with_context(|| format!("{} does not start", service.name))?;
        running.variables.extend(variables(&service.name, &told)?);
    }
    Ok(running)
}

fn end(service: &Service, log: &Path) -> Result<()> {
    if !service.state.exists() {
        return Ok(());
    }
    let down = Command::new(service.folder.join("down")).arg(&service.state);
    // An interrupt must not keep a service from being ended.
    Shell::new(log.to_owned(), DOWN_LIMIT)?
        .on_stderr()
        .ignoring_interrupts()
        .run(&down)
}

fn variables(service: &str, told: &str) -> Result<Vec<(String, String)>> {
    let lines = told.lines().filter(|line| !line.trim().is_empty());
    let read = lines.map(|line| match line.split_once('=') {
        Some((name, value)) if name.starts_with("SLESS_TEST_") => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => bail!("{service} printed {line:?}: expected SLESS_TEST_NAME=VALUE"),
    });
    read.collect()
}

#[cfg(test)]
mod tests {
    use super::variables;

    #[test]
    fn lines_become_variables() {
        let told = "SLESS_TEST_A=1\n\nSLESS_TEST_B=x=y\n";
        let expected = [("SLESS_TEST_A", "1"), ("SLESS_TEST_B", "x=y")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(variables("s", told).expect("variables"), expected);
    }

    #[test]
    fn anything_else_is_refused() {
        for told in ["ready", "PATH=/bin", "=1"] {
            let error = variables("s", told).expect_err("no variable").to_string();
            assert!(error.contains("expected SLESS_TEST_NAME=VALUE"), "{error}");
        }
    }
}
