//! One build: unpack, install, move into place.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{Seek as _, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, PoisonError},
    time::Duration,
};

use futures::StreamExt as _;
use sless_core::{
    BuildRequest, BuildStatus, Digest, Error, ErrorKind, Failure, Language, LogSource, Result,
    Retry, reason,
    source::{Dependencies, context},
};
use sless_runtime::ConfinedCommand;
use tokio::sync::watch;

use super::{Inner, Outcome, log_name};
use crate::{
    artifacts::remove_folder,
    error::Fault,
    logs::LogWriter,
    points,
    process::{Ended, Program},
};

/// Why a build did not come to an end.
enum Broken {
    Failed(Failure),
    /// A backend did not answer, or the disk is full: it can work the next time.
    Passing(Error),
}

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound
            | ErrorKind::Corrupt
            | ErrorKind::Invalid
            | ErrorKind::LimitExceeded => {
                let message = format!(
                    "the stored build context cannot be read: {}",
                    error.message()
                );
                Self::Failed(Failure::new(reason::CONTEXT_UNREADABLE, message))
            }
            _ => Self::Passing(error),
        }
    }
}

impl Inner {
    /// Makes the artifact. Dropping the future kills what runs and leaves only a folder below `work`,
    /// which the next start removes.
    pub(super) async fn make(
        &self,
        request: &BuildRequest,
        progress: &watch::Sender<BuildStatus>,
    ) -> Outcome {
        let log = self.logs.writer(&log_name(&request.id));
        let made = async {
            // The semaphore is never closed, so there is always a permit in the end.
            let _place = self.places.acquire().await;
            let limit = request.timeout;
            let making = self.make_at_most(request, progress, &log);
            sless_core::clock::timeout(&*self.clock, limit, making)
                .await
                .unwrap_or_else(|_| {
                    let message = format!("the build took longer than {} s", limit.as_secs());
                    Err(Broken::Failed(Failure::new(reason::BUILD_TIMEOUT, message)))
                })
        };
        match made.await {
            Ok(digest) => {
                log.text(LogSource::Build, format!("done: {digest}"));
                let artifact = self.artifacts.named(digest);
                Outcome::Succeeded {
                    artifact,
                    built_at: self.clock.now(),
                }
            }
            Err(Broken::Failed(failure)) => {
                log.text(LogSource::Build, format!("failed: {}", failure.message));
                Outcome::Failed {
                    failure,
                    transient: false,
                }
            }
            Err(Broken::Passing(error)) => {
                log.text(LogSource::Build, format!("broke off: {}", error.message()));
                let failure = Failure::new(reason::BACKEND_UNAVAILABLE, error.message().to_owned());
                let transient = error.retry() != Retry::Never;
                tracing::warn!(build = %request.id, error = %error.chain(), "a build broke off");
                Outcome::Failed { failure, transient }
            }
        }
    }

    async fn make_at_most(
        &self,
        request: &BuildRequest,
        progress: &watch::Sender<BuildStatus>,
        log: &LogWriter,
    ) -> Result<Digest, Broken> {
        let digest = artifact_digest(request);
        let making = self.turn(digest);
        let _turn = making.lock().await;
        if self.artifacts.is_there(&digest) {
            log.text(LogSource::Build, "the same source was built before");
            return Ok(digest);
        }
        let step = |text: &str| {
            log.text(LogSource::Build, text);
            progress.send_replace(BuildStatus::Running {
                step: text.to_owned(),
            });
            self.changes.notify(request.id.function.key());
        };
        let folder = self.work.join(request.id.short());
        progress.send_replace(BuildStatus::Running {
            step: "unpacking".to_owned(),
        });
        let dependencies = self.unpack(request, &folder).await?;
        points::UNPACKED.pass();
        if !dependencies.is_none() {
            self.install(request, &dependencies, &folder, log, step)
                .await?;
        }
        let to = self.artifacts.path(&digest);
        crate::blocking(move || {
            crate::data_dir::sync_folder(&folder)?;
            points::ARTIFACT_BEFORE.pass();
            std::fs::rename(&folder, &to).map_err(Fault::io("renaming", &folder))?;
            points::ARTIFACT_AFTER.pass();
            Ok(())
        })
        .await?;
        Ok(digest)
    }

