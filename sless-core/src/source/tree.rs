//! The checked list of files, and the bytes behind it.

use std::{fs, io::Read as _, path::Path, sync::Arc};

use bytes::Bytes;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::{
    FileReader, ReviewSet, SourceLimits,
    file_reader::Contents,
    path::{Origin, PathSet, clean},
    review,
};
use crate::{Digest, Error, Result};

/// One file of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SourceFile {
    /// Relative, `/` between segments.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// Whether it may be executed. Everything else of a mode is the same for all files.
    pub executable: bool,
    /// The digest of its content.
    pub sha256: Digest,
}

impl SourceFile {
    /// The mode that the file has wherever it is written: readable by all, writable by its owner.
    pub const fn mode(&self) -> u32 {
        if self.executable { 0o755 } else { 0o644 }
    }
}

/// A file to make a tree of.
#[derive(Clone, Debug)]
pub struct NewFile {
    /// Relative; `\` counts as `/`.
    pub path: String,
    /// The content.
    pub bytes: Bytes,
    /// Whether it may be executed.
    pub executable: bool,
}

impl NewFile {
    /// A file that is not executable.
    pub fn new(path: impl Into<String>, bytes: impl Into<Bytes>) -> Self {
        Self {
            path: path.into(),
            bytes: bytes.into(),
            executable: false,
        }
    }

    /// Makes it executable.
    #[must_use]
    pub fn executable(mut self) -> Self {
        self.executable = true;
        self
    }
}

/// A checked list of files with access to their bytes. At least one file, sorted by the bytes of
/// the path, no path twice, none unsafe to write below a folder. A clone shares the bytes.
#[derive(Clone, Debug)]
pub struct SourceTree(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    files: Vec<SourceFile>,
    /// Where each file's bytes are, in the order of `files`.
    places: Vec<u64>,
    contents: Arc<Contents>,
    digest: Digest,
    total_bytes: u64,
    skipped: Vec<String>,
}

impl SourceTree {
    /// A tree of files that are in memory, none of them executable, under the default limits.
    ///
    /// ```
    /// use sless_core::source::SourceTree;
    ///
    /// let tree = SourceTree::from_files([("handler.py", "def handle(event): return event")])?;
    /// assert_eq!(tree.files()[0].path, "handler.py");
    /// # Ok::<(), sless_core::Error>(())
    /// ```
    pub fn from_files<P, B>(files: impl IntoIterator<Item = (P, B)>) -> Result<Self>
    where
        P: Into<String>,
        B: Into<Bytes>,
    {
        let files = files.into_iter();
        Self::from_new_files(
            files.map(|(path, bytes)| NewFile::new(path, bytes)),
            &SourceLimits::default(),
        )
    }

    /// A tree of files that are in memory and stay there.
    pub fn from_new_files(
        files: impl IntoIterator<Item = NewFile>,
        limits: &SourceLimits,
    ) -> Result<Self> {
        let origin = Origin::Files;
        let mut paths = PathSet::default();
        let mut kept = Vec::new();
        let mut contents = Vec::new();
        let mut total = 0_u64;
        for file in files {
            let name = file.path.as_bytes();
            let path = clean(origin, &file.path, limits)?;
            if path.directory {
                return Err(origin.refuse(name, "directory", "expected a file"));
            }
            paths.insert(origin, &path)?;
            let size = file.bytes.len() as u64;
            total += size;
            limits
                .check_entries(kept.len() as u64 + 1)
                .and_then(|()| limits.check_file_bytes(size))
                .and_then(|()| limits.check_total_bytes(total))
                .map_err(|limit| origin.limit(name, limit))?;
            let described = SourceFile {
                path: path.path,
                size,
                executable: file.executable,
                sha256: Digest::of(&file.bytes),
            };
            kept.push((described, contents.len() as u64));
            contents.push(file.bytes);
        }
        Self::assemble(origin, kept, Contents::Memory(contents), Vec::new())
    }

    pub(super) fn assemble(
        origin: Origin,
        mut files: Vec<(SourceFile, u64)>,
        contents: Contents,
        skipped: Vec<String>,
    ) -> Result<Self> {
        if files.is_empty() {
            return Err(origin.refuse_all("empty", "there is no file in it"));
        }
        files.sort_unstable_by(|(a, _), (b, _)| a.path.as_bytes().cmp(b.path.as_bytes()));
        let (files, places): (Vec<_>, Vec<_>) = files.into_iter().unzip();
        Ok(Self(Arc::new(Inner {
            digest: digest(&files),
            total_bytes: files.iter().map(|file| file.size).sum(),
            files,
            places,
            contents: Arc::new(contents),
            skipped,
        })))
    }

