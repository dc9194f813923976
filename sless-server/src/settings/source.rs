//! Where settings come from.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt, fs,
    path::{Path, PathBuf},
};

use etcetera::BaseStrategy;
use sless_local::ToolsConfig;

use super::{
    Problem,
    table::{self, SETTINGS},
};

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The environment.
    Environment,
    /// A file.
    File(PathBuf),
    /// The table.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment => f.write_str("the environment"),
            Self::File(path) => path.display().fmt(f),
            Self::Default => f.write_str("the defaults"),
        }
    }
}

/// A value as it was given.
#[derive(Clone)]
pub(super) struct Given {
    pub(super) text: String,
    pub(super) origin: Origin,
}

/// The environment and the file, put together.
#[derive(Default)]
pub struct Sources {
    given: BTreeMap<&'static str, Given>,
    problems: Vec<Problem>,
    warnings: Vec<String>,
    tools: ToolsConfig,
}

impl fmt::Debug for Sources {
    /// Shows names only, since values may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.given.keys()).finish()
    }
}

/// Names in the environment that begin like a setting of this server and belong to another program
/// of the same family, or to this one's start.
const FOREIGN: &[&str] = &[
    "SLESS_CONFIG",
    "SLESS_TOKEN",
    "SLESS_API_TOKEN",
    "SLESS_CONTEXT",
    "SLESS_ENDPOINT",
    "SLESS_NAMESPACE",
    "SLESS_PROXY",
    "SLESS_VECTORS",
];

/// What the services of tests say of themselves begins so.
const OF_TESTS: &str = "SLESS_TEST_";

fn is_foreign(name: &str) -> bool {
    FOREIGN.contains(&name) || name.starts_with(OF_TESTS)
}

impl Sources {
    /// Puts a file, where there is one, under an environment. What is wrong with either is told by
    /// [`Settings::load`](super::Settings::load).
    pub fn new(
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        file: Option<&Path>,
    ) -> Self {
        let mut sources = Self::default();
        if let Some(file) = file {
            sources.read_file(file);
        }
        sources.read_environment(environment);
        sources
    }

    pub(super) fn given(&self, name: &str) -> Option<&Given> {
        self.given.get(name)
    }

    pub(super) fn problems(&self) -> &[Problem] {
        &self.problems
    }

    pub(super) fn tools(&self) -> &ToolsConfig {
        &self.tools
    }

    pub(super) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn read_environment(&mut self, environment: impl IntoIterator<Item = (OsString, OsString)>) {
        let mut others = Vec::new();
        for (name, value) in environment {
            let Some(name) = name.to_str() else { continue };
            let Some(setting) = table::find(name) else {
                if name.starts_with("SLESS_") && !is_foreign(name) {
                    let text = format!("{name} in the environment is no setting{}", alike(name));
                    self.warnings.push(text);
                }
                if let Some(value) = value.to_str() {
                    others.push((name.to_owned(), value.to_owned()));
                }
                continue;
            };
            match value.into_string() {
                Ok(text) => self.give(setting.name, text, Origin::Environment),
                Err(_) => self.problem(name, "(from the environment) is not UTF-8".to_owned()),
            }
        }
        self.tools = ToolsConfig::default().with_environment(others);
    }

    fn read_file(&mut self, path: &Path) {
        let name = path.display().to_string();
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => return self.problem(&name, format!("cannot be read: {error}")),
        };
        let table: toml::Table = match text.parse() {
            Ok(table) => table,
            // The message of the parser shows the line, which may hold a secret.
            Err(error) => {
                let line = error
                    .span()
                    .map(|span| text[..span.start].lines().count().max(1));
                let line = line
                    .map(|line| format!(" at line {line}"))
                    .unwrap_or_default();
                let message = error.message();
                return self.problem(&name, format!("is not TOML{line}: {message}"));
            }
        };
        for (key, value) in table {
            let Some(setting) = table::find(&key) else {
                let text = format!("(from {name}) is no setting{}", alike(&key));
                self.problem(&key, text);
                continue;
            };
            match plain(&value) {
                Some(text) => self.give(setting.name, text, Origin::File(path.to_owned())),
                None => self.problem(
                    &key,
                    format!("(from {name}) is a {}: expected text, a number, true or false, or a list of texts", value.type_str()),
                ),
            }
        }
    }

    fn give(&mut self, name: &'static str, text: String, origin: Origin) {
        if !text.is_empty() {
            self.given.insert(name, Given { text, origin });
        }
    }

    fn problem(&mut self, name: &str, text: String) {
        self.problems.push(Problem {
            name: name.to_owned(),
            text,
        });
    }
}

/// A TOML value in the form in which the environment would give it.
fn plain(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Boolean(value) => Some(value.to_string()),
        toml::Value::Array(items) => {
            let items: Option<Vec<_>> = items.iter().map(toml::Value::as_str).collect();
            Some(items?.join(","))
        }
        _ => None,
    }
}

/// The setting that was probably meant.
fn alike(name: &str) -> String {
    let name = name.to_ascii_uppercase();
    let near = SETTINGS
        .iter()
        .map(|setting| {
            (
                strsim::damerau_levenshtein(&name, setting.name),
                setting.name,
            )
        })
        .min();
    match near {
        Some((distance, near)) if distance <= 3 => format!("; {near} is one"),
        _ => String::new(),
    }
}

/// The system's folder for a user's data.
pub(super) fn default_data_dir() -> Option<PathBuf> {
    let strategy = etcetera::choose_base_strategy().ok()?;
    Some(strategy.data_dir().join("sless"))
}