    /// Reads the context and unpacks its files into `folder/code`.
    async fn unpack(&self, request: &BuildRequest, folder: &Path) -> Result<Dependencies, Broken> {
        let mut stream = request.context.open().await?;
        let mut file = crate::blocking(|| Ok(tempfile()?)).await?;
        while let Some(chunk) = stream.next().await {
            let chunk = chunk?;
            file = crate::blocking(move || {
                file.write_all(&chunk)
                    .map_err(Fault::io("writing", Path::new("a context")))?;
                Ok(file)
            })
            .await?;
        }
        let (limits, folder, runtime) = (
            self.config.limits.clone(),
            folder.to_owned(),
            request.runtime.runtime,
        );
        let code = request.id.code;
        let dependencies = crate::blocking(move || {
            file.rewind()
                .map_err(Fault::io("reading", Path::new("a context")))?;
            let context = context::read(file, &limits)?;
            if context.tree.digest() != code {
                return Err(Error::new(
                    ErrorKind::Corrupt,
                    "the stored context is not of the source that is to be built",
                ));
            }
            remove_folder(&folder)?;
            let target = folder.join("code");
            std::fs::create_dir_all(&target).map_err(Fault::io("making", &target))?;
            context.tree.unpack(&target)?;
            Dependencies::detect(runtime, &context.tree)
        });
        Ok(dependencies.await?)
    }

    async fn install(
        &self,
        request: &BuildRequest,
        dependencies: &Dependencies,
        folder: &Path,
        log: &LogWriter,
        step: impl Fn(&str),
    ) -> Result<(), Broken> {
        let missing =
            |message: &str| Broken::Failed(Failure::new("interpreter_missing", message.to_owned()));
        let interpreter = self
            .tools
            .interpreter(request.runtime.runtime)
            .await
            .map_err(missing)?;
        let code = folder.join("code");
        let (tool, program) = match request.runtime.runtime.language() {
            Language::Python => ("pip install", self.pip(interpreter, folder, &code)),
            _ => self.npm(dependencies, &code),
        };
        let temporary = self.temporary(&request.id);
        let made = temporary.clone();
        crate::blocking(move || {
            Ok(std::fs::create_dir_all(&made).map_err(Fault::io("making", &made))?)
        })
        .await?;
        let program = self.confined(program, interpreter, folder, &temporary);
        step(tool);
        match program
            .run(
                &*self.clock,
                request.timeout.max(Duration::from_secs(1)),
                log,
            )
            .await
        {
            Ended::Exited { status, .. } if status.success() => Ok(()),
            Ended::Exited { status, tail } => {
                let message = format!("{tool} failed ({status}){}", why(&tail));
                let failure = Failure::new(reason::INSTALL_FAILED, message).with_log(&tail);
                Err(Broken::Failed(failure))
            }
            Ended::TimedOut { tail } => {
                let message = format!("{tool} took too long");
                let failure = Failure::new(reason::BUILD_TIMEOUT, message).with_log(&tail);
                Err(Broken::Failed(failure))
            }
            Ended::NotStarted(error) => {
                let program = program.program.display();
                let message = format!("{program} cannot be started: {error}");
                Err(Broken::Failed(Failure::new("interpreter_missing", message)))
            }
        }
    }

    fn pip(&self, interpreter: &Path, folder: &Path, code: &Path) -> Program {
        let target = folder.join("packages");
        let arguments = [
            "-m",
            "pip",
            "install",
            "--no-input",
            "--disable-pip-version-check",
            "--no-warn-script-location",
            "--progress-bar=off",
            "--root-user-action=ignore",
            "--target",
        ];
        let target = target.to_string_lossy().into_owned();
        Program::new(interpreter, code)
            .arguments(arguments)
            .arguments([target.as_str(), "--requirement", "requirements.txt"])
            .env(self.build_env("PIP_CACHE_DIR", "pip"))
    }

