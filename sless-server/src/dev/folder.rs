//! A folder as the function that it is.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use sless_core::{
    Entrypoint, FunctionSpec, NAME_MAX, Name, Runtime, TriggerSpec,
    source::{SourceLimits, SourceTree, pack},
};

use super::{
    error::FolderError,
    manifest::{FILE, Manifest},
};

/// A folder that was given.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    /// As it was given: what messages show.
    pub(super) shown: PathBuf,
    /// Absolute.
    pub(super) path: PathBuf,
}

/// What is in a folder now.
#[derive(Clone, Debug)]
pub(super) struct Content {
    pub(super) name: Name,
    pub(super) spec: FunctionSpec,
    pub(super) triggers: Vec<(Name, TriggerSpec)>,
    tree: SourceTree,
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        let files = |content: &Self| content.tree.digest();
        files(self) == files(other)
            && (&self.name, &self.spec, &self.triggers)
                == (&other.name, &other.spec, &other.triggers)
    }
}

impl Content {
    /// The zip to upload.
    pub(super) fn zip(&self) -> sless_core::Result<Vec<u8>> {
        Ok(pack::write_zip(&self.tree, io::Cursor::new(Vec::new()))?.into_inner())
    }
}

/// Whether a file or folder of this name is part of a function's code. What begins with a dot belongs
/// to tools; installed packages and compiled files are made anew where the function runs.
pub(super) fn is_taken(name: &str) -> bool {
    !name.starts_with('.') && name != "node_modules" && name != "__pycache__"
}

impl Folder {
    /// A folder that is there.
    pub(super) fn open(shown: &Path) -> Result<Self, FolderError> {
        let path = shown
            .canonicalize()
            .map_err(|source| unreadable(shown, source))?;
        if !path.is_dir() {
            return Err(FolderError::NotAFolder {
                path: shown.to_owned(),
            });
        }
        Ok(Self {
            shown: shown.to_owned(),
            path,
        })
    }

    /// Reads manifest and code. It blocks.
    pub(super) fn read(&self, limits: &SourceLimits) -> Result<Content, FolderError> {
        fs::metadata(&self.path).map_err(|error| unreadable(&self.shown, error))?;
        let manifest = match fs::read(self.path.join(FILE)) {
            Ok(text) => self.manifest(&text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.defaults()?,
            Err(error) => return Err(unreadable(&self.shown.join(FILE), error)),
        };
        let refused = |source| FolderError::Source {
            path: self.shown.clone(),
            source,
        };
        let keep = |path: &str| path != FILE && is_taken(path.rsplit('/').next().unwrap_or(path));
        let tree = pack::read_dir(&self.path, limits, keep).map_err(refused)?;
        let Manifest {
            name,
            spec,
            triggers,
        } = manifest;
        spec.entrypoint.file(spec.runtime, &tree).map_err(refused)?;
        Ok(Content {
            name,
            spec,
            triggers,
            tree,
        })
    }

    fn manifest(&self, text: &[u8]) -> Result<Manifest, FolderError> {
        let path = self.shown.join(FILE);
        let text = std::str::from_utf8(text).map_err(|error| {
            unreadable(&path, io::Error::new(io::ErrorKind::InvalidData, error))
        })?;
        Manifest::parse(text).map_err(|source| FolderError::Manifest { path, source })
    }

    /// What holds where there is no manifest.
    fn defaults(&self) -> Result<Manifest, FolderError> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let name = label(&name).and_then(|label| Name::new(label).ok());
        let name = name.ok_or_else(|| FolderError::NoName {
            path: self.shown.clone(),
        })?;
        let spec = FunctionSpec::new(self.runtime()?);
        Ok(Manifest {
            name,
            spec,
            triggers: Vec::new(),
        })
    }

    /// The language, by the files of the default handler, or else of its dependencies.
    fn runtime(&self) -> Result<Runtime, FolderError> {
        let entrypoint = Entrypoint::default();
        let mut looked_for = vec![FILE.to_owned()];
        let mut found = Vec::new();
        for runtime in Runtime::ALL {
            let candidates = entrypoint.candidates(*runtime);
            if candidates.iter().any(|path| self.path.join(path).is_file()) {
                found.push(*runtime);
            }
            looked_for.extend(candidates);
        }
        match found.as_slice() {
            [one] => return Ok(*one),
            [first, second, ..] => {
                return Err(FolderError::TwoHandlers {
                    path: self.shown.clone(),
                    first: first.default_file(),
                    second: second.default_file(),
                });
            }
            [] => {}
        }
        // The handler is missing, and the error that says so is better with the language known.
        let has = |runtime: &&Runtime| self.path.join(runtime.manifest()).is_file();
        let mut by_dependencies = Runtime::ALL.iter().filter(has);
        match (by_dependencies.next(), by_dependencies.next()) {
            (Some(only), None) => Ok(*only),
            _ => Err(FolderError::NoHandler {
                path: self.shown.clone(),
                looked_for: looked_for.join(", "),
            }),
        }
    }
}

