//! The Dockerfile of a Job.
//!
//! It makes what the one in the context makes, in another order: what is installed comes before the code,
//! so that its layer is taken from the cache where only code has changed. The code is in an image of the
//! registry, and not next to the Dockerfile.

use std::fmt::Write as _;

use sless_core::{
    BuildRequest, Language,
    source::{Dependencies, SourceTree},
};

use crate::registry::Reference;

/// Where the files are in the image.
const FOLDER: &str = "/app";
/// Where pip puts packages, as the context's own Dockerfile has it.
const PACKAGES: &str = "/opt/sless/packages";
/// The user and group that functions run as.
const USER: &str = "65532:65532";

/// What a Dockerfile is made of.
pub(super) struct Recipe<'a> {
    pub(super) request: &'a BuildRequest,
    pub(super) tree: &'a SourceTree,
    pub(super) dependencies: &'a Dependencies,
    /// The base image.
    pub(super) base: &'a Reference,
    /// The image with the files.
    pub(super) source: &'a Reference,
    /// Variables that pip and npm are to have.
    pub(super) variables: Vec<&'a str>,
    /// How they get them.
    pub(super) passing: Passing,
}

/// How a `RUN` gets variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passing {
    /// As secrets that leave no trace in the image (BuildKit).
    Secrets,
    /// As arguments of the build.
    Arguments,
}

impl Recipe<'_> {
    pub(super) fn text(&self) -> String {
        let Recipe { base, source, .. } = self;
        let mut text = format!("FROM {source} AS source\nFROM {base}\nUSER 0:0\n");
        // On its own, a layer of BuildKit is put on others without them being there.
        let copy = match self.passing {
            Passing::Secrets => "COPY --link --from=source",
            Passing::Arguments => "COPY --from=source",
        };
        let code = format!("{copy} {FOLDER}/ {FOLDER}/\n");
        match self.install() {
            None => text.push_str(&code),
            Some(install) => {
                // Compiled modules then hold digests of their sources, and not the time of the build.
                text.push_str("ARG SOURCE_DATE_EPOCH\n");
                // Writing to a String cannot fail.
                let _ = writeln!(text, "WORKDIR {FOLDER}");
                match self.read_by_install() {
                    None => {
                        text.push_str(&code);
                        text.push_str(&self.run(&install));
                    }
                    Some(files) => {
                        let files = files.iter().map(|file| format!("{FOLDER}/{file} "));
                        let _ = writeln!(text, "{copy} {}{FOLDER}/", files.collect::<String>());
                        text.push_str(&self.run(&install));
                        text.push_str(&code);
                    }
                }
            }
        }
        let runtime = &self.request.runtime;
        let _ = write!(
            text,
            "ENV SLESS_RUNTIME={} SLESS_ENTRYPOINT={}{}\n\
             USER {USER}\n",
            runtime.runtime,
            runtime.entrypoint,
            match self.dependencies {
                Dependencies::Python { .. } => format!(" PYTHONPATH={PACKAGES}"),
                _ => String::new(),
            },
        );
        text
    }

    fn run(&self, install: &str) -> String {
        let mut text = String::new();
        let mut mounts = String::new();
        for name in &self.variables {
            let _ = match self.passing {
                Passing::Secrets => write!(mounts, "--mount=type=secret,id={name},env={name} "),
                Passing::Arguments => writeln!(text, "ARG {name}"),
            };
        }
        let _ = writeln!(text, "RUN {mounts}{install}");
        text
    }

    fn install(&self) -> Option<String> {
        match self.dependencies {
            Dependencies::Python { .. } => Some(format!(
                "pip install --no-input --no-cache-dir --disable-pip-version-check \
                 --progress-bar=off --root-user-action=ignore --target {PACKAGES} \
                 --requirement requirements.txt"
            )),
            Dependencies::Node { lock, .. } => {
                let command = if lock.is_some() { "ci" } else { "install" };
                // npm's cache would be a second copy of everything in the layer.
                Some(format!(
                    "npm {command} --omit=dev --no-audit --no-fund --no-update-notifier \
                     --cache=/tmp/npm && rm -rf /tmp/npm"
                ))
            }
            _ => None,
        }
    }

    /// The files that an install reads; `None` where it may read any.
    fn read_by_install(&self) -> Option<Vec<&str>> {
        let runtime = self.request.runtime.runtime;
        let manifest = self.tree.read(runtime.manifest()).ok()?;
        let text = String::from_utf8_lossy(&manifest);
        let alone = match runtime.language() {
            Language::Python => text.lines().all(from_index),
            _ => npm_alone(&text) && self.tree.get("binding.gyp").is_none(),
        };
        if !alone {
            return None;
        }
        let names: &[&str] = match runtime.language() {
            Language::Python => &["requirements.txt"],
            _ => &[
                "package.json",
                "package-lock.json",
                "npm-shrinkwrap.json",
                ".npmrc",
            ],
        };
        let there = names.iter().filter(|name| self.tree.get(name).is_some());
        Some(there.copied().collect())
    }
}

/// Whether a line of a requirements file names a package of an index, or nothing: no option, no path and
/// no URL.
fn from_index(line: &str) -> bool {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return true;
    }
    let name = line.starts_with(|first: char| first.is_ascii_alphanumeric());
    let requirement = line.split([';', '#']).next().unwrap_or_default();
    name && !requirement.contains(['/', '\\', '@']) && !requirement.ends_with(".whl")
}

