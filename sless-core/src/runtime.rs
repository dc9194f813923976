//! The languages that functions are written in, and the versions of their base images.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Error, Result, source::Entrypoint};

/// A language and its version, as a function's spec names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Runtime {
    /// `python3.11`
    Python311,
    /// `nodejs20`
    NodeJs20,
}

/// The language of a runtime, whatever its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Language {
    /// Python, with pip.
    Python,
    /// JavaScript on Node.js, with npm.
    Node,
}

impl Runtime {
    /// Every runtime there is.
    pub const ALL: &'static [Self] = &[Self::Python311, Self::NodeJs20];

    /// The name in specs, answers and keys.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Python311 => "python3.11",
            Self::NodeJs20 => "nodejs20",
        }
    }

    /// The language.
    pub const fn language(self) -> Language {
        match self {
            Self::Python311 => Language::Python,
            Self::NodeJs20 => Language::Node,
        }
    }

    /// The file that holds the default entrypoint, `handler.handle`.
    pub const fn default_file(self) -> &'static str {
        match self.language() {
            Language::Python => "handler.py",
            Language::Node => "handler.js",
        }
    }

    /// The file at the root of a source that names what to install.
    pub const fn manifest(self) -> &'static str {
        match self.language() {
            Language::Python => "requirements.txt",
            Language::Node => "package.json",
        }
    }
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Runtime {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = Self::ALL.iter().find(|runtime| runtime.as_str() == text);
        known.copied().ok_or_else(|| {
            let shown: String = text.chars().take(80).collect();
            let names: Vec<_> = Self::ALL.iter().map(|runtime| runtime.as_str()).collect();
            Error::invalid(format!(
                "runtime {shown:?} is not known; expected one of {}",
                names.join(", ")
            ))
            .with_reason("unknown_runtime")
        })
    }
}

impl Serialize for Runtime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Runtime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'_, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Which version of each runtime's base image is used, and where the images are.
///
/// A new version is a new artifact: a build is named by the source's digest *and* this version, so
/// raising it builds every function anew.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RuntimeVersions {
    /// What stands before an image's name, such as `registry.example.com/sless`; empty for none.
    pub registry: String,
    /// Tags that differ from the default. `latest` is refused: its meaning changes with time.
    pub versions: BTreeMap<Runtime, String>,
}

impl RuntimeVersions {
    /// The tag of a runtime's base image where none is configured.
    pub const DEFAULT_VERSION: &'static str = concat!("v", env!("CARGO_PKG_VERSION"));

    /// The tag of this runtime's base image.
    pub fn version(&self, runtime: Runtime) -> &str {
        let configured = self.versions.get(&runtime);
        configured.map_or(Self::DEFAULT_VERSION, String::as_str)
    }

    /// Checks every tag and the registry, so that a wrong setting stops the start.
    pub fn validate(&self) -> Result<()> {
        for (runtime, version) in &self.versions {
            check_tag(*runtime, version)?;
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || ".-_:/[]".contains(c);
        let registry = &self.registry;
        if !registry.chars().all(plain) || registry.ends_with('/') || registry.starts_with('/') {
            return Err(Error::invalid(format!(
                "registry {registry:?}: expected a host and path such as `registry.example.com/sless`"
            ))
            .with_reason("registry_format"));
        }
        Ok(())
    }

    /// Everything that a build needs to know of a runtime.
    pub fn info(&self, runtime: Runtime, entrypoint: Entrypoint) -> Result<RuntimeInfo> {
        self.validate()?;
        let version = self.version(runtime).to_owned();
        let slash = if self.registry.is_empty() { "" } else { "/" };
        let image = format!("{}{slash}sless-runtime-{runtime}:{version}", self.registry);
        Ok(RuntimeInfo {
            runtime,
            version,
            image,
            entrypoint,
        })
    }
}

/// A tag as registries allow it, save `latest`.
fn check_tag(runtime: Runtime, tag: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let well_formed = !tag.is_empty()
        && tag.len() <= 128
        && tag.chars().all(plain)
        && !tag.starts_with(['.', '-']);
    if well_formed && tag != "latest" {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "version {tag:?} of runtime {runtime}: expected an image tag such as `{}`, and not `latest`",
        RuntimeVersions::DEFAULT_VERSION
    ))
    .with_reason("runtime_version"))
}

/// A runtime as one build uses it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeInfo {
    /// The runtime.
    pub runtime: Runtime,
    /// The tag of its base image.
    pub version: String,
    /// The base image with its tag, such as `sless-runtime-python3.11:v0.1.0`.
    pub image: String,
    /// What is called.
    pub entrypoint: Entrypoint,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_listed() {
        for runtime in Runtime::ALL {
            assert_eq!(
                runtime.as_str().parse::<Runtime>().expect("known"),
                *runtime
            );
        }
        let error = "python2".parse::<Runtime>().expect_err("unknown");
        assert_eq!(error.reason(), "unknown_runtime");
        assert!(error.message().contains("python3.11, nodejs20"), "{error}");
    }

    #[test]
    fn images_are_tagged_and_never_latest() {
        let mut versions = RuntimeVersions::default();
        let info = versions
            .info(Runtime::Python311, Entrypoint::default())
            .expect("the default");
        let tag = RuntimeVersions::DEFAULT_VERSION;
        assert_eq!(info.image, format!("sless-runtime-python3.11:{tag}"));

        versions.registry = "registry.example.com/sless".into();
        versions.versions.insert(Runtime::NodeJs20, "v2".into());
        let info = versions
            .info(Runtime::NodeJs20, Entrypoint::default())
            .expect("configured");
        assert_eq!(
            info.image,
            "registry.example.com/sless/sless-runtime-nodejs20:v2"
        );

        for bad in ["latest", "", "a b", ".x", "x\nRUN evil"] {
            versions.versions.insert(Runtime::NodeJs20, bad.into());
            let error = versions
                .info(Runtime::NodeJs20, Entrypoint::default())
                .expect_err(bad);
            assert_eq!(error.reason(), "runtime_version");
        }
    }

    #[test]
    fn a_registry_cannot_carry_a_second_instruction() {
        let versions = RuntimeVersions {
            registry: "host\nRUN x".into(),
            ..RuntimeVersions::default()
        };
        let refused = versions.validate().expect_err("a newline");
        assert_eq!(refused.reason(), "registry_format");
    }

    #[test]
    fn a_config_names_runtimes_by_their_names() {
        let read: RuntimeVersions =
            serde_json::from_str(r#"{"versions":{"python3.11":"v9"}}"#).expect("a config");
        assert_eq!(read.version(Runtime::Python311), "v9");
        assert!(serde_json::from_str::<RuntimeVersions>(r#"{"versions":{"cobol":"1"}}"#).is_err());
    }
}