    /// The files, sorted by the bytes of their paths.
    pub fn files(&self) -> &[SourceFile] {
        &self.0.files
    }

    /// The digest of paths, contents and executable bits; see [the module](super) for its making.
    pub fn digest(&self) -> Digest {
        self.0.digest
    }

    /// Bytes of all files together.
    pub fn total_bytes(&self) -> u64 {
        self.0.total_bytes
    }

    /// Entries of the zip that are no part of the source: what macOS adds by itself.
    pub fn skipped(&self) -> &[String] {
        &self.0.skipped
    }

    /// The file with this path.
    pub fn get(&self, path: &str) -> Option<&SourceFile> {
        self.position(path).map(|at| &self.0.files[at])
    }

    /// A reader over one file's bytes; [`NotFound`](crate::ErrorKind::NotFound) where there is none
    /// with this path.
    pub fn open(&self, path: &str) -> Result<FileReader> {
        let at = self.position(path).ok_or_else(|| {
            Error::not_found(format!("no file {path:?} in the source")).during("source.open")
        })?;
        let (place, size) = (self.0.places[at], self.0.files[at].size);
        Ok(FileReader::new(&self.0.contents, place, size))
    }

    /// One file's bytes, whole. A large file is better read through [`open`](Self::open).
    pub fn read(&self, path: &str) -> Result<Bytes> {
        let mut bytes = Vec::new();
        let mut reader = self.open(path)?;
        reader
            .read_to_end(&mut bytes)
            .map_err(|source| spool_error("cannot read the unpacked source", source))?;
        Ok(bytes.into())
    }

    /// What a validator sees.
    pub fn reviewable(&self) -> Result<ReviewSet> {
        review::select(self)
    }

    /// Writes the files below an existing folder, which should be empty: a file that is there
    /// already is an error. On Unix, modes are 0755 for directories and executables and 0644 for the
    /// rest, whatever the umask.
    ///
    /// Not atomic: write to a fresh folder and rename it.
    pub fn unpack(&self, folder: &Path) -> Result<()> {
        for file in self.files() {
            let failed = |source: std::io::Error| {
                let message = format!("cannot write {:?}", file.path);
                spool_error(message, source).during("source.unpack")
            };
            let target = folder.join(&file.path);
            make_parents(folder, &file.path).map_err(failed)?;
            let options = fs::OpenOptions::new().write(true).create_new(true).clone();
            let mut written = options.open(&target).map_err(failed)?;
            std::io::copy(&mut self.open(&file.path)?, &mut written).map_err(failed)?;
            set_mode(&target, file.mode()).map_err(failed)?;
        }
        Ok(())
    }

    fn position(&self, path: &str) -> Option<usize> {
        let files = &self.0.files;
        files
            .binary_search_by(|file| file.path.as_bytes().cmp(path.as_bytes()))
            .ok()
    }
}

fn make_parents(folder: &Path, path: &str) -> std::io::Result<()> {
    for (at, _) in path.match_indices('/') {
        let directory = folder.join(&path[..at]);
        match fs::create_dir(&directory) {
            Ok(()) => set_mode(&directory, 0o755)?,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn set_mode(_: &Path, _: u32) -> std::io::Result<()> {
    Ok(())
}

/// The digest that the module's documentation describes.
fn digest(files: &[SourceFile]) -> Digest {
    let mut hash = Sha256::new();
    hash.update(b"sless-source-v1\n");
    for file in files {
        let executable = if file.executable { "x" } else { "-" };
        hash.update(file.path.as_bytes());
        hash.update(format!(
            "\0{executable}\0{}\0{}\n",
            file.size,
            file.sha256.hex()
        ));
    }
    Digest::from_bytes(hash.finalize().into())
}

/// Reading or writing the unpacked source failed: the disk, not the input.
pub(super) fn spool_error(
    message: impl Into<std::borrow::Cow<'static, str>>,
    source: std::io::Error,
) -> Error {
    Error::internal(message).with_source(source)
}
