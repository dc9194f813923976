//! What a source asks to have installed.

use std::io::{BufReader, Read as _};

use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::{SourceTree, tree::spool_error};
use crate::{
    Digest, Error, Result,
    runtime::{Language, Runtime},
};

/// What is to be installed before a function can run.
///
/// Read from the root of the source only. The digests name the files that say what to install; they
/// do not name a result, since a requirement may point to another file of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dependencies {
    /// Nothing: no manifest, or one that asks for nothing.
    None,
    /// `pip install --requirement requirements.txt`
    Python {
        /// The digest of `requirements.txt`.
        requirements: Digest,
    },
    /// `npm ci` where there is a lock file, else `npm install`.
    Node {
        /// The digest of `package.json`.
        package: Digest,
        /// The digest of `npm-shrinkwrap.json`, else of `package-lock.json`. Lock files of other
        /// package managers are not read.
        lock: Option<Digest>,
    },
}

impl Dependencies {
    /// Bytes of `requirements.txt` or `package.json` at most.
    pub const MANIFEST_BYTES: u64 = 1 << 20;

    /// Reads the manifest of this runtime's language. One that cannot be read fails here, naming the
    /// file and the place in it, rather than in the build.
    pub fn detect(runtime: Runtime, tree: &SourceTree) -> Result<Self> {
        let name = runtime.manifest();
        let Some(file) = tree.get(name) else {
            return Ok(Self::None);
        };
        if file.size > Self::MANIFEST_BYTES {
            return Err(Error::limit("manifest_bytes", Self::MANIFEST_BYTES, "bytes").on(name));
        }
        let bytes = tree.read(name)?;
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        match runtime.language() {
            Language::Python if asks_pip(text)? => Ok(Self::Python {
                requirements: file.sha256,
            }),
            Language::Node if asks_npm(text)? => Ok(Self::Node {
                package: file.sha256,
                lock: lock(tree)?,
            }),
            _ => Ok(Self::None),
        }
    }

    /// Whether there is nothing to install.
    pub const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

/// Whether a requirements file holds anything but comments.
fn asks_pip(text: &[u8]) -> Result<bool> {
    let text = std::str::from_utf8(text).map_err(|error| {
        let before = &text[..error.valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        malformed("requirements.txt", format!("line {line}: not UTF-8"))
    })?;
    let mut lines = text.lines().map(str::trim);
    Ok(lines.any(|line| !line.is_empty() && !line.starts_with('#')))
}

/// Whether a package.json names packages that are installed without development ones.
fn asks_npm(text: &[u8]) -> Result<bool> {
    let package: Map<String, Value> = serde_json::from_slice(text)
        .map_err(|error| malformed("package.json", error.to_string()))?;
    let mut any = false;
    for field in ["dependencies", "optionalDependencies", "peerDependencies"] {
        any |= match package.get(field) {
            None => false,
            Some(Value::Object(names)) => {
                let unusable = names.iter().find(|(_, version)| !version.is_string());
                if let Some((name, _)) = unusable {
                    let rule = format!("{field}: the version of {name:?} is not a string");
                    return Err(malformed("package.json", rule));
                }
                !names.is_empty()
            }
            Some(_) => {
                let rule = format!("{field}: expected an object of names and versions");
                return Err(malformed("package.json", rule));
            }
        };
    }
    Ok(any || package.contains_key("workspaces"))
}

fn lock(tree: &SourceTree) -> Result<Option<Digest>> {
    // npm's own order.
    let names = ["npm-shrinkwrap.json", "package-lock.json"];
    let Some(file) = names.iter().find_map(|name| tree.get(name)) else {
        return Ok(None);
    };
    let reader = BufReader::new(tree.open(&file.path)?.take(file.size));
    serde_json::from_reader::<_, IgnoredAny>(reader).map_err(|error| {
        if error.is_io() {
            return spool_error("cannot read the unpacked source", error.into());
        }
        malformed(&file.path, error.to_string())
    })?;
    Ok(Some(file.sha256))
}

fn malformed(name: &str, what: String) -> Error {
    Error::invalid(format!("{name}: {what}")).with_reason("manifest_malformed")
}