/// Whether npm reads nothing but its own files: no package of the source's, and no scripts of it that run
/// on install.
fn npm_alone(text: &str) -> bool {
    let Ok(package) = serde_json::from_str::<serde_json::Value>(text) else {
        return false;
    };
    let scripts = [
        "preinstall",
        "install",
        "postinstall",
        "preprepare",
        "prepare",
        "postprepare",
        "prepublish",
    ];
    let runs = scripts
        .iter()
        .any(|name| !package["scripts"][name].is_null());
    let fields = ["dependencies", "optionalDependencies", "peerDependencies"];
    let local = fields
        .iter()
        .filter_map(|field| package[field].as_object())
        .flat_map(|packages| packages.values())
        .filter_map(|version| version.as_str())
        .any(|version| version.contains(['/', '\\']) || version.starts_with("file:"));
    !runs && !local && package["workspaces"].is_null() && package["overrides"].is_null()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sless_core::{
        BuildId, ContextRef, Entrypoint, FunctionId, Name, Namespace, Runtime, RuntimeVersions,
        StorageKey, SystemClock, Uid, memory::MemoryStorage,
    };

    use super::*;

    fn text(runtime: Runtime, files: &[(&str, &str)], passing: Passing) -> String {
        let tree =
            SourceTree::from_files(files.iter().map(|(name, text)| (*name, text.to_string())));
        let tree = tree.expect("a source");
        let info = RuntimeVersions::default().info(runtime, Entrypoint::default());
        let info = info.expect("a runtime");
        let id = BuildId {
            function: FunctionId {
                namespace: Namespace::new("n").expect("a label"),
                name: Name::new("f").expect("a label"),
                uid: Uid::new("1"),
            },
            code: tree.digest(),
            runtime_version: info.version.clone(),
            attempt: 0,
        };
        let context = ContextRef {
            storage: Arc::new(MemoryStorage::new(Arc::new(SystemClock))),
            key: StorageKey::new("contexts/n/f/1.tar.gz").expect("a key"),
        };
        let request = BuildRequest::new(id, info, true, context);
        let dependencies = Dependencies::detect(runtime, &tree).expect("a manifest");
        let recipe = Recipe {
            request: &request,
            tree: &tree,
            dependencies: &dependencies,
            base: &"r.example/base:v1".parse().expect("a name"),
            source: &"r.example/source:v1".parse().expect("a name"),
            variables: vec!["PIP_INDEX_URL"],
            passing,
        };
        recipe.text()
    }

    #[test]
    fn what_is_installed_comes_before_the_code() {
        let files = [("handler.py", ""), ("requirements.txt", "six\n")];
        let made = text(Runtime::Python311, &files, Passing::Secrets);
        let expected = "FROM r.example/source:v1 AS source\n\
            FROM r.example/base:v1\n\
            USER 0:0\n\
            ARG SOURCE_DATE_EPOCH\n\
            WORKDIR /app\n\
            COPY --link --from=source /app/requirements.txt /app/\n\
            RUN --mount=type=secret,id=PIP_INDEX_URL,env=PIP_INDEX_URL pip install --no-input \
            --no-cache-dir --disable-pip-version-check --progress-bar=off \
            --root-user-action=ignore --target /opt/sless/packages --requirement requirements.txt\n\
            COPY --link --from=source /app/ /app/\n\
            ENV SLESS_RUNTIME=python3.11 SLESS_ENTRYPOINT=handler.handle \
            PYTHONPATH=/opt/sless/packages\n\
            USER 65532:65532\n";
        assert_eq!(made, expected);

        let files = [
            ("handler.js", ""),
            ("package.json", r#"{"dependencies":{"a":"1"}}"#),
            (".npmrc", ""),
        ];
        let made = text(Runtime::NodeJs20, &files, Passing::Arguments);
        assert!(made.contains("COPY --from=source /app/package.json /app/.npmrc /app/\nARG PIP_INDEX_URL\nRUN npm install"), "{made}");
    }

    #[test]
    fn what_reads_the_source_comes_after_it() {
        let local = |line: &str| {
            let files = [("handler.py", ""), ("requirements.txt", line)];
            let made = text(Runtime::Python311, &files, Passing::Secrets);
            !made.contains("/app/requirements.txt")
        };
        for line in [
            "./x.whl",
            "-r more.txt",
            "x.whl",
            "a @ file:///app/a",
            "--index-url=x",
            "-e .",
        ] {
            assert!(local(line), "{line}");
        }
        for line in [
            "six==1.0",
            "a[b]>=1,<2 ; python_version > '3'",
            "# ./x\nsix",
        ] {
            assert!(!local(line), "{line}");
        }
        let package = |text_of: &str| {
            let files = [
                ("handler.js", ""),
                ("package.json", text_of),
                ("lib/package.json", "{}"),
            ];
            !text(Runtime::NodeJs20, &files, Passing::Secrets).contains("/app/package.json")
        };
        assert!(package(r#"{"dependencies":{"a":"file:./lib"}}"#));
        assert!(package(
            r#"{"dependencies":{"a":"1"},"scripts":{"postinstall":"node x"}}"#
        ));
        assert!(package(
            r#"{"dependencies":{"a":"1"},"workspaces":["lib"]}"#
        ));
        assert!(!package(
            r#"{"dependencies":{"a":"^1"},"scripts":{"test":"x"}}"#
        ));
    }
}
