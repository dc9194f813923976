//! All folders of one `dev`, deployed and watched.

use std::{
    collections::BTreeMap,
    io::Write as _,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use sless_core::{Function, FunctionId, FunctionPhase, Name, Namespace, source::SourceLimits};
use sless_source::{Content, Folder, FolderError, Overrides, Told, Watch};
use tokio::task::{JoinHandle, JoinSet};

use super::{
    NAMESPACE,
    deploy::{Deployer, describe, trouble},
    error::DevError,
    example,
    print::{Label, Printer},
    settings::{Prepared, SUBJECT},
};
use crate::{
    App,
    auth::Hs256Key,
    settings::{AuthKind, Settings},
};

/// How soon to look again at a folder that could not be read.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How long the token of one `dev` is valid.
const TOKEN_TTL: Duration = Duration::from_secs(30 * 24 * 3600);

/// Deploys and watches, until it is dropped.
#[derive(Debug)]
pub struct Session {
    printer: Arc<Printer>,
    _tasks: JoinSet<()>,
}

/// One folder, and what became of it.
#[derive(Debug)]
struct Project {
    place: usize,
    folder: Folder,
    limits: SourceLimits,
    deployer: Deployer,
    names: Arc<Mutex<BTreeMap<Name, usize>>>,
    watch: Arc<Mutex<Watch>>,
    told: Arc<Told>,
    deployed: Option<Content>,
    runs: Option<(FunctionId, Task)>,
}

/// A task that ends with its handle.
#[derive(Debug)]
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Session {
    /// Begins to deploy the folders on a server that has been started with their settings, and tells
    /// how to reach it.
    ///
    /// # Errors
    /// [`DevError`] if what an earlier run left is in the way.
    pub async fn begin(app: &App, prepared: &Prepared) -> Result<Self, DevError> {
        let Prepared { settings, folders } = prepared;
        let names: Vec<&Name> = folders.iter().map(|(_, content)| &content.name).collect();
        let width = names
            .iter()
            .map(|name| name.as_str().len())
            .max()
            .unwrap_or_default();
        let printer = Arc::new(Printer::on_stdout(width));
        let sless = app.sless().clone();
        let namespace = Namespace::new(NAMESPACE).map_err(DevError::Cleanup)?;
        let deployer = Deployer {
            sless,
            namespace,
            printer: printer.clone(),
        };
        deployer
            .remove_leftovers(&names)
            .await
            .map_err(DevError::Cleanup)?;

        let limits = &app.sless().options().source_limits;
        let url = &app.sless().options().external_url;
        printer.say(&format!("sless is up at {url}; Ctrl-C ends it"));
        if let Some(token) = leave_token(settings)? {
            printer.plain(&format!(
                "the REST API takes the token in {0}:\n  curl -s -H \"authorization: Bearer $(cat \
                 {0})\" {url}/v1/namespaces/{NAMESPACE}/functions",
                token.display()
            ));
        }
        let claimed = names
            .iter()
            .enumerate()
            .map(|(place, name)| ((*name).clone(), place));
        let claimed = Arc::new(Mutex::new(claimed.collect()));
        let mut tasks = JoinSet::new();
        for (place, (folder, content)) in folders.iter().enumerate() {
            let watch = Watch::new(&folder.path);
            let project = Project {
                place,
                folder: folder.clone(),
                limits: limits.clone(),
                deployer: deployer.clone(),
                names: claimed.clone(),
                told: watch.told(),
                watch: Arc::new(Mutex::new(watch)),
                deployed: None,
                runs: None,
            };
            tasks.spawn(project.keep_deployed(content.clone()));
        }
        Ok(Self {
            printer,
            _tasks: tasks,
        })
    }

    /// Deploys nothing any more, and says that the end has begun.
    pub fn stop(self) {
        drop(self._tasks);
        self.printer.say("stopping; Ctrl-C once more ends at once");
    }
}

/// Leaves a token for the REST API in a file that only the user can read, where the settings are
/// such that one can be made.
fn leave_token(settings: &Settings) -> Result<Option<std::path::PathBuf>, DevError> {
    if settings.auth.kind != AuthKind::Hs256 {
        return Ok(None);
    }
    let key = Hs256Key::load_or_create(&settings.auth.hs256_key_file)?;
    let token = key.mint(SUBJECT, TOKEN_TTL, Timestamp::now())?;
    let path = settings.data_dir.join("token");
    let failed = |source| DevError::TokenFile {
        path: path.clone(),
        source,
    };
    // A new file each time: an old one may have been given other permissions.
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options
        .open(&path)
        .and_then(|mut file| writeln!(file, "{token}"));
    written.map_err(failed)?;
    Ok(Some(path))
}

impl Project {
    /// Deploys the first content, and then whatever the folder holds.
    async fn keep_deployed(mut self, first: Content) {
        let mut content = first;
        loop {
            let looking = Look {
                folder: self.folder.clone(),
                limits: self.limits.clone(),
                watch: self.watch.clone(),
                told: self.told.clone(),
                printer: self.deployer.printer.clone(),
                label: Label::new(&content.name, self.place),
            };
            let next = looking.other_than(content.clone());
            tokio::pin!(next);
            // A change while a version is being built makes that version pointless.
            let changed = tokio::select! {
                next = &mut next => Some(next),
                () = self.deploy(&content) => None,
            };
            content = match changed {
                Some(content) => content,
                None => next.await,
            };
        }
    }

    /// Deploys a content and says what became of it.
    async fn deploy(&mut self, content: &Content) {
        let label = Label::new(&content.name, self.place);
        let printer = self.deployer.printer.clone();
        let began = Instant::now();
        let name = &content.name;
        if !self.claim(name) {
            let text = format!("another folder's function is named {name}: nothing was deployed");
            return printer.trouble(&label, &text);
        }
        let again = if self.deployed.is_some() {
            "rebuilding"
        } else {
            "building"
        };
        printer.say(&format!("{again} {name}…"));
        match self.deployed(&label, content).await {
            Ok(function) if function.status.phase == FunctionPhase::Failed => {
                printer.say(&format!("{name} failed ({})", milliseconds(began)));
                printer.trouble(&label, &trouble(&function));
            }
            Ok(function) => self.tell(content, &function, began),
            Err(error) => {
                printer.say(&format!(
                    "{name} was not deployed ({})",
                    milliseconds(began)
                ));
                printer.trouble(&label, &format!("{}: {}", error.reason(), error.message()));
            }
        }
    }

    async fn deployed(&mut self, label: &Label, content: &Content) -> sless_core::Result<Function> {
        let deployer = self.deployer.clone();
        let before = self.deployed.as_ref().map(|before| before.name.clone());
        if let Some(before) = before.filter(|before| *before != content.name) {
            deployer.remove(&before).await?;
            self.names().remove(&before);
            self.deployed = None;
        }
        let function = deployer.put(content).await?;
        let id = FunctionId::of(&function.metadata);
        if self
            .runs
            .as_ref()
            .is_none_or(|(followed, _)| *followed != id)
        {
            let runs = deployer.clone().show_runs(label.clone(), id.clone());
            self.runs = Some((id, Task(tokio::spawn(runs))));
        }
        deployer.upload(label, content).await
    }

    /// Says that a version runs, and the first time how to call it.
    fn tell(&mut self, content: &Content, function: &Function, began: Instant) {
        let printer = &self.deployer.printer;
        let name = &content.name;
        let took = milliseconds(began);
        let status = &function.status;
        match status.phase {
            FunctionPhase::Stopped => printer.say(&format!("{name} is off: {}", status.message)),
            _ => printer.say(&format!("{name} is ready ({took})")),
        }
        if self.deployed.is_none() {
            let url = self
                .deployer
                .sless
                .function_url(&self.deployer.namespace, name);
            printer.plain(&format!(
                "  {url}\n  {}",
                example::curl(&self.folder.shown, &url)
            ));
        }
        let known = self.deployed.as_ref().map(Content::declared);
        if known.unwrap_or_default() != content.declared() {
            for trigger in content.declared() {
                printer.plain(&format!("  {}", describe(trigger)));
            }
        }
        self.deployed = Some(content.clone());
    }

    /// Takes a name for this folder, unless another one has it.
    fn claim(&self, name: &Name) -> bool {
        *self.names().entry(name.clone()).or_insert(self.place) == self.place
    }

    fn names(&self) -> std::sync::MutexGuard<'_, BTreeMap<Name, usize>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks at a folder whenever it has changed.
struct Look {
    folder: Folder,
    limits: SourceLimits,
    watch: Arc<Mutex<Watch>>,
    told: Arc<Told>,
    printer: Arc<Printer>,
    label: Label,
}

impl Look {
    /// Waits until the folder holds something else that can be deployed. What is wrong with it
    /// meanwhile is said once.
    async fn other_than(self, content: Content) -> Content {
        let mut wrong: Option<String> = None;
        loop {
            self.told
                .changed(wrong.is_some().then_some(LOOK_AGAIN))
                .await;
            match self.read().await {
                Ok(found) if found == content => wrong = None,
                Ok(found) => return found,
                Err(error) => {
                    let error = error.to_string();
                    if wrong.as_ref() != Some(&error) {
                        self.printer
                            .trouble(&self.label, &format!("{error}\nnothing was deployed"));
                        wrong = Some(error);
                    }
                }
            }
        }
    }

    async fn read(&self) -> Result<Content, FolderError> {
        let (watch, folder, limits) =
            (self.watch.clone(), self.folder.clone(), self.limits.clone());
        let read = tokio::task::spawn_blocking(move || {
            watch.lock().unwrap_or_else(PoisonError::into_inner).cover();
            folder.read(&limits, &Overrides::default())
        });
        let gone = |path: &Path| FolderError::Unreadable {
            path: path.to_owned(),
            source: std::io::Error::other("the look at it was cut off"),
        };
        read.await.unwrap_or_else(|_| Err(gone(&self.folder.shown)))
    }
}

fn milliseconds(began: Instant) -> String {
    let took = began.elapsed();
    if took < Duration::from_secs(10) {
        format!("{} ms", took.as_millis())
    } else {
        format!("{:.1} s", took.as_secs_f64())
    }
}
