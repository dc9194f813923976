//! The interpreters and installers of this machine.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    process::Command,
};

use serde::{Deserialize, Serialize};
use sless_core::{Language, Runtime};
use tokio::sync::OnceCell;

/// Where interpreters are, and what installers need to reach their registries.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolsConfig {
    /// Folders to look for programs in, in the form of the variable `PATH`.
    pub path: String,
    /// The interpreter for `python3.11`; `None` looks for `python3.11` and `python3`.
    pub python: Option<PathBuf>,
    /// The interpreter for `nodejs20`; `None` looks for `node`.
    pub node: Option<PathBuf>,
    /// The environment of pip and npm beside `PATH`, `HOME` and `TMPDIR`: proxies, certificates,
    /// registries. Functions never see it.
    pub build_env: BTreeMap<String, String>,
}

impl Default for ToolsConfig {
    fn default() -> Self {
        Self {
            path: "/usr/local/bin:/usr/bin:/bin".to_owned(),
            python: None,
            node: None,
            build_env: BTreeMap::new(),
        }
    }
}

/// Shows no value of the environment: proxies and registries carry passwords.
impl fmt::Debug for ToolsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolsConfig")
            .field("path", &self.path)
            .field("python", &self.python)
            .field("node", &self.node)
            .field("build_env", &self.build_env.keys().collect::<Vec<_>>())
            .finish()
    }
}

impl ToolsConfig {
    /// Takes over `PATH`, and for pip and npm what tells them how to reach their registries (`PIP_…`,
    /// `NPM_CONFIG_…`, `…_PROXY`, `SSL_CERT_…`, `HOME` and `XDG_…` for their own files), from these
    /// variables: usually `std::env::vars()`.
    #[must_use]
    pub fn with_environment(
        mut self,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        const PREFIXES: [&str; 5] = ["PIP_", "NPM_CONFIG_", "SSL_CERT_", "XDG_", "NODE_EXTRA_CA"];
        for (name, value) in variables {
            let upper = name.to_ascii_uppercase();
            if name == "PATH" {
                self.path = value;
            } else if name == "HOME"
                || upper.ends_with("_PROXY")
                || PREFIXES.iter().any(|prefix| upper.starts_with(prefix))
            {
                self.build_env.insert(name, value);
            }
        }
        self
    }
}

/// What was found, each interpreter looked for when it is first needed.
#[derive(Clone, Debug)]
pub(crate) struct Tools {
    pub(crate) config: ToolsConfig,
    python: OnceCell<Result<PathBuf, String>>,
    node: OnceCell<Result<PathBuf, String>>,
}

impl Tools {
    pub(crate) fn new(config: ToolsConfig) -> Self {
        Self {
            config,
            python: OnceCell::new(),
            node: OnceCell::new(),
        }
    }

    /// The interpreter of a runtime, or why there is none.
    pub(crate) async fn interpreter(&self, runtime: Runtime) -> Result<&Path, &str> {
        let (cell, look): (_, fn(&ToolsConfig) -> _) = match runtime.language() {
            Language::Python => (&self.python, find_python),
            Language::Node => (&self.node, find_node),
            _ => return Err("this runtime is not known here"),
        };
        let found = cell.get_or_init(async || {
            let config = self.config.clone();
            let looked = crate::blocking(move || Ok(look(&config))).await;
            looked.unwrap_or_else(|error| Err(error.message().to_owned()))
        });
        found.await.as_deref().map_err(String::as_str)
    }

    /// What is missing, a sentence each.
    pub(crate) async fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        for runtime in Runtime::ALL {
            if let Err(why) = self.interpreter(*runtime).await {
                missing.push(why.to_owned());
            }
        }
        missing
    }
}

fn find_python(config: &ToolsConfig) -> Result<PathBuf, String> {
    // The program's own name for itself: a shim in front of it would cost at every start.
    let ask = "import sys; print(sys.executable); print('%d.%d' % sys.version_info[:2])";
    let (given, names) = (config.python.as_deref(), ["python3.11", "python3"]);
    find(config, given, &names, &["-c", ask], |version| {
        version == "3.11"
    })
    .map_err(|found| format!("python3.11 needs Python 3.11: {found}"))
}

fn find_node(config: &ToolsConfig) -> Result<PathBuf, String> {
    let ask = "console.log(process.execPath + '\\n' + process.versions.node)";
    let given = config.node.as_deref();
    find(config, given, &["node"], &["-e", ask], |version| {
        version.starts_with("20.")
    })
    .map_err(|found| format!("nodejs20 needs Node.js 20: {found}"))
}

/// The first program that is there and has the right version, by its full path.
fn find(
    config: &ToolsConfig,
    given: Option<&Path>,
    names: &[&str],
    question: &[&str],
    right: impl Fn(&str) -> bool,
) -> Result<PathBuf, String> {
    let candidates: Vec<PathBuf> = match given {
        Some(given) => vec![given.to_owned()],
        None => names
            .iter()
            .flat_map(|name| {
                std::env::split_paths(&config.path).map(move |folder| folder.join(name))
            })
            .filter(|path| path.is_file())
            .collect(),
    };
    if candidates.is_empty() {
        return Err(format!("no {} in {}", names.join(" or "), config.path));
    }
    let mut others = Vec::new();
    for candidate in candidates {
        let answer = Command::new(&candidate)
            .args(question)
            .env_clear()
            .env("PATH", &config.path)
            .env(
                "HOME",
                config.build_env.get("HOME").map_or("/", String::as_str),
            )
            .output();
        let answer = answer.ok().filter(|answer| answer.status.success());
        let text = answer.and_then(|answer| String::from_utf8(answer.stdout).ok());
        let mut lines = text.as_deref().unwrap_or_default().lines();
        match (lines.next(), lines.next()) {
            (Some(path), Some(version)) if right(version) => return Ok(path.into()),
            (_, Some(version)) => others.push(format!("{} is {version}", candidate.display())),
            _ => others.push(format!("{} does not run", candidate.display())),
        }
    }
    Err(others.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_missing_is_said_with_what_was_found() {
        let config = ToolsConfig {
            path: "/nowhere".to_owned(),
            ..ToolsConfig::default()
        };
        let missing = Tools::new(config.clone()).missing().await;
        assert_eq!(missing.len(), 2);
        let expected = "no python3.11 or python3 in /nowhere";
        assert!(missing[0].contains(expected), "{missing:?}");
        let config = ToolsConfig {
            node: Some("/bin/sh".into()),
            ..config
        };
        let tools = Tools::new(config);
        let error = tools.interpreter(Runtime::NodeJs20).await;
        assert!(error.expect_err("no node").contains("/bin/sh does not run"));
    }

    #[test]
    fn functions_never_see_what_builds_see() {
        let variables = [
            ("PIP_INDEX_URL", "x"),
            ("https_proxy", "y"),
            ("SECRET", "z"),
            ("PATH", "/p"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let config = ToolsConfig::default().with_environment(variables);
        assert_eq!(config.path, "/p");
        let names: Vec<_> = config.build_env.keys().map(String::as_str).collect();
        assert_eq!(names, ["PIP_INDEX_URL", "https_proxy"]);
    }
}
