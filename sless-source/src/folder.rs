//! A folder as the function that it is.

use std::{
    fs,
    io::{self, Seek as _},
    path::{Path, PathBuf},
};

use sless_api::CreateFunction;
use sless_core::{
    Entrypoint, FunctionSpec, NAME_MAX, Name, Runtime,
    source::{SourceLimits, SourceTree, pack},
};

use crate::{
    Declared, Overrides,
    error::FolderError,
    files,
    manifest::{FILE, Manifest},
    wire::{self, FieldError},
};

/// A folder that was given.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Folder {
    /// As it was given: what messages show.
    pub shown: PathBuf,
    /// Absolute.
    pub path: PathBuf,
}

/// What is in a folder now. It is equal to another one where function, triggers and files are the
/// same.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Content {
    /// The function's name.
    pub name: Name,
    /// What is wanted of the function: what was left out has its default.
    pub spec: FunctionSpec,
    /// The function as it was given, ready to be sent.
    pub request: CreateFunction,
    /// Its triggers; `None` where there is no manifest, which says nothing of triggers.
    pub triggers: Option<Vec<Declared>>,
    /// The files.
    pub tree: SourceTree,
}

/// A zip to upload, in an unnamed temporary file that goes with it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Zip {
    /// The file, at its start.
    pub file: fs::File,
    /// How long it is.
    pub bytes: u64,
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
    /// The triggers of the manifest, where there is one.
    pub fn declared(&self) -> &[Declared] {
        self.triggers.as_deref().unwrap_or_default()
    }

    /// The zip to upload: the same files give the same bytes, whenever and wherever it is made.
    ///
    /// # Errors
    /// What the system says of the temporary file.
    pub fn zip(&self) -> sless_core::Result<Zip> {
        let failed = |source: io::Error| {
            sless_core::Error::internal(format!("cannot write the zip: {source}"))
                .with_source(source)
        };
        let file = io::BufWriter::with_capacity(64 << 10, tempfile::tempfile().map_err(failed)?);
        let file = pack::write_zip(&self.tree, file)?;
        let mut file = file
            .into_inner()
            .map_err(|error| failed(error.into_error()))?;
        let bytes = file.stream_position().map_err(failed)?;
        file.rewind().map_err(failed)?;
        Ok(Zip { file, bytes })
    }
}

impl Folder {
    /// A folder that is there.
    ///
    /// # Errors
    /// [`FolderError`] where it is not, or is a file.
    pub fn open(shown: &Path) -> Result<Self, FolderError> {
        let path = shown.canonicalize();
        let path = path.map_err(|source| FolderError::unreadable(shown, source))?;
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

    /// The function's name: that of the manifest, or else the folder's as a DNS label.
    ///
    /// # Errors
    /// [`FolderError`] where the manifest is wrong, or no name can be made.
    pub fn name(&self) -> Result<Name, FolderError> {
        match fs::read(self.path.join(FILE)) {
            Ok(text) => Ok(self.manifest(&text)?.name),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(Name::new(self.own_label()?).map_err(FieldError::from)?)
            }
            Err(error) => Err(FolderError::unreadable(self.shown.join(FILE), error)),
        }
    }

    /// The DNS label that is as close to a folder's name as one can be; none where nothing of it may
    /// stand in a label.
    pub fn label(name: &str) -> Option<String> {
        label(name)
    }

    fn own_label(&self) -> Result<String, FolderError> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        label(&name).ok_or_else(|| FolderError::NoName {
            path: self.shown.clone(),
        })
    }

    /// Reads manifest and code. Where there is no manifest, the folder's name is the function's and
    /// its handler tells the language.
    ///
    /// # Errors
    /// [`FolderError`] naming the first thing that is wrong.
    pub fn read(
        &self,
        limits: &SourceLimits,
        overrides: &Overrides,
    ) -> Result<Content, FolderError> {
        let failed = |path: PathBuf| |source| FolderError::unreadable(path, source);
        fs::metadata(&self.path).map_err(failed(self.shown.clone()))?;
        let file = self.shown.join(FILE);
        let (mut request, triggers) = match fs::read(self.path.join(FILE)) {
            Ok(text) => {
                let Manifest {
                    request, triggers, ..
                } = self.manifest(&text)?;
                (request, Some(triggers))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                (self.defaults(overrides)?, None)
            }
            Err(error) => return Err(FolderError::unreadable(file, error)),
        };
        overrides.apply(&mut request);
        let name = Name::new(&request.name).map_err(FieldError::from)?;
        let spec = wire::function_spec(request.clone())?;
        spec.validate().map_err(FieldError::from)?;
        let triggers = triggers.map(|mut triggers| {
            for trigger in &mut triggers {
                trigger.request.function_ref = name.to_string();
                trigger.spec.function_ref = name.clone();
            }
            triggers
        });
        let tree = files::read_tree(&self.path, &self.shown, limits)?;
        let file = spec.entrypoint.file(spec.runtime, &tree);
        file.map_err(|source| FolderError::Source {
            path: self.shown.clone(),
            source,
        })?;
        Ok(Content {
            name,
            spec,
            request,
            triggers,
            tree,
        })
    }

    fn manifest(&self, text: &[u8]) -> Result<Manifest, FolderError> {
        let path = self.shown.join(FILE);
        let text = std::str::from_utf8(text).map_err(|error| {
            FolderError::unreadable(&path, io::Error::new(io::ErrorKind::InvalidData, error))
        })?;
        Manifest::parse(text).map_err(|source| FolderError::Manifest { path, source })
    }

    /// What holds where there is no manifest.
    fn defaults(&self, overrides: &Overrides) -> Result<CreateFunction, FolderError> {
        let name = match &overrides.name {
            Some(name) => name.clone(),
            None => self.own_label()?,
        };
        let runtime = match &overrides.runtime {
            Some(runtime) => runtime.clone(),
            None => self.runtime()?.to_string(),
        };
        Ok(CreateFunction {
            name,
            runtime,
            ..CreateFunction::default()
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

#[cfg(test)]
mod tests;
