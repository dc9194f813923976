//! What is called: a module and a function in it.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{SourceFile, SourceTree};
use crate::{
    Error, Result,
    runtime::{Language, Runtime},
};

/// `module.function`, such as `handler.handle`; the module may be dotted, as in `app.web.handle`.
///
/// Each segment is a letter or `_`, followed by letters, digits and `_`, all ASCII; a module's
/// segment may hold `-` as well, since file names of Node modules do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entrypoint(String);

impl Entrypoint {
    /// Bytes of an entrypoint at most.
    pub const BYTES: usize = 255;

    /// The whole, as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The module, dotted.
    pub fn module(&self) -> &str {
        self.0.rsplit_once('.').map_or("", |(module, _)| module)
    }

    /// The function.
    pub fn function(&self) -> &str {
        self.0.rsplit_once('.').map_or("", |(_, function)| function)
    }

    /// The paths that may hold the module, the one that wins first.
    pub fn candidates(&self, runtime: Runtime) -> Vec<String> {
        let base = self.module().replace('.', "/");
        let endings: &[&str] = match runtime.language() {
            Language::Python => &["/__init__.py", ".py"],
            Language::Node => &[".js", ".cjs", ".mjs", "/index.js"],
        };
        let paths = endings.iter().map(|ending| format!("{base}{ending}"));
        paths.collect()
    }

    /// The file in the tree that holds the module; an error that lists the files looked for where
    /// there is none.
    pub fn file<'tree>(
        &self,
        runtime: Runtime,
        tree: &'tree SourceTree,
    ) -> Result<&'tree SourceFile> {
        let candidates = self.candidates(runtime);
        let found = candidates.iter().find_map(|path| tree.get(path));
        found.ok_or_else(|| {
            // A folder around everything is what people meet most; say so where it is the cause.
            let suffixed = |file: &&SourceFile| {
                let within = |path: &String| file.path.strip_suffix(path.as_str());
                candidates
                    .iter()
                    .any(|path| within(path).is_some_and(|rest| rest.ends_with('/')))
            };
            let hint = tree
                .files()
                .iter()
                .find(suffixed)
                .map_or(String::new(), |file| {
                    format!(
                        "; there is `{}`: pack the files without the folder around them",
                        file.path
                    )
                });
            Error::invalid(format!(
                "entrypoint `{self}` of runtime {runtime}: none of {} is in the source{hint}",
                candidates.join(", ")
            ))
            .with_reason("entrypoint_missing")
        })
    }
}

impl Default for Entrypoint {
    fn default() -> Self {
        Self("handler.handle".into())
    }
}

impl fmt::Display for Entrypoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Entrypoint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = |rule: &str| {
            let shown: String = text.chars().take(80).collect();
            Err(Error::invalid(format!(
                "entrypoint {shown:?}: {rule}; expected `module.function`, such as `handler.handle`"
            ))
            .with_reason("entrypoint_format"))
        };
        if text.len() > Self::BYTES {
            return Err(Error::limit("entrypoint_bytes", Self::BYTES, "bytes"));
        }
        let Some((module, function)) = text.rsplit_once('.') else {
            return refuse("there is no dot between module and function");
        };
        let named = |segment: &str, dash: bool| {
            let first = |c: char| c.is_ascii_alphabetic() || c == '_';
            let rest = |c: char| c.is_ascii_alphanumeric() || c == '_' || dash && c == '-';
            segment.starts_with(first) && segment.chars().all(rest)
        };
        if !module.split('.').all(|segment| named(segment, true)) {
            return refuse("a segment of the module is not a name");
        }
        if !named(function, false) {
            return refuse("the function is not a name");
        }
        Ok(Self(text.to_owned()))
    }
}

impl Serialize for Entrypoint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Entrypoint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'_, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
