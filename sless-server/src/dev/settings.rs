//! The settings of `dev`: those of the server, with other defaults.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use etcetera::BaseStrategy;
use sless_core::{Digest, Name};
use sless_source::{Content, Folder, Overrides};

use super::error::DevError;
use crate::{
    app::source_limits,
    settings::{AuthKind, LogFormat, Origin, Settings},
};

/// Who the token of `dev` is for: a subject that opens every namespace.
pub(super) const SUBJECT: &str = "dev";

/// How long calls under way may take at the end: whoever pressed Ctrl-C is waiting.
const DRAIN: Duration = Duration::from_secs(3);

/// What `dev` was asked for.
#[derive(Clone, Debug, Default)]
pub struct DevOptions {
    /// The folders, each with the code of one function.
    pub folders: Vec<PathBuf>,
    /// The port to listen on, in the place of that of the settings.
    pub port: Option<u16>,
}

/// Folders that can be deployed, and the settings to do so with.
#[derive(Debug)]
pub struct Prepared {
    /// The settings of the server.
    pub settings: Settings,
    pub(super) folders: Vec<(Folder, Content)>,
}

/// Looks at the folders, and gives what the settings leave open a value that suits `dev`: a data
/// folder among the user's caches, which belongs to these folders and keeps what was built for them;
/// warnings only in the log; a quick end.
///
/// # Errors
/// [`DevError`] naming the first folder that is not one of a function.
pub fn prepare(mut settings: Settings, options: &DevOptions) -> Result<Prepared, DevError> {
    let limits = source_limits(&settings.limits);
    let mut folders: Vec<(Folder, Content)> = Vec::new();
    let mut names: BTreeMap<Name, PathBuf> = BTreeMap::new();
    for given in &options.folders {
        let folder = Folder::open(given)?;
        let content = folder.read(&limits, &Overrides::default())?;
        if let Some(first) = names.insert(content.name.clone(), given.clone()) {
            let (name, second) = (content.name.to_string(), given.clone());
            return Err(DevError::SameName {
                name,
                first,
                second,
            });
        }
        folders.push((folder, content));
    }

    let given = settings
        .shown()
        .iter()
        .filter(|shown| shown.origin != Origin::Default);
    let given: Vec<_> = given.map(|shown| shown.name).collect();
    let is_given = |name| given.contains(&name);
    if let Some(port) = options.port {
        settings.listen.set_port(port);
    }
    if !is_given("EXTERNAL_URL") {
        settings.external_url = format!("http://{}", settings.listen);
    }
    if !is_given("SLESS_DATA_DIR") {
        let strategy = etcetera::choose_base_strategy().map_err(|_| DevError::NoCache)?;
        let paths = folders.iter().map(|(folder, _)| folder.path.as_path());
        settings.data_dir = data_dir(&strategy.cache_dir(), paths);
    }
    if !is_given("SLESS_HS256_KEY_FILE") {
        settings.auth.hs256_key_file = settings.data_dir.join("hs256.key");
    }
    if settings.auth.kind == AuthKind::Hs256 {
        settings.auth.admin_subs.push(SUBJECT.to_owned());
    }
    if !is_given("SLESS_CONSOLE_SANDBOX") {
        // All functions are of the one who looks at them.
        settings.console.sandbox = false;
    }
    if !is_given("SLESS_LOG") {
        settings.log.filter = "warn".to_owned();
    }
    if !is_given("SLESS_LOG_FORMAT") {
        settings.log.format = LogFormat::Pretty;
    }
    if !is_given("SLESS_DRAIN_TIMEOUT") {
        settings.drain_timeout = DRAIN;
    }
    Ok(Prepared { settings, folders })
}

/// The data folder of a set of folders, whatever their order: of its own, so that several `dev` run
/// side by side, and the same at each start, so that nothing is installed twice.
fn data_dir<'a>(cache: &Path, folders: impl Iterator<Item = &'a Path>) -> PathBuf {
    let mut paths: Vec<_> = folders
        .map(|path| path.as_os_str().as_encoded_bytes())
        .collect();
    paths.sort_unstable();
    let digest = Digest::of(paths.join(&0)).hex();
    cache.join("sless").join("dev").join(&digest[..16])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::settings::Sources;

    fn prepared(given: &[(&str, &str)], options: &DevOptions) -> Result<Prepared, DevError> {
        let given = given
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        prepare(Settings::load(&Sources::new(given, None)).unwrap(), options)
    }

    fn function(root: &Path, name: &str) -> PathBuf {
        let folder = root.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("handler.py"), "").unwrap();
        folder
    }

    #[test]
    fn what_is_given_wins_over_what_suits_dev() {
        let root = tempfile::tempdir().unwrap();
        let folders = vec![function(root.path(), "a")];
        let options = DevOptions {
            folders,
            port: Some(9),
        };
        let settings = prepared(&[], &options).unwrap().settings;
        assert_eq!(settings.external_url, "http://127.0.0.1:9");
        assert_eq!(settings.log.filter, "warn");
        assert_eq!(settings.drain_timeout, DRAIN);
        assert!(settings.auth.hs256_key_file.starts_with(&settings.data_dir));
        assert_eq!(settings.auth.admin_subs, [SUBJECT]);
        let given = [
            ("SLESS_LISTEN", "127.0.0.2:7"),
            ("EXTERNAL_URL", "https://a.example"),
            ("SLESS_DATA_DIR", "/data"),
            ("SLESS_LOG", "debug"),
            ("SLESS_DRAIN_TIMEOUT", "9s"),
            ("SLESS_AUTH", "structural"),
        ];
        let settings = prepared(&given, &options).unwrap().settings;
        assert_eq!(settings.listen, "127.0.0.2:9".parse().unwrap());
        assert_eq!(settings.external_url, "https://a.example");
        assert_eq!(settings.data_dir, Path::new("/data"));
        assert_eq!(settings.log.filter, "debug");
        assert_eq!(settings.drain_timeout, Duration::from_secs(9));
        assert!(settings.auth.admin_subs.is_empty());
    }

    #[test]
    fn the_data_folder_belongs_to_the_folders() {
        let of = |paths: &[&str]| data_dir(Path::new("/c"), paths.iter().map(Path::new));
        assert_eq!(of(&["/a", "/b"]), of(&["/b", "/a"]));
        assert_ne!(of(&["/a"]), of(&["/a", "/b"]));
        assert_ne!(of(&["/a/b"]), of(&["/a", "b"]));
    }

    #[test]
    fn two_folders_of_one_name_are_refused_by_both() {
        let root = tempfile::tempdir().unwrap();
        let folders = vec![function(root.path(), "x/a"), function(root.path(), "y/a")];
        let error = prepared(
            &[],
            &DevOptions {
                folders,
                port: None,
            },
        )
        .unwrap_err()
        .to_string();
        for named in ["x/a", "y/a", "`a`", "sless.toml"] {
            assert!(error.contains(named), "{error}");
        }
    }
}
