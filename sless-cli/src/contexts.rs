//! The servers that a user signed in to: `contexts.toml` in the user's configuration folder, readable
//! by that user alone.

use std::{
    collections::BTreeMap,
    fmt, fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use etcetera::BaseStrategy as _;
use serde::{Deserialize, Serialize};

use crate::failure::{Exit, Failure, Result};

/// Largest file that is read, in bytes.
const FILE_BYTES: u64 = 1 << 20;

/// One server, and who the user is there.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Context {
    pub(crate) endpoint: String,
    pub(crate) token: String,
    /// Where it is another one than the token's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("endpoint", &self.endpoint)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

/// What is in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Contexts {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    #[serde(rename = "context")]
    pub(crate) all: BTreeMap<String, Context>,
}

impl Contexts {
    /// The context that counts where none is named.
    pub(crate) fn current(&self) -> Option<(&str, &Context)> {
        let (name, context) = self.all.get_key_value(self.current.as_deref()?)?;
        Some((name, context))
    }

    /// The context of this name.
    pub(crate) fn named(&self, name: &str) -> Result<&Context> {
        self.all.get(name).ok_or_else(|| {
            let known: Vec<_> = self.all.keys().map(String::as_str).collect();
            let hint = if known.is_empty() {
                "there is none yet: `sless login` makes one".to_owned()
            } else {
                format!("there are: {}", known.join(", "))
            };
            Failure::new(Exit::Setup, format!("no context is named `{name}`")).hint(hint)
        })
    }
}

/// Where the contexts are kept.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    path: PathBuf,
}

impl Store {
    /// The file of the user: below `XDG_CONFIG_HOME`, or `~/.config`.
    pub(crate) fn of_user() -> Result<Self> {
        let strategy = etcetera::choose_base_strategy().map_err(|_| {
            Failure::new(Exit::Setup, "this system names no folder for configuration")
                .hint("set HOME or XDG_CONFIG_HOME, or give --server and --token-file each time")
        })?;
        Ok(Self::at(
            strategy.config_dir().join("sless").join("contexts.toml"),
        ))
    }

    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What is kept; nothing where the file is not there.
    pub(crate) fn read(&self) -> Result<Contexts> {
        let text = match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Contexts::default()),
            Ok(file) if file.len() > FILE_BYTES => {
                let problem = format!("limit contexts_bytes of {FILE_BYTES} exceeded");
                return Err(self.unreadable(&problem));
            }
            _ => fs::read_to_string(&self.path).map_err(|error| self.unreadable(&error))?,
        };
        toml::from_str(&text).map_err(|error| {
            // The text of the error would show the line, and a line may hold a token.
            let line = error
                .span()
                .map_or(1, |span| text[..span.start].matches('\n').count() + 1);
            self.unreadable(&format!("line {line}: {}", error.message()))
        })
    }

    /// Whether others than the user can read the file.
    #[cfg(unix)]
    pub(crate) fn is_open_to_others(&self) -> bool {
        use std::os::unix::fs::PermissionsExt as _;
        fs::metadata(&self.path).is_ok_and(|file| file.permissions().mode() & 0o077 != 0)
    }

    #[cfg(not(unix))]
    pub(crate) fn is_open_to_others(&self) -> bool {
        false
    }

    /// Changes what is kept: as a whole or not at all, and one process after the other.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Contexts) -> Result<T>) -> Result<T> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let unwritable = |error: io::Error| {
            let text = format!("{} cannot be written: {error}", self.path.display());
            Failure::new(Exit::Setup, text)
        };
        make_private_folder(folder).map_err(unwritable)?;
        let lock = fs::File::create(self.path.with_extension("lock")).map_err(unwritable)?;
        lock.lock().map_err(unwritable)?;
        let mut contexts = self.read()?;
        let answer = change(&mut contexts)?;
        let text = toml::to_string(&contexts)
            .map_err(|error| Failure::new(Exit::Setup, format!("contexts: {error}")))?;
        // A temporary file is made with mode 0600.
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(unwritable)?;
        file.write_all(text.as_bytes()).map_err(unwritable)?;
        file.as_file().sync_all().map_err(unwritable)?;
        file.persist(&self.path)
            .map_err(|error| unwritable(error.error))?;
        Ok(answer)
    }

    fn unreadable(&self, why: &dyn fmt::Display) -> Failure {
        let text = format!("{}: {why}", self.path.display());
        Failure::new(Exit::Setup, text).hint("correct the file, or remove it and run `sless login`")
    }
}

#[cfg(unix)]
fn make_private_folder(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
}

#[cfg(not(unix))]
fn make_private_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn context(token: &str) -> Context {
        Context {
            endpoint: "http://127.0.0.1:1".to_owned(),
            token: token.to_owned(),
            namespace: None,
        }
    }

    fn add(store: &Store, name: &str) {
        let add = |contexts: &mut Contexts| {
            contexts.all.insert(name.to_owned(), context("hunter2"));
            contexts.current = Some(name.to_owned());
            Ok(())
        };
        store.change(add).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn the_file_belongs_to_the_user_alone_also_where_it_did_not_before() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path().join("new/sless/contexts.toml"));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        add(&store, "a");
        assert_eq!(mode(store.path()), 0o600);
        assert_eq!(mode(store.path().parent().unwrap()), 0o700);
        fs::set_permissions(store.path(), fs::Permissions::from_mode(0o644)).unwrap();
        assert!(store.is_open_to_others());
        add(&store, "b");
        assert_eq!(mode(store.path()), 0o600);
        assert!(!store.is_open_to_others());
        let contexts = store.read().unwrap();
        assert_eq!(contexts.all.len(), 2);
        assert_eq!(contexts.current().unwrap().0, "b");
    }

    #[test]
    fn changes_at_once_are_all_kept() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path().join("contexts.toml"));
        std::thread::scope(|scope| {
            for number in 0..16 {
                let store = &store;
                scope.spawn(move || add(store, &format!("c{number}")));
            }
        });
        assert_eq!(store.read().unwrap().all.len(), 16);
    }

    #[test]
    fn no_error_shows_a_token() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path().join("contexts.toml"));
        fs::write(
            store.path(),
            "[context.a]\nendpoint = 'x'\ntoken = hunter2\n",
        )
        .unwrap();
        let error = store.read().unwrap_err().to_string();
        assert!(
            error.contains("line 3") && !error.contains("hunter2"),
            "{error}"
        );
        assert!(!format!("{:?}", context("hunter2")).contains("hunter2"));
    }

    #[test]
    fn a_name_that_is_not_there_lists_those_that_are() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path().join("contexts.toml"));
        assert!(
            store
                .read()
                .unwrap()
                .named("x")
                .unwrap_err()
                .next()
                .unwrap()
                .contains("login")
        );
        add(&store, "home");
        assert!(
            store
                .read()
                .unwrap()
                .named("x")
                .unwrap_err()
                .next()
                .unwrap()
                .contains("home")
        );
    }
}