/// A DNS label that is as close to a folder's name as one can be.
fn label(name: &str) -> Option<String> {
    let mut label = String::new();
    for letter in name.chars() {
        let letter = letter.to_ascii_lowercase();
        if letter.is_ascii_lowercase() || letter.is_ascii_digit() {
            label.push(letter);
        } else if !label.is_empty() && !label.ends_with('-') {
            label.push('-');
        }
    }
    label.truncate(NAME_MAX);
    let label = label.trim_end_matches('-');
    (!label.is_empty()).then(|| label.to_owned())
}

fn unreadable(path: &Path, source: io::Error) -> FolderError {
    FolderError::Unreadable {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn folder(files: &[(&str, &str)]) -> (tempfile::TempDir, Folder) {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("My_Function");
        fs::create_dir(&path).unwrap();
        for (name, text) in files {
            let path = path.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let folder = Folder::open(&path).unwrap();
        (root, folder)
    }

    fn read(files: &[(&str, &str)]) -> Result<Content, FolderError> {
        let (_root, folder) = folder(files);
        folder.read(&SourceLimits::default())
    }

    #[test]
    fn without_a_manifest_name_and_language_come_from_the_folder() {
        let python = read(&[("handler.py", "")]).unwrap();
        assert_eq!(python.name.as_str(), "my-function");
        assert_eq!(python.spec, FunctionSpec::new(Runtime::Python311));
        for handler in ["handler.js", "handler.mjs", "handler/index.js"] {
            let node = read(&[(handler, "")]).unwrap();
            assert_eq!(node.spec, FunctionSpec::new(Runtime::NodeJs20));
        }
        // What builds need beside the handler does not make it another language.
        let both = read(&[("handler.js", ""), ("requirements.txt", "")]).unwrap();
        assert_eq!(both.spec.runtime, Runtime::NodeJs20);
    }

    #[test]
    fn a_folder_without_a_function_is_refused_with_the_files_looked_for() {
        let error = read(&[("main.go", "")]).unwrap_err().to_string();
        for file in [
            "My_Function",
            "sless.toml",
            "handler.py",
            "handler.js",
            "handler.mjs",
        ] {
            assert!(error.contains(file), "{file}: {error}");
        }
        let error = read(&[("package.json", "{}")]).unwrap_err().to_string();
        assert!(
            error.contains("handler.js") && !error.contains("handler.py"),
            "{error}"
        );
        let manifest = "name = 'a'\nruntime = 'python3.11'\nentrypoint = 'app.main'\n";
        let error = read(&[(FILE, manifest), ("handler.py", "")])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("app.py") && error.contains("app.main"),
            "{error}"
        );
        let error = read(&[("handler.py", ""), ("handler.js", "")])
            .unwrap_err()
            .to_string();
        assert!(error.contains("`runtime` in sless.toml"), "{error}");
    }

    #[test]
    fn what_is_no_folder_is_refused_by_name() {
        let (root, folder) = folder(&[("handler.py", "")]);
        let error = Folder::open(&root.path().join("nowhere"))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("nowhere") && error.contains("expected a folder"),
            "{error}"
        );
        let error = Folder::open(&folder.path.join("handler.py"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("handler.py is a file"), "{error}");
    }

    #[test]
    fn a_wrong_manifest_is_named_with_the_place() {
        let error = read(&[(FILE, "name = 'a'\n\nfoo = 1\n"), ("handler.py", "")]).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("sless.toml:3:1: unknown field `foo`"),
            "{error}"
        );
    }

    #[test]
    fn what_belongs_to_tools_is_not_taken() {
        let files = [
            ("handler.py", "1"),
            ("lib/util.py", "2"),
            ("lib/.cache/x", "3"),
            (".git/HEAD", "4"),
            (".env", "5"),
            ("node_modules/a/index.js", "6"),
            ("lib/__pycache__/util.pyc", "7"),
            ("sless.toml", "name = 'a'\nruntime = 'python3.11'\n"),
        ];
        let content = read(&files).unwrap();
        let paths: Vec<_> = content
            .tree
            .files()
            .iter()
            .map(|file| file.path.as_str())
            .collect();
        assert_eq!(paths, ["handler.py", "lib/util.py"]);
    }

    #[test]
    fn a_change_of_code_or_manifest_is_another_content() {
        let (_root, folder) = folder(&[("handler.py", "1")]);
        let limits = SourceLimits::default();
        let before = folder.read(&limits).unwrap();
        fs::write(folder.path.join("handler.py~"), "").unwrap();
        fs::remove_file(folder.path.join("handler.py~")).unwrap();
        assert_eq!(folder.read(&limits).unwrap(), before);
        fs::write(folder.path.join("handler.py"), "2").unwrap();
        assert_ne!(folder.read(&limits).unwrap(), before);
        fs::write(folder.path.join("handler.py"), "1").unwrap();
        let manifest = "name = 'my-function'\nruntime = 'python3.11'\nconcurrency = 2\n";
        fs::write(folder.path.join(FILE), manifest).unwrap();
        let after = folder.read(&limits).unwrap();
        assert_eq!(after.tree.digest(), before.tree.digest());
        assert_ne!(after, before);
    }

    proptest! {
        #[test]
        fn whatever_label_is_made_is_a_name(name in "\\PC{0,90}") {
            match label(&name) {
                Some(label) => prop_assert!(Name::new(label).is_ok()),
                None => prop_assert!(!name.chars().any(|c| c.is_ascii_alphanumeric())),
            }
        }
    }
}
