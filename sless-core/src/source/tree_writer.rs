//! Makes a tree out of an archive, one file after the other.

use std::{
    io::{Read, Write as _},
    sync::Mutex,
};

use sha2::{Digest as _, Sha256};
use tempfile::SpooledTempFile;

use super::{
    SourceFile, SourceLimits, SourceTree,
    file_reader::Contents,
    path::{CleanPath, Origin, PathSet},
    tree::spool_error,
};
use crate::{Digest, Error, Result};

/// Collects the files of an archive into a spool, in constant memory.
#[derive(Debug)]
pub(super) struct TreeWriter {
    origin: Origin,
    paths: PathSet,
    spool: SpooledTempFile,
    written: u64,
    files: Vec<(SourceFile, u64)>,
    skipped: Vec<String>,
}

impl TreeWriter {
    pub(super) fn new(origin: Origin, limits: &SourceLimits) -> Self {
        let memory = limits.memory_bytes;
        let spool = match &limits.spool_dir {
            Some(folder) => SpooledTempFile::new_in(memory, folder),
            None => SpooledTempFile::new(memory),
        };
        Self {
            origin,
            paths: PathSet::default(),
            spool,
            written: 0,
            files: Vec::new(),
            skipped: Vec::new(),
        }
    }

    /// Takes a path into the list, or says which other one it collides with.
    pub(super) fn claim(&mut self, path: &CleanPath) -> Result<()> {
        self.paths.insert(self.origin, path)
    }

    pub(super) fn skip(&mut self, name: String) {
        self.skipped.push(name);
    }

    /// Copies a file in. `broken` makes the error of a failed read. Answers with the size.
    pub(super) fn add(
        &mut self,
        path: String,
        executable: bool,
        content: &mut dyn Read,
        broken: &dyn Fn(std::io::Error) -> Error,
    ) -> Result<u64> {
        let place = self.written;
        let mut hash = Sha256::new();
        let mut buffer = [0; 32 << 10];
        loop {
            let read = match content.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(broken(error)),
            };
            hash.update(&buffer[..read]);
            self.spool
                .write_all(&buffer[..read])
                .map_err(|source| spool_error("cannot keep the unpacked source", source))?;
            self.written += read as u64;
        }
        let size = self.written - place;
        let file = SourceFile {
            path,
            size,
            executable,
            sha256: Digest::from_bytes(hash.finalize().into()),
        };
        self.files.push((file, place));
        Ok(size)
    }

    pub(super) fn finish(self) -> Result<SourceTree> {
        let contents = Contents::Spool(Mutex::new(self.spool));
        SourceTree::assemble(self.origin, self.files, contents, self.skipped)
    }
}