    fn npm(&self, dependencies: &Dependencies, code: &Path) -> (&'static str, Program) {
        let locked = matches!(dependencies, Dependencies::Node { lock: Some(_), .. });
        let (tool, command) = if locked {
            ("npm ci", "ci")
        } else {
            ("npm install", "install")
        };
        let quiet = [
            "--omit=dev",
            "--no-audit",
            "--no-fund",
            "--no-update-notifier",
        ];
        let program = Program::new("npm", code)
            .arguments([command])
            .arguments(quiet)
            .arguments((!locked).then_some("--no-package-lock"))
            .env(self.build_env("npm_config_cache", "npm"));
        (tool, program)
    }

    fn build_env(&self, cache: &str, folder: &str) -> BTreeMap<String, String> {
        let mut env = self.tools.config.build_env.clone();
        env.insert("PATH".to_owned(), self.tools.config.path.clone());
        env.entry("HOME".to_owned())
            .or_insert_with(|| "/tmp".to_owned());
        env.insert(
            cache.to_owned(),
            self.cache.join(folder).to_string_lossy().into_owned(),
        );
        env.insert(crate::process::MARK.to_owned(), self.instance.clone());
        env
    }

    /// An installer runs code of the function: it is confined, and has the network, its own folders, the
    /// cache of all installers and what tells it how to reach its registry.
    fn confined(
        &self,
        program: Program,
        interpreter: &Path,
        folder: &Path,
        temporary: &Path,
    ) -> Program {
        let mut command = ConfinedCommand::new(&program.folder);
        command.path.clone_from(&self.tools.config.path);
        command.programs = vec![interpreter.to_owned(), program.program.clone()];
        command.write = vec![folder.to_owned(), temporary.to_owned(), self.cache.clone()];
        command.read = self.settings_of_installers();
        let temporary = temporary.to_string_lossy().into_owned();
        let env = BTreeMap::from([("TMPDIR".to_owned(), temporary)]);
        program
            .env(env)
            .confined(self.sandbox.of_installer(command))
    }

    /// Files that pip and npm read: their own, and those that their environment names, such as
    /// certificates.
    fn settings_of_installers(&self) -> Vec<PathBuf> {
        const OWN: [&str; 5] = [".npmrc", ".netrc", ".pip", ".config/pip", ".config/npm"];
        const ALL: [&str; 3] = ["/etc/pip.conf", "/etc/npmrc", "/etc/xdg/pip"];
        let env = &self.tools.config.build_env;
        let home = env.get("HOME").map(Path::new);
        let own = home
            .into_iter()
            .flat_map(|home| OWN.map(|name| home.join(name)));
        let all = ALL.iter().map(PathBuf::from);
        let named = env.values().map(PathBuf::from);
        let named = named.filter(|path| path.is_absolute() && path.is_file());
        let xdg = env
            .get("XDG_CONFIG_HOME")
            .map(|folder| Path::new(folder).join("pip"));
        own.chain(all).chain(named).chain(xdg).collect()
    }

    /// The turn of whoever makes this artifact.
    fn turn(&self, digest: Digest) -> Arc<tokio::sync::Mutex<()>> {
        let mut making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        // Turns that nobody waits for are forgotten, so that they are never more than builds.
        making.retain(|_, turn| Arc::strong_count(turn) > 1);
        making.entry(digest).or_default().clone()
    }
}

/// The digest of all that goes into an artifact.
fn artifact_digest(request: &BuildRequest) -> Digest {
    let (id, runtime) = (&request.id, request.runtime.runtime);
    let text = format!(
        "sless-folder-v1\n{}\n{runtime}\n{}\n",
        id.code, id.runtime_version
    );
    Digest::of(text)
}

/// The line that tells most, out of what an installer wrote last.
fn why(tail: &str) -> String {
    let telling = |line: &&str| {
        let lower = line.to_ascii_lowercase();
        lower.starts_with("error") || lower.starts_with("npm err") || lower.starts_with("npm error")
    };
    let line = tail.lines().find(telling).map(str::trim);
    line.map_or_else(String::new, |line| format!(": {line}"))
}

fn tempfile() -> Result<File, Fault> {
    tempfile::tempfile().map_err(Fault::io("making", Path::new("a temporary file")))
}
